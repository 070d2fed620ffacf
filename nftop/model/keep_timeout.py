"""Default time to keep a change; a module without imports, for `nftop --help`."""

# Time to keep an applied change before it is reverted.
KEEP_WITHIN_S = 60.0
