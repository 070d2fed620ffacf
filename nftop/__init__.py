"""nftop: a top for hosts that forward packets in software."""

__version__ = "0.1.0"
