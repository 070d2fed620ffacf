"""DPDK applications through their telemetry sockets (DPDK's Telemetry Library, protocol v2).

`source` finds and polls applications, `client` is one connection, `protocol` has the requests of a
poll and the meaning of their replies, `replies` parses untrusted JSON.
"""
