"""Every ovs-vswitchd with a userspace datapath, through its control socket (unixctl, JSON-RPC).

`source` finds and polls daemons, `jsonrpc` is one connection, `protocol` has the commands of each
version and parses their output, which is untrusted.
"""
