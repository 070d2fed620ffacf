"""The lab's resctrl against what real kernels printed, line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path

import pytest

from tests.lab.tests import guest
from tests.lab.tests.hosts import SCALE, Lab, lab

DATA = Path(__file__).parents[2] / "data" / "kernel"
CONSOLES = (
    ("skx-linux-6.1", guest.whole),
    ("icx-linux-7.2", guest.whole),
    ("icx-linux-6.1", guest.short),
)


def is_counter(line: str) -> bool:
    """Whether a line is a number of mon_data: more than one step, and whole steps."""
    word = line.removeprefix("mon_data/*/*: ")
    return word.isdigit() and int(word) > SCALE and int(word) % SCALE == 0


@pytest.mark.parametrize(("console", "script"), CONSOLES, ids=[name for name, _ in CONSOLES])
def test_the_lab_prints_what_the_kernel_printed(
    console: str, script: Callable[[Lab], Iterator[str]]
) -> None:
    expected = (DATA / f"{console}.txt").read_text().splitlines()
    host = lab(console.rpartition("-")[2], at_s=30.0)
    host.clock.forward(3.0)
    printed = list(script(host))
    result = {
        number: mine or ""
        for number, (theirs, mine) in enumerate(zip_longest(expected, printed), 1)
        if theirs != mine and not (is_counter(theirs or "") and is_counter(mine or ""))
    }
    assert result == {}


def test_the_consoles_have_counters_to_compare() -> None:
    for console, script in CONSOLES:
        lines = (DATA / f"{console}.txt").read_text().splitlines()
        assert sum(map(is_counter, lines)) == (12 if script is guest.whole else 0)
