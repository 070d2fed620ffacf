"""Microarchitectures, one TOML file each: events and the counter groups that count them.

Nothing here touches the host; `nftop.sources.perf` resolves encodings.
"""
