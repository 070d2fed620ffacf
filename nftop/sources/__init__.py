"""The only code that reads the host: one interface a module, root or path injected.

A source gives raw, cumulative values and the reason where it has none; it does no arithmetic that
a recording would lose.
"""
