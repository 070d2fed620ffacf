"""Map of cache ways and sockets: estimates are marked, a sum has all of its values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from nftop.model.frame import Frame, PackageRow
from nftop.model.ids import Package
from nftop.model.metrics.package import PACKAGE_METRICS
from nftop.model.reading import Missing, Reading, Reason
from nftop.render.cores.resources import socket_lines
from tests.frames import frame

READ, WRITE = "memory.read_bytes_per_s", "memory.write_bytes_per_s"


def sockets(values: Mapping[str, Reading], estimates: frozenset[str] = frozenset()) -> list[str]:
    readings: dict[str, Reading] = {item.id: Missing(Reason.SOURCE) for item in PACKAGE_METRICS}
    row = PackageRow(Package(0), {**readings, **values}, estimates)
    shown: Frame = replace(frame(8), packages=(row,))
    lines = socket_lines(shown, lambda *_: np.zeros(12, np.float32))
    return [item.text for item in lines]


def test_estimates_are_marked_after_the_digits() -> None:
    values = {READ: 40e9, WRITE: 10e9, "pcie.read_bytes_per_s": 11.6e9}
    exact = sockets(values)
    assert not any("~" in text for text in exact) and " 50.0 " in exact[1]
    shown = sockets(values, frozenset({WRITE}))
    assert " 50.0~" in shown[1] and "~" not in shown[2]
    assert [len(text) for text in shown] == [len(text) for text in exact]


def test_memory_without_its_writes_is_no_sum() -> None:
    shown = sockets({READ: 40e9, WRITE: Missing(Reason.TAKEN), "pcie.read_bytes_per_s": 1e9})
    assert Reason.TAKEN.mark in shown[1] and "40" not in shown[1]
