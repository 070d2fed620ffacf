"""The simulated host: one pure model that emits what hardware and network functions would emit.

A scenario (TOML) and a number of CPUs make a `Model`; a model and a time give raw counts. Nothing
here reads a clock, keeps state or knows what will be derived from the counts.
"""
