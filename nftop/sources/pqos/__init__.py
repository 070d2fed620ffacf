"""Classes through MSRs, by PyPI's pqos and libpqos, where the kernel has no resctrl.

compat      which versions of the two fit each other, before a call into either
library     the two as one object: what it reads, in a process that may crash
protocol    what was read, and as the table that resctrl's source gives too
monitoring  monitors, which write RMIDs: only where an operator asked for them
worker      the process; client: starts it, asks it and does not wait for ever
source      the source
"""
