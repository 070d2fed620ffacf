"""Counters outside the cores through perf_event_open(2): boxes whose groups take turns."""
