"""Energy, C-states and throttling by the kernel's own counters."""
