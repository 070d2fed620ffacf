"""The simulated host: a pure model of the raw counts of hardware and network functions.

A scenario (TOML) and a number of CPUs make a `Model`; a model and a time give raw counts; `rdt`
adds cache classes and their changes. Only `world` reads a clock or keeps state.
"""
