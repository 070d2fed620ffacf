"""What real kernels answered to perf_event_open, line by line, against the lab's files.

The script was not kept, as that of `guest`: it is restored from what it printed. Where it printed
a descriptor's number the call succeeded, and no number is compared.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lab.tests.events import CPUS, GENERAL, GROUP, MS, RAW, TIMES, Lab, id_of, words

DATA = Path(__file__).parents[2] / "data" / "kernel"
# Type, config and CPU; the kernel had eight CPUs, and so there was no sixteenth either.
CALLS = ((99, 0, 0), (RAW, 60, CPUS), (0, 7, 0), (RAW, 0x400, 0), (RAW, 0x8000, 0))
OPENED = "opened"


def outcome(lab: Lab, config: int, pmu_type: int = RAW, **how: int) -> str:
    return os.strerror(number) if (number := lab.code(pmu_type, config, **how)) else OPENED


def calls(lab: Lab) -> Iterator[str]:
    for call in CALLS:
        yield f"{call} {outcome(lab, call[1], call[0], cpu=call[2])}"
    # Cycles, instructions and two events for general counters; four more of those.
    leader = lab.group(0x3C, 0xC0, *GENERAL[:2])
    answers = []
    for config in GENERAL[2:6]:
        answers.append(outcome(lab, config, leader=id_of(leader)))
        if answers[-1] == OPENED:
            lab.raw(config, leader=id_of(leader))
    yield f"gp over-commit in group: {answers}"
    try:
        leader.read(8, 0)
    except OSError as error:
        yield f"short read {error}"


def metrics(lab: Lab) -> Iterator[str]:
    yield f"metric without slots leader {outcome(lab, 0x8000)}"
    slots = lab.raw(0x400, form=TIMES | GROUP)
    for config in (0x8000, 0x8100, 0x8200, 0x8300):
        lab.raw(config, leader=id_of(slots))
    yield f"L2 metric on ICX {outcome(lab, 0x8400)}"
    yield f"unknown metric {outcome(lab, 0x8800)}"


def printed(console: str) -> list[str]:
    """Its lines, with `OPENED` for the number of a descriptor."""

    def output(line: str) -> str:
        head, _, last = line.rpartition(" ")
        if line.startswith("gp over-commit"):
            what, _, answers = line.partition("[")
            item = [word.strip().strip("'") for word in answers.rstrip("]").split(",")]
            return f"{what}{[OPENED if word.isdecimal() else word for word in item]}"
        return f"{head} {OPENED}" if last.isdecimal() else line

    return [output(line) for line in (DATA / f"{console}-perf.txt").read_text().splitlines()]


@pytest.mark.parametrize(
    ("console", "machine", "script"),
    [
        ("skx-linux-6.1", "skx-4", calls),
        ("icx-linux-7.2", "icx", calls),
        ("icx-linux-6.1", "icx", metrics),
    ],
)
def test_the_lab_answers_as_the_kernel_did(
    console: str, machine: str, script: Callable[[Lab], Iterator[str]]
) -> None:
    assert list(script(Lab(machine, watchdog=True))) == printed(console)


@pytest.mark.parametrize(
    ("console", "machine"), [("skx-linux-6.1", "skx-4"), ("icx-linux-7.2", "icx")]
)
def test_events_take_turns_as_they_did_present(console: str, machine: str) -> None:
    """Beside the watchdog: {cycles,instructions,r20d1,r04d1} and the other five by themselves.

    perf printed the share of its time that each was counted in, over about a second.
    """
    lines = (DATA / f"{console}-turns.txt").read_text().splitlines()
    printed = [float(line.rpartition("(")[2].removesuffix("%)")) for line in lines]
    lab = Lab(machine, watchdog=True)
    leader = lab.group(0x3C, 0xC0, 0x20D1, 0x4D1)
    handles = [leader] * 4 + [lab.raw(config) for config in (0x1D1, 0x2D1, 0x8D1, 0x10D1, 0x151)]
    lab.now_ns = 60 * 4 * MS  # ten rounds of six turns
    seen = [100 * row[2] / row[1] for row in map(words, handles)]
    # There a second was no whole number of rounds.
    assert seen == pytest.approx(printed, abs=0.2)
