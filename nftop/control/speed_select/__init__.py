"""SST-BF and SST-CP classes as a backend, by intel-speed-select.

operations  what the tool and the kernel report of a host; a change as single calls of the tool
backend     actions to a proposal; state, lock, and the only calls that set something

The tool exits with 0 whatever a call did, so that only values that are read back count. It is run
without its option -a, with which it sets the limits of every SST-CP class, the class of every CPU,
and scaling_min_freq, none of which it can restore. So switching SST-BF is one bit of a power
domain, and undone exactly.

Sources: tools/power/x86/intel-speed-select/isst-config.c (`set_pbf_for_cpu`, `set_clos_assoc`) and
isst-core.c (`isst_set_pbf_fact_status`) of Linux 5.3 to 6.12;
Documentation/admin-guide/pm/intel-speed-select.rst.
"""
