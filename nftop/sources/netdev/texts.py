"""What /proc/net says, as numbers. Every parser raises ValueError where it can't be read.

Layouts: softnet_seq_show and dev_seq_printf_stats in the kernel's net/core/net-procfs.c;
snmp_seq_show in net/ipv4/proc.c, snmp6_seq_show in net/ipv6/proc.c.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nftop.model.sample import Counts

# The CPU's number is the 13th word, from Linux 5.10 on.
_INDEX = 12
_SOFTNET_WORDS = 9
_DEV_WORDS = 16


def parse_softnet(text: str, online: Sequence[int]) -> tuple[NDArray[np.int32], Counts]:
    """CPUs, and of each what it has taken in, dropped and left waiting.

    A line a CPU that is online; `online` says which where an older kernel's lines do not.
    """
    words = [line.split() for line in text.splitlines()]
    if not words or any(len(entry) < _SOFTNET_WORDS for entry in words):
        raise ValueError("it has no lines of CPUs")
    if all(len(word) > _INDEX for word in words):
        cpus = [int(item[_INDEX], 16) for item in words]
    elif len(words) == len(online):
        cpus = list(online)
    else:
        raise ValueError(f"it has lines of {len(words)} CPUs, and {len(online)} are online")
    if len(set(cpus)) < len(cpus) or max(cpus) >= 1 << 16:
        raise ValueError("its lines are of no CPUs that there can be")
    counts = [[int(word, 16) for word in item[:3]] for item in words]
    if any(count >= 1 << 32 for row in counts for count in row):
        raise ValueError("its numbers have more than 32 bits")
    return np.array(cpus, np.int32), np.array(counts, np.uint64)


def parse_dev(text: str) -> dict[str, tuple[int, int]]:
    """Packets received and sent of each interface by name."""
    found = {}
    for line in text.splitlines()[2:]:
        name, colon, rest = line.rpartition(":")
        words = rest.split()
        if not colon or len(words) < _DEV_WORDS:
            raise ValueError("its lines are of no interfaces")
        found[name.strip()] = int(words[1]), int(words[9])
    return found


def parse_forwarded(snmp: str, snmp6: str) -> int | None:
    """IP packets forwarded, of both versions; None where neither text has them."""
    found = []
    lines = [line.split() for line in snmp.splitlines() if line.startswith("Ip:")]
    if len(lines) == 2 and "ForwDatagrams" in lines[0]:
        found.append(int(lines[1][lines[0].index("ForwDatagrams")]))
    for line in snmp6.splitlines():
        name, _, number = line.partition(" ")
        if name.rstrip() == "Ip6OutForwDatagrams":
            found.append(int(number))
    return sum(found) if found else None
