"""Default time to keep a change; a module without imports, for `nftop --help`."""

# How long an applied change waits for somebody to keep it.
KEEP_WITHIN_S = 60.0
