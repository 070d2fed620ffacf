"""Readings, columns, topology, samples, frames and the metric catalogue; nothing reads the host."""
