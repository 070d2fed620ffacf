"""Counts from files: output of `perf stat`, or plain JSON."""
