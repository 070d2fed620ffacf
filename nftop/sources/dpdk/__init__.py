"""DPDK applications through their telemetry sockets (DPDK's Telemetry Library, protocol v2).

`source` finds and polls applications, `client` is one connection, `protocol` has the requests of a
poll and parses their replies, which are untrusted.
"""
