"""cpufreq as Linux 6.1 has it: what may be written, what comes of it, what is read back.

    policy    one policy: requests, limits in effect, governor, energy_performance_preference
    host      all policies of a host, intel_pstate's own files, the limits of the mesh
    tree      the folders below /sys/devices/system/cpu that are read and written

Sources: drivers/cpufreq/{cpufreq,intel_pstate,freq_table}.c, kernel/power/qos.c,
include/linux/cpufreq.h, drivers/platform/x86/intel/uncore-frequency/*.c.

Deliberate differences: intel_pstate stays in the mode that it is in (`status`: EBUSY for another),
policies are not lost when their driver is, nothing but these files asks for a limit, and the
counters of the lab's cores do not follow: their frequency is the scenario's.
"""
