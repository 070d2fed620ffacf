"""The lab: kernel interfaces emulated well enough that unmodified programs see a Xeon.

One model, `nftop.sim`'s, is served by one FUSE server: as files of the kernel's, and as events that
a supervisor gives to who calls perf_event_open. `python -m tests.lab -- COMMAND` runs it inside.

    options, requirements    what a lab can be told to be; what it needs of the machine it runs on
    processes, namespace     its processes and how all of them end; its mounts
    host                     the model, the clock, and every tree and file made from them
    machine                  the servers, and what a guest or a kernel makes of their PMUs
    switches                 what root changes while it runs: CPUs online, sysctls
    server, tree             FUSE, and the protocol of what it serves: a `Tree` knows nothing of it
    texts, files, proc       trees of small texts; the static files of sysfs; what /proc says
    calls/                   system calls that don't reach the kernel, and who answers them
    perf/, uncore/, resctrl/, cpufreq/   one kernel interface each; their docstrings say how
    msr/, cpuid/             /dev/cpu, and the instruction CPUID: which programs are shown changed

What to add, and where:

    a machine          machines/NAME.toml: a table for each interface that needs to know
    its core PMU       perf/pmus/NAME.toml, and what its events count in nftop/sim/events.toml
    energy, C-states   meters.py
    its uncore PMUs    uncore/NAME.toml, and what their events count in nftop/sim/boxes.toml
    its NICs           `simulated_ports` in nftop/sim/uncore.py, shown with --nics
    a kernel           resctrl/profiles/VERSION.toml
    a file of /proc    a row in `host._proc`; dots where its path has slashes; a sysctl or a file of
                       a CPU that root writes: in `switches`, whose `changed` tells who must know
    a sysfs folder     a `Folder` in `host.folders`, written anew when CPUs come or go; a file that
                       is asked often or written: a `Text` in `host._sys`
    an interface       a package with a `Tree`, and a line in `host.trees`: /sys/fs/lab/live/NAME
                       then answers; `namespace` binds it where programs look for it
    a knob             an option, and a `Text` in `host._control` if it changes while the lab runs
    a lesser PMU       a row of `machine.PMUS`
    a system call      a handler, as `calls` says

Programs run unmodified, but for those that execute CPUID to know which CPU it is (libpqos, and with
it pqos and PyPI's pqos, and PCM): inside they find copies of these files, mounted over them, that
ask the lab instead. `cpuid/__init__.py` says how. Nothing on disk is changed.
"""
