"""Source `resctrl`: the kernel's file system of cache classes and monitors, read and never written.

Facts: the Linux kernel's Documentation/filesystems/resctrl.rst, and fs/resctrl of Linux 7.2 with
what was arch/x86/kernel/cpu/resctrl in 6.1.
"""
