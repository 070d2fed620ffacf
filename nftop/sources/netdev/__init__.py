"""The kernel's own data path: /proc/net and the interfaces in sysfs."""
