"""VPP, by its stats segment, which is mapped read-only.

discovery   the sockets that hand segments out
process     whom such a socket is of, whether it still runs, where its threads are bound
compat      which versions of PyPI's vpp-papi read a segment
connection  asking a socket for its segment
protocol    what a reading found, as it goes from the worker to nftop
payload     the same as samples keep it
segment     reading a segment with vpp-papi
worker      the process that does that: it may crash, or spin on a segment that is never finished
reader      that process, as nftop sees it
cache       the last reading of each
liveness    how long one has stood still, and what that means
session     one VPP: socket, segment, reader
source      all of them
"""
