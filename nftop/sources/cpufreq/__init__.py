"""Source `cpufreq`: CPU frequency limits, what sets them, and cores favoured by hardware.

files    sysfs: policies, intel_pstate, the mesh; other programs that set frequencies
isst     SST, from intel-speed-select if installed
source   what is read how often

Current frequencies are not read: `scaling_cur_freq` interrupts the CPU before Linux 5.18.
"""
