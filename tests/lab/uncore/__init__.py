"""PMUs of units outside the cores: boxes, as sysfs shows and perf_event_open counts them.

    units       which there are on a machine; tables in skx.toml (which explains them) and its like
    files       their folders of sysfs
    events      what an event of a box counts, which counters and filters it takes, or its errno
    boxes       whose events they are: a box's share of what its package does; the CPU they move to

What an event counts is in nftop/sim/boxes.toml. A machine's file names its table in `[perf]`.

Known differences from a kernel: free-running counters don't wrap; no box is in a group with
software events; `filter_band` of the PCU filters nothing.
"""
