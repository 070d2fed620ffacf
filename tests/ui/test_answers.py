"""Every scenario of the simulated host: seconds and keys until the screen has the answer.

`python -m tests.ui.test_answers` prints them, for each size of terminal.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from nftop.model.frame import Frame
from nftop.model.incident import Severity
from tests.derive.incidents.test_scenarios import EXPECTED, Expected
from tests.sim.hosts import Frozen, S, span_s
from tests.ui.harness import Running, running

SIZES = ((80, 24), (120, 36))
WITHIN_S = 10
NO_KEY_AFTER_S, ONE_KEY_AFTER_S = 30, 60
_NOISY = Expected("neighbour", Severity.BAD, ("class", "tenant"), None, ("vpp",))
# Scenario: what is expected, and seconds at which the event begins and ends.
EVENTS = {
    **{name: (expected, *span_s(name)) for name, expected in EXPECTED.items()},
    "noisy": (_NOISY, 60, None),
}


@dataclass
class Answer:
    """Seconds after the begin of the event, or after its end, at which a screen was read.

    Attributes:
        seen_s: from the begin until culprit and first victim are on screen; None: never.
        lost_s: seconds after the end at which the culprit is no longer there, of those tried.
        keys: keys pressed to see it a minute after its end.
    """

    seen_s: int | None = None
    lost_s: tuple[int, ...] = ()
    keys: int = 0


def _culprits(expected: Expected, frame: Frame) -> set[str]:
    """Names under which the culprit may be shown: its own, its cache class, its process."""
    names = {expected.culprit[1]}
    if expected.culprit[0] == "process":
        items = (*frame.incidents, *frame.past_incidents)
        names |= {item.group for item in items if item.kind == expected.kind and item.group}
    return names


def _line_of(text: str, names: set[str]) -> str:
    return next((row for row in text.splitlines() if any(name in row for name in names)), "")


def shows(text: str, expected: Expected, frame: Frame) -> bool:
    """Whether one line names the culprit, and the screen its first victim."""
    victims = expected.victims[:1]
    return bool(_line_of(text, _culprits(expected, frame))) and all(
        name.rpartition("/")[0] or name in text for name in victims
    )


async def answer(name: str, size: tuple[int, int]) -> Answer:
    """Play a scenario on a screen of this size; no key is pressed until a minute after its end."""
    expected, begins_s, ends_s = EVENTS[name]
    host = Frozen(name, traffic=None)
    first = host.tick(0)
    got = Answer()
    async with running(first, host.tick((begins_s - 10) * S), size=size) as run:
        for _ in range(9):
            await run.give(host.tick(S))
        assert not _is_named(run, expected)
        for second in range(1, WITHIN_S + 10):
            frame = host.tick(S)
            text = await run.give(frame)
            if got.seen_s is None and shows(text, expected, frame):
                got.seen_s = second
        if ends_s is None:
            return got
        # What has ended is known to have ended some seconds later.
        frames = [host.tick(S) for _ in range(ends_s - begins_s - WITHIN_S - 10 + NO_KEY_AFTER_S)]
        text = await run.give(*frames)
        if not shows(text, expected, frames[-1]):
            got.lost_s += (NO_KEY_AFTER_S,)
        frames = [host.tick(S) for _ in range(ONE_KEY_AFTER_S - NO_KEY_AFTER_S)]
        text = await run.give(*frames)
        if not shows(text, expected, frames[-1]):
            got.keys = 1
            text = await run.press("5")
            if not shows(text, expected, frames[-1]):
                got.lost_s += (ONE_KEY_AFTER_S,)
    return got


def _is_named(run: Running, expected: Expected) -> bool:
    """Whether an incident line names the culprit although nothing has happened yet."""
    rows = run.text.splitlines()[:8]
    return any(
        f"● {expected.culprit[1]}" in row or f"▲ {expected.culprit[1]}" in row for row in rows
    )


# Few are played tick by tick; `test_scenarios` draws the moments that count, of all at every size.
CASES = [*((name, SIZES[0]) for name in ("collapse", "idle", "noisy")), ("noisy", SIZES[1])]


@pytest.mark.parametrize(("name", "size"), CASES)
async def test_culprit_and_victim_are_on_screen(name: str, size: tuple[int, int]) -> None:
    got = await answer(name, size)
    assert got.seen_s is not None and got.seen_s <= WITHIN_S, got
    assert got.lost_s == ()
    assert got.keys <= 1


def main() -> None:
    print(f"{'scenario':14}{'size':>8}  seconds  lost after  keys a minute after its end")
    for name in sorted(EVENTS):
        for size in SIZES:
            got = asyncio.run(answer(name, size))
            print(
                f"{name:14}{size[0]}x{size[1]:<4}{got.seen_s!s:>8}  {got.lost_s!s:>10}  {got.keys}"
            )


if __name__ == "__main__":
    main()
