"""VPP, by its stats segment, which is mapped read-only.

source    finds and polls VPPs
session   one VPP: socket, segment, latest reading; whether it runs; CPUs of its threads
reader    client of the process that reads a segment; tables of a reading; vpp-papi's version
worker    that process: it may crash, or spin on a segment whose update never ends
segment   reading a segment with vpp-papi
protocol  messages between reader and worker
"""
