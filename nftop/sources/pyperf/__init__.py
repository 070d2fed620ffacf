"""Counters through the kernel's own Python module `perf`, for CPUs that nftop has no table for."""
