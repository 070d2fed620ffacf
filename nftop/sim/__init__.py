"""The simulated host: one pure model that emits what hardware and network functions would emit.

A scenario (TOML) and a number of CPUs make a `Model`; a model and a time give raw counts; `rdt`
adds its cache classes, and what it is after they are changed. Nothing here but `world` reads a
clock or keeps state, and nothing knows what will be derived from the counts.
"""
