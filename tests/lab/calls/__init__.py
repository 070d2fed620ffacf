"""System calls of the programs inside that would touch the real host: caught, and answered.

    supervisor   runs the command and hands its calls to handlers, by number
    seccomp      how they are caught and answered; caller: what is asked about who calls
    keeper       keeps the command's processes together until their end
    affinity     to CPUs that only the lab has; mounting: of resctrl

A handler for one more call is a module with `handlers(...)`, here or in the package of what answers
(`perf.opening`), its number in `seccomp`, and a line in `processes._handlers`.
"""
