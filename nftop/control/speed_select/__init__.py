"""SST-BF and SST-CP classes as a part of the host that can be changed, by intel-speed-select.

state       what the tool and the kernel say of a host
operations  a change as single calls of the tool
plan        actions to a proposal: every core touched, and its base frequency then
backend     the backend: state, lock, and the only calls that set something

The tool ends with 0 whatever came of a call, so that only what is read back counts. It is run
without its option -a, with which it sets the limits of every SST-CP class, the class of every CPU,
and scaling_min_freq, none of which it can bring back. So switching SST-BF is one bit of a power
domain, and undone exactly.

Sources: tools/power/x86/intel-speed-select/isst-config.c (`set_pbf_for_cpu`, `set_clos_assoc`) and
isst-core.c (`isst_set_pbf_fact_status`) of Linux 5.3 to 6.12;
Documentation/admin-guide/pm/intel-speed-select.rst.
"""
