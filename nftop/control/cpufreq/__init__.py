"""Frequencies and priority of cores as parts of a host that can be changed.

policies         what the kernel tells of each frequency policy
sysfs            the files of cpufreq, beneath one directory
operations       a change as single writes, in an order whose every state is valid
plan             actions to a proposal
original_values  what a policy was before nftop's own changes of it
backend          what all backends with frequencies have in common
choices          what a screen offers for a core
shown            what is set for each CPU, to be shown
cpufreq          the backend: state, and the only writes
simulated        the simulated host's frequencies

What is read back is what is in effect, after the kernel's clamping, and not what was asked for:
that is what is compared, and what the way back leads to.
"""
