"""The vocabulary: readings, columns, topology, samples, frames, the metric catalogue.

Frozen dataclasses over numpy and the standard library. Nothing here touches the host.
"""
