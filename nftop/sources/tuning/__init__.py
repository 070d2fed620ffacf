"""How the host is set up for cores that poll, as papers on software data planes advise.

`nftop doctor` alone looks at it. Everything is read from sysfs and procfs; nothing is changed.
"""
