"""Source `cpufreq`: how fast CPUs may run, who sets that, and which cores the hardware favours.

    files       what sysfs says of policies, intel_pstate and the mesh
    isst        what intel-speed-select says of SST, where it is installed
    isst_lines  the lines that it prints
    keepers     who else sets frequencies here
    source      what of it is read when

Nothing here tells how fast a CPU runs now: `scaling_cur_freq` interrupts it before Linux 5.18.
"""
