"""Microarchitectures: which events count what, and how they go together in counter groups.

One TOML file each. Nothing here touches the host; encodings are resolved against it by
`nftop.sources.perf`.
"""
