"""Where the limits of findings come from, as rules cite them."""

TALK = 'Intel, "Performance Considerations for Packet Processing on Intel Architecture"'
STABLE = '"Achieve stable high performance DPDK Application on modern CPU"'
RDT = (
    'Intel, "Deterministic Network Functions Virtualization with Intel Resource Director '
    'Technology"'
)
