"""Boxes with their counters: a group for each turn, of which one at a time is on.

A group never spans boxes. What goes wrong with one event leaves the others; what goes wrong with
nftop's own means, or its privileges, ends the opening of all boxes, since no other would fare
better.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nftop.model.reading import Reason
from nftop.sources.perf import pmu as sysfs
from nftop.sources.perf.abi import READ_HEADER_WORDS, Kernel, attribute
from nftop.sources.perf.probe import OWN_LIMITS
from nftop.sources.perf.problems import Problem, explain
from nftop.sources.uncore.boxes import Box
from nftop.sources.uncore.multiplex import turns_of
from nftop.uarch.table import Encoding

# What the next box would meet too.
OF_ALL = OWN_LIMITS | {errno.EACCES, errno.EPERM, errno.ENOSYS}


@dataclass(frozen=True, slots=True)
class Turn:
    """The group of one turn on one box: its events in the order they were opened.

    `fds[0]` is the leader's; none where no event of the turn could be opened.
    """

    events: tuple[str, ...]
    fds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OpenBox:
    """A box that was opened, as far as it could be.

    Attributes:
        turns: in the order of `multiplex.turns_of` its unit; none where a read of it failed.
        absent: why it lacks an event.
    """

    box: Box
    turns: tuple[Turn, ...]
    absent: Mapping[str, Problem]

    @property
    def counts(self) -> bool:
        """Some event of it was opened."""
        return any(turn.fds for turn in self.turns)

    @property
    def may_recover(self) -> bool:
        """It counts nothing for a reason that may pass."""
        return not self.counts and any(
            why.reason is not Reason.HARDWARE for why in self.absent.values()
        )


def open_box(kernel: Kernel, box: Box, root: Path = Path("/")) -> OpenBox | None:
    """Open every turn of a box, none of them on; None where the kernel refuses every event of it.

    So it does with a box that its other packages have and this one lacks.

    Raises:
        OSError: of nftop's own means or privileges (`OF_ALL`); nothing stays open.
    """
    encodings, absent = _encodings(box)
    turns: list[Turn] = []
    refusals: set[int] = set()
    try:
        for names in turns_of(box.unit):
            fds: list[int] = []
            events: list[str] = []
            turns.append(Turn((), ()))
            for name in names:
                if name not in encodings:
                    continue
                try:
                    attr = attribute(encodings[name], leader=not fds)
                    fds.append(kernel.open_event(attr, box.cpu, fds[0] if fds else -1))
                except OSError as error:
                    if error.errno in OF_ALL:
                        raise
                    refusals.add(error.errno or errno.EINVAL)
                    absent[name] = explain(error.errno or errno.EINVAL, root)
                else:
                    events.append(name)
                    turns[-1] = Turn(tuple(events), tuple(fds))
    except OSError:
        close_box(kernel, OpenBox(box, tuple(turns), absent))
        raise
    opened = OpenBox(box, tuple(turns), absent)
    return None if refusals == {errno.EINVAL} and not opened.counts else opened


def close_box(kernel: Kernel, opened: OpenBox) -> None:
    """Close every event of the box, leaders last."""
    for turn in opened.turns:
        for fd in reversed(turn.fds):
            kernel.close(fd)


def _encodings(box: Box) -> tuple[dict[str, Encoding], dict[str, Problem]]:
    encodings: dict[str, Encoding] = {}
    absent: dict[str, Problem] = {}
    pmu = replace(box.pmu, name=box.unit.pmu)  # what is wrong is wrong with all boxes
    for name, spec in box.unit.events.items():
        try:
            encodings[name] = sysfs.encode(pmu, spec.terms)
        except sysfs.PmuError as error:
            # An older kernel's formats, most often: a umask of 8 bits.
            absent[name] = Problem(Reason.HARDWARE, f"this kernel can't: {error}")
    return encodings, absent


@dataclass(frozen=True, slots=True, eq=False)
class BoxReadings:
    """One read of all groups of n boxes; g groups, in the order of boxes and turns.

    Attributes:
        values: uint64 (g, k), cumulative; what is beyond a group's width means nothing.
        enabled_ns, running_ns: uint64 (g,).
        faults: by box, the errno of a read that failed, or 0 where a group had lost its events.
        asked: how many groups were read; the others stand still.
    """

    values: NDArray[np.uint64]
    enabled_ns: NDArray[np.uint64]
    running_ns: NDArray[np.uint64]
    faults: Mapping[int, int]
    asked: int


class BoxReader:
    """Reads a fixed list of boxes, one call a group, into one buffer. The boxes stay the caller's.

    A group that is off is read without an interrupt; one that is on interrupts the box's CPU,
    unless the reader runs on the same package.
    """

    def __init__(self, kernel: Kernel, boxes: Sequence[OpenBox]) -> None:
        groups = [
            (at, turn, place >= len(box.box.unit.turns))
            for at, box in enumerate(boxes)
            for place, turn in enumerate(box.turns)
            if turn.fds
        ]
        width = max((len(turn.fds) for _, turn, _ in groups), default=0)
        self._readv = kernel.readv
        self._buffer = np.zeros((len(groups), READ_HEADER_WORDS + width), np.uint64)
        self._targets = [
            (box, turn.fds[0], (self._buffer[row, : READ_HEADER_WORDS + len(turn.fds)].data,))
            for row, (box, turn, _) in enumerate(groups)
        ]
        self._always = [
            target
            for target, (_, _, on_demand) in zip(self._targets, groups, strict=True)
            if not on_demand
        ]
        self._others_stand = False

    def read(self, *, on_demand: bool) -> BoxReadings:
        """Read every group once. Never raises: what failed is in `faults`.

        Unless `on_demand`, groups of that kind are off: they are what they were when read last.
        """
        faults: dict[int, int] = {}
        targets = self._always if self._others_stand and not on_demand else self._targets
        self._others_stand = not on_demand
        for box, fd, views in targets:
            try:
                # Short: the last CPU of the package went, and took the events out of their group.
                if self._readv(fd, views) != views[0].nbytes:
                    faults[box] = 0
            except OSError as error:
                faults[box] = error.errno or errno.EIO
        now = self._buffer.copy()
        counts, enabled_ns, running_ns = now[:, READ_HEADER_WORDS:], now[:, 1], now[:, 2]
        return BoxReadings(counts, enabled_ns, running_ns, faults, len(targets))
