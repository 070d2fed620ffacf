"""DPDK applications through their telemetry sockets (DPDK's Telemetry Library, protocol v2).

`discovery` finds sockets, `client` is one connection, `replies` turns untrusted JSON into values,
`protocol` says what is asked in which order, `poll` keeps one session per application and polls
them all at once, `source` is what the sampler sees.
"""
