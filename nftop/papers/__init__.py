"""What the papers on software data planes measured, as printed: to stand beside what runs here.

A folder for each paper and a TOML file for each of its tables. Nothing here touches the host.
"""
