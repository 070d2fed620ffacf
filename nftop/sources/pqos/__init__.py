"""Classes through MSRs, by PyPI's pqos and libpqos, where the kernel has no resctrl.

library   the two as one object, in a process that may crash; which versions fit each other
worker    that process, and its monitors, which write RMIDs: only if an operator asked for them
protocol  its messages; the table that the resctrl source gives too
source    the source, and the client of the process
"""
