"""Frequencies and priority of cores as a backend.

policies    what the kernel reports of each policy, rows to show, actions that a screen offers
operations  a change as single writes, in an order whose every state is valid
backend     actions to a proposal; common to the real and the simulated backend
cpufreq     the kernel's: state, and the only writes

Values that are read back are in effect after the kernel's clamping, not what was requested: these
are compared, and restored by an undo.
"""
