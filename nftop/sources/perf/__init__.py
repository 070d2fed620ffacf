"""Hardware and kernel counters through perf_event_open(2): one group per CPU, one read a tick."""
