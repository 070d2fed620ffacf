"""What intel-speed-select tells of SST: asked seldom, understood line by line, believed in part.

It prints a thing a line, as text or as JSON, to standard error; whether that is valid JSON depends
on its version (those to Linux 5.8 left out brackets), so lines are read and not the whole:

    "package-0:die-0:cpu-0": {         or   package-0 / die-0 / cpu-0 below each other
      "perf-profile-level-0": {
        "speed-select-base-freq": "enabled",

Source: tools/power/x86/intel-speed-select/isst-display.c and isst-config.c, Linux 5.3 to 6.12.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nftop.model.ids import Cpu, Package, parse_cpu_list
from nftop.model.reading import Missing, Reason
from nftop.model.sst import SstPackage, SstState, Switch
from nftop.sources.runner import Said, find, run

PROGRAM = "intel-speed-select"
LIMIT_S = 10.0
# So many CPUs the first versions took at once.
_AT_ONCE = 64
_PLACE = re.compile(r"(package|die|powerdomain|cpu)-(\d{1,5})")
_LEVEL = re.compile(r"perf-profile-level-(\d{1,2})")
_SWITCHES: Mapping[str, Switch] = {"enabled": True, "disabled": False}
_MHZ = 1_000_000
_MOST_MHZ, _MOST_CLASS = 20_000, 3
_NO_TOOL = Missing(
    Reason.SOURCE,
    f"{PROGRAM} is not installed: SST's state is not told, base frequencies are",
)

# Runs it with these words.
Ask = Callable[[Sequence[str]], Said | Missing]


@dataclass(slots=True)
class _Place:
    """Where a line belongs."""

    package: int | None = None
    die: int = 0
    cpu: int | None = None
    level: int | None = None


@dataclass(slots=True)
class _Level:
    """What one SST-PP level of a die says."""

    values: dict[str, str] = field(default_factory=dict)

    def switch(self, name: str) -> tuple[Switch, Switch]:
        """Whether it is on, and whether it is supported."""
        word = self.values.get(f"speed-select-{name}", "")
        if word == "unsupported":
            return False, False
        return _SWITCHES.get(word), True if word in _SWITCHES else None

    def hz(self, name: str) -> int | None:
        text = self.values.get(f"{name}(MHz)", "")
        mhz = int(text) if text.isdecimal() and len(text) < 8 else 0
        # The first versions for Cascade Lake-N printed kHz under the name of MHz.
        mhz = mhz // 1000 if mhz > _MOST_MHZ else mhz
        return mhz * _MHZ if 0 < mhz <= _MOST_MHZ else None

    def cpus(self, name: str) -> tuple[Cpu, ...]:
        try:
            return parse_cpu_list(self.values.get(name, ""))
        except ValueError:
            return ()


def read_sst(cpus: Sequence[int], root: Path = Path("/")) -> SstState | Missing:
    """SST as it is now, of these CPUs; why it is not told. Takes a second or so on large hosts."""
    program = find(PROGRAM, root)
    if program is None:
        return _NO_TOOL
    return ask_sst(cpus, lambda words: run(program, words, LIMIT_S))


def ask_sst(cpus: Sequence[int], ask: Ask) -> SstState | Missing:
    """As `read_sst`, of whatever `ask` answers."""
    told = _asked(ask, ("-f", "json", "perf-profile", "info"))
    if isinstance(told, Missing):
        return told
    current = _asked(ask, ("-f", "json", "perf-profile", "get-config-current-level"))
    levels = {} if isinstance(current, Missing) else _current_levels(current)
    packages = _packages(told, levels)
    if not packages:
        return Missing(Reason.SOURCE, f"{PROGRAM}: {_complaint(told)}")
    classes: dict[int, int] = {}
    if any(each.cp for each in packages):
        for first in range(0, len(cpus), _AT_ONCE):
            wanted = ",".join(map(str, cpus[first : first + _AT_ONCE]))
            answer = _asked(ask, ("-f", "json", "-c", wanted, "core-power", "get-assoc"))
            if isinstance(answer, Missing):
                break
            classes |= _classes(answer)
    known = frozenset(cpus)
    return SstState(
        packages=tuple(packages),
        cp_class={cpu: each for cpu, each in sorted(classes.items()) if cpu in known},
        read_at_ns=time.monotonic_ns(),
    )


def _asked(ask: Ask, words: Sequence[str]) -> str | Missing:
    said = ask(words)
    if isinstance(said, Missing):
        return said
    return f"{said.output}\n{said.errors}"


def _complaint(text: str) -> str:
    """The last thing it said that is no part of an answer."""
    lines = [line.strip() for line in text.splitlines() if line.strip() not in ("", "{", "}")]
    return lines[-1][:200] if lines else "it says nothing"


def _items(text: str) -> Iterator[tuple[_Place, str, str]]:
    """Every `key: value` and where it belongs; the place is the same object, changed."""
    place = _Place()
    for raw in text.splitlines():
        line = raw.strip().rstrip(",")
        if line.endswith("{") or '"' not in line:
            head = line.removesuffix("{").strip().removesuffix(":").strip().strip('"')
            if _moved(place, head):
                continue
        key, colon, value = line.replace('"', "").partition(":")
        if colon:
            yield place, key.strip(), value.strip()


def _moved(place: _Place, head: str) -> bool:
    """Go where a heading says; whether it is one."""
    parts = [_PLACE.fullmatch(each) for each in head.split(":")]
    if all(parts):
        for part in filter(None, parts):
            number = int(part[2])
            match part[1]:
                case "package":
                    place.package, place.die, place.cpu, place.level = number, 0, None, None
                case "die":
                    place.die, place.cpu = number, None
                case "cpu":
                    place.cpu = number
        return True
    level = _LEVEL.fullmatch(head)
    if level:
        place.level = int(level[1])
    return level is not None


def _packages(text: str, current: Mapping[tuple[int, int], int]) -> list[SstPackage]:
    levels: dict[tuple[int, int], dict[int, _Level]] = {}
    for place, key, value in _items(text):
        if place.package is not None and place.level is not None:
            of_die = levels.setdefault((place.package, place.die), {})
            of_die.setdefault(place.level, _Level()).values.setdefault(key, value)
    found = []
    for (package, die), known in sorted(levels.items()):
        only = next(iter(known)) if len(known) == 1 else None
        level = current.get((package, die), only)
        if level in known:
            found.append(_package(package, die, level, known[level]))
    return found


def _package(package: int, die: int, level: int | None, told: _Level) -> SstPackage:
    bf, tf, cp = (told.switch(name) for name in ("base-freq", "turbo-freq", "core-power"))
    row = SstPackage(
        Package(package), die, level, bf[0], tf[0], cp[0], bf[1], tf[1], cp[1],
        told.cpus("high-priority-cpu-list"),
        told.hz("high-priority-base-frequency"), told.hz("low-priority-base-frequency"),
    )  # fmt: skip
    return row if bf[1] else replace(row, bf_high=(), bf_high_hz=None, bf_low_hz=None)


def _current_levels(text: str) -> Mapping[tuple[int, int], int]:
    return {
        (place.package, place.die): int(value)
        for place, key, value in _items(text)
        if place.package is not None
        and key == "get-config-current_level"
        and re.fullmatch(r"\d{1,2}", value)
    }


def _classes(text: str) -> dict[int, int]:
    """SST-CP class by CPU."""
    return {
        place.cpu: int(value)
        for place, key, value in _items(text)
        if place.cpu is not None and key == "clos" and re.fullmatch(rf"[0-{_MOST_CLASS}]", value)
    }
