"""One module per kind of network function that has statistics; each registers its fold.

A new module is imported here.
"""

from nftop.derive.nf.kinds import dpdk, ovs, vpp

__all__ = ["dpdk", "ovs", "vpp"]
