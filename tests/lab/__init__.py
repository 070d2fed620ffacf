"""The lab: kernel interfaces emulated well enough that unmodified programs see a Xeon.

One model, `nftop.sim`'s, is served as files by one FUSE server, and as counters by a supervisor
that answers perf_event_open. `python -m tests.lab -- COMMAND` runs a command inside.
"""
