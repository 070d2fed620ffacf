"""Profiles: allocations in a file, to be read into a proposal or exported from a host.

Two formats: nftop's own (TOML) and that of `pqos -f`. Reading never changes anything: errors are
listed with edits of the text that would fix them, and only accepted edits are made.
"""
