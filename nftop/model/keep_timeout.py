"""What the parser of command lines and everybody after it know of keeping a change.

A module of its own, for `nftop --help` to import nothing else.
"""

# How long an applied change waits for somebody to keep it.
KEEP_WITHIN_S = 60.0
