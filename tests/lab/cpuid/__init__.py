"""CPUID, for the programs that ask the CPU itself: libpqos' MSR interface, and PCM.

The instruction is no system call, and where the CPU has no CPUID faulting (arch_prctl with
ARCH_SET_CPUID says ENODEV: AMD's, and most guests) no kernel can answer in its place. So the lab
shows these programs changed:

    programs   which: libpqos and PCM's own, where Debian and `make install` put them
    rewrite    a copy in memory of each, in which every CPUID instruction is a breakpoint and a
               handler of its signal asks the lab instead; bound over the file inside the lab only
    calls      answers what the handler asks, by the CPU that the asking thread was put on
    leaves     what a CPU of the lab's says

The files on disk stay as they are, and so do all other programs, libc and the dynamic linker among
them, which choose instructions by what the real CPU can do. A debugger inside sees SIGTRAPs. The
copies are of the lab's own memory file system, so they go with it.
"""
