"""Frequencies and priority of cores as a backend.

policies         what the kernel reports of each frequency policy, and rows to show
operations       a change as single writes, in an order whose every state is valid
backend          actions to a proposal; what the real and the simulated backend have in common
choices          what a screen offers for a core
cpufreq          the kernel's: state, and the only writes

What is read back is what is in effect after the kernel's clamping, not what was requested: that is
what is compared, and what an undo leads to.
"""
