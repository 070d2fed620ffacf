"""Map of queues to lcores that the operator has configured."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NewType, TypeAlias

from nftop.model.ids import Lcore

Queue: TypeAlias = tuple[int, int]  # port, queue
Prefix = NewType("Prefix", str)  # an EAL file prefix
QueueMap: TypeAlias = Mapping[Prefix, Mapping[Queue, Lcore]]

# The triple is l3fwd's own, so that its --config can be pasted.
_ENTRY = re.compile(r"\s*\(\s*(\d{1,5})\s*,\s*(\d{1,5})\s*,\s*(\d{1,5})\s*\)\s*")


def parse_triples(text: str) -> dict[Queue, Lcore] | None:
    """Parse `(port,queue,lcore),...` as l3fwd's --config; None for any other text."""
    queues: dict[Queue, Lcore] = {}
    position = 0
    while entry := _ENTRY.match(text, position):
        port, queue, lcore = (int(number) for number in entry.groups())
        queues[port, queue] = Lcore(lcore)
        position = entry.end()
        if position == len(text):
            return queues
        if text[position] != ",":
            return None
        position += 1
    return None


def parse_queue_map(texts: Iterable[str]) -> QueueMap:
    """Parse texts `PREFIX:(port,queue,lcore),...` of `--queue-map`.

    Raises:
        ValueError: a text is not of that form, or names a queue twice.
    """
    queue_map: dict[Prefix, dict[Queue, Lcore]] = {}
    for text in texts:
        prefix, colon, triples = text.rpartition(":")
        queues = parse_triples(triples)
        if not prefix or not colon or queues is None:
            raise ValueError(f"{text!r} is not PREFIX:(port,queue,lcore),...")
        known = queue_map.setdefault(Prefix(prefix), {})
        for queue in queues.keys() & known.keys():
            raise ValueError(f"port {queue[0]} queue {queue[1]} of {prefix!r} is mapped twice")
        known |= queues
    return queue_map
