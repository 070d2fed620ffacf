"""VPP, by its stats segment, which is mapped read-only.

source    finds and polls VPPs
session   one VPP: socket, segment, reader, latest reading; whether its process runs and updates
          the segment; CPUs of its threads
reader    client of the process that reads a segment
worker    that process: it may crash, or spin on a segment whose update never ends
segment   reading a segment with vpp-papi
protocol  messages between reader and worker
compat    which versions of PyPI's vpp-papi read segments correctly
"""
