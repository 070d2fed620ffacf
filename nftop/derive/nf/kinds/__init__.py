"""Kinds of network functions with statistics; each module registers its fold.

Import a new module here.
"""

from nftop.derive.nf.kinds import dpdk, ovs, vpp

__all__ = ["dpdk", "ovs", "vpp"]
