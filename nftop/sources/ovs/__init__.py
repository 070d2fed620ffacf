"""Every ovs-vswitchd with a userspace datapath, through its control socket (unixctl, JSON-RPC).

`discovery` finds sockets, `jsonrpc` is one connection, `replies` and `framing` turn untrusted bytes
into texts, `commands` says which of them a version has, `parse` reads the texts, `poll` keeps one
session per daemon, `source` is what the sampler sees.
"""
