"""Readers of the host: one interface per module, with its root or path as a parameter.

A source returns raw, cumulative values, or the reason why there are none.
"""
