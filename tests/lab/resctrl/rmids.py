"""RMIDs: taken, given back, and in limbo until the cache has forgotten them."""

from __future__ import annotations

import errno
from collections import deque
from dataclasses import dataclass, field

from nftop.model.column import Floats
from tests.lab.tree import failed

# How often the kernel looks whether an RMID in limbo has left the cache.
CHECK_NS = 1_000_000_000


@dataclass(slots=True)
class Limbo:
    """When it was given back, and the columns of the nodes that may still hold its lines."""

    since_ns: int
    nodes: set[int]


@dataclass(slots=True)
class Pool:
    """RMIDs that no group has: `free` in the order in which they are given out."""

    free: deque[int]
    limbo: dict[int, Limbo] = field(default_factory=dict)


def pool(count: int) -> Pool:
    """All but RMID 0, which is the root group's."""
    return Pool(deque(range(1, count)))


def take(own: Pool) -> int:
    """The next RMID.

    Raises:
        OSError: EBUSY while one will be free after a while, ENOSPC if none will.
    """
    if not own.free:
        number = errno.EBUSY if own.limbo else errno.ENOSPC
        raise failed(number)
    return own.free.popleft()


def give_back(
    own: Pool, rmid: int, at_ns: int, held_bytes: Floats, threshold_bytes: int, *, always: bool
) -> None:
    """An RMID whose group is gone.

    Args:
        own: the pool.
        rmid: to be given back.
        at_ns: now.
        held_bytes: (d,), what it holds of each node; none at all where that can't be measured.
        threshold_bytes: what it may hold and yet be free.
        always: it waits for the next check even if it holds nothing.
    """
    nodes = {at for at, held in enumerate(held_bytes) if always or held > threshold_bytes}
    if nodes:
        own.limbo[rmid] = Limbo(at_ns, nodes)
    else:
        own.free.append(rmid)


def check(own: Pool, at_ns: int, held_bytes: Floats, threshold_bytes: int) -> None:
    """Free those in limbo that were found below the threshold; `held_bytes` is (r, d)."""
    for rmid, limbo in list(own.limbo.items()):
        if at_ns - limbo.since_ns < CHECK_NS:
            continue
        limbo.nodes = {at for at in limbo.nodes if held_bytes[rmid, at] >= threshold_bytes}
        if not limbo.nodes:
            del own.limbo[rmid]
            own.free.append(rmid)
