"""Counts that were taken elsewhere, from the files of who took them: `perf stat`, or plain JSON."""
