"""SST from intel-speed-select: run rarely, parsed line by line, validated.

It prints one item a line, as text or as JSON, to standard error. Versions up to Linux 5.8 left out
brackets of JSON, so lines are parsed:

    "package-0:die-0:cpu-0": {         or   package-0 / die-0 / cpu-0 on separate lines
      "perf-profile-level-0": {
        "speed-select-base-freq": "enabled",

Source: tools/power/x86/intel-speed-select/isst-display.c and isst-config.c, Linux 5.3 to 6.12.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from nftop.model.ids import Cpu, Package, parse_cpu_list
from nftop.model.missing import Missing, Reason
from nftop.model.sst import SstPackage, SstState, Switch
from nftop.model.struct import dataclass, field
from nftop.sources.runtime.helper import ProgramOutput, find, run

# A power domain without CPUs is `cpu--1`.
_UNIT = re.compile(r"(package|die|powerdomain|cpu)-(-?\d{1,5})")
_LEVEL = re.compile(r"perf-profile-level-(\d{1,2})")
_LONGEST_LIST = 511  # characters at which its lists are cut off; its masks are long enough
_SWITCHES: Mapping[str, Switch] = {"enabled": True, "disabled": False}
_MHZ = 1_000_000
_MOST_MHZ = 20_000


@dataclass(slots=True)
class IsstUnit:
    """The unit that a line is about."""

    package: int | None = None
    die: int = 0
    domain: int = 0
    cpu: int | None = None
    level: int | None = None

    @property
    def key(self) -> tuple[int, int, int]:
        """Identity of the power domain, if there is a package."""
        return self.package or 0, self.die, self.domain


@dataclass(slots=True)
class ProfileLevel:
    """Values of one SST-PP level of a die."""

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
        """CPUs of `NAME-list`, or of `NAME-mask` if the list was cut off."""
        listed = self.values.get(f"{name}-list", "")
        try:
            if len(listed) < _LONGEST_LIST:
                return parse_cpu_list(listed)
            bits = int(self.values.get(f"{name}-mask", "").replace(",", ""), 16)
        except ValueError:
            return ()
        return tuple(Cpu(cpu) for cpu in range(bits.bit_length()) if bits >> cpu & 1)


def items(text: str) -> Iterator[tuple[IsstUnit, str, str]]:
    """Every `key: value` with its unit, which is one object that changes."""
    unit = IsstUnit()
    for raw in text.splitlines():
        line = raw.strip().rstrip(",")
        if line.endswith("{") or '"' not in line:
            head = line.removesuffix("{").strip().removesuffix(":").strip().strip('"')
            if _moved(unit, head):
                continue
        key, colon, value = line.replace('"', "").partition(":")
        if colon:
            yield unit, key.strip(), value.strip()


def _moved(unit: IsstUnit, head: str) -> bool:
    """Apply a heading to the unit; False if it is none."""
    units = [_UNIT.fullmatch(word) for word in head.split(":")]
    if all(units):
        for token in filter(None, units):
            number = int(token[2])
            match token[1]:
                case "package":
                    unit.package, unit.die, unit.domain = number, 0, 0
                    unit.cpu = unit.level = None
                case "die":
                    unit.die, unit.domain, unit.cpu = number, 0, None
                case "powerdomain":
                    unit.domain, unit.cpu = number, None
                case "cpu":
                    unit.cpu = None if number < 0 else number
        return True
    level = _LEVEL.fullmatch(head)
    if level:
        unit.level = int(level[1])
    return level is not None


PROGRAM = "intel-speed-select"
LIMIT_S = 10.0
_AT_ONCE = 64  # CPUs that the first versions took
_MODEL = re.compile(r"Executing on CPU model:(\d{1,4})\[")
_MOST_OUTPUT = 200
_MOST_CLASS = 3
_NO_TOOL = Missing(Reason.SOURCE, f"{PROGRAM} is not installed: the state of SST is unknown")

T = TypeVar("T")
Ask = Callable[[Sequence[str]], ProgramOutput | Missing]


@dataclass(frozen=True, slots=True)
class Domain:
    """One die, or one power domain of it, at the SST-PP level in use; else as in `SstPackage`."""

    package: int
    die: int
    domain: int
    cpu: int | None  # one of its CPUs, by which the tool addresses it; None if it has none
    level: int
    bf: Switch
    tf: Switch
    cp: Switch
    bf_supported: Switch
    tf_supported: Switch
    cp_supported: Switch
    cpus: tuple[Cpu, ...]  # enabled by this level; empty if unknown
    base_hz: int | None  # of all of them without SST-BF
    bf_high: tuple[Cpu, ...]
    bf_high_hz: int | None
    bf_low_hz: int | None


@dataclass(frozen=True, slots=True)
class SstDomains:
    """All of them, ascending, at least one; `model` is the CPU's, as the tool prints it."""

    model: int | None
    rows: tuple[Domain, ...]


def read_sst(cpus: Sequence[int], root: Path = Path("/")) -> SstState | Missing:
    """SST of these CPUs, or why it is unknown. Takes about a second on large hosts."""
    program = find(PROGRAM, root)
    if program is None:
        return _NO_TOOL
    return ask_sst(cpus, lambda words: run(program, words, LIMIT_S))


def ask_sst(cpus: Sequence[int], ask: Ask) -> SstState | Missing:
    """As `read_sst`, through `ask`."""
    output = ask_domains(ask)
    if isinstance(output, Missing):
        return output
    packages = _packages(output.rows)
    classes = ask_classes(cpus, ask) if any(package.cp for package in packages) else {}
    if isinstance(classes, Missing):
        classes = {}
    known = frozenset(cpus)
    return SstState(
        packages=tuple(packages),
        cp_class={cpu: clos for cpu, clos in sorted(classes.items()) if cpu in known},
        read_at_ns=time.monotonic_ns(),
    )


def ask_domains(ask: Ask) -> SstDomains | Missing:
    """Every power domain, through `ask`."""
    output = _query(ask, ("-f", "json", "perf-profile", "info"))
    if isinstance(output, Missing):
        return output
    current = _query(ask, ("-f", "json", "perf-profile", "get-config-current-level"))
    rows = _domains(output, {} if isinstance(current, Missing) else _current_levels(current))
    if not rows:
        return Missing(Reason.SOURCE, f"{PROGRAM}: {_complaint(output)}")
    model = _MODEL.search(output)
    return SstDomains(None if model is None else int(model[1]), rows)


def ask_classes(cpus: Sequence[int], ask: Ask) -> Mapping[int, int] | Missing:
    """SST-CP class of each of these CPUs that has one, or why a call failed."""
    classes: dict[int, int] = {}
    for some in at_once(cpus):
        answer = _query(ask, ("-f", "json", "-c", some, "core-power", "get-assoc"))
        if isinstance(answer, Missing):
            return answer
        classes |= _classes(answer)
    return classes


def at_once(cpus: Sequence[int]) -> Iterator[str]:
    """Lists of CPUs for the option -c, each as long as the tool takes."""
    for first in range(0, len(cpus), _AT_ONCE):
        yield ",".join(f"{cpu:d}" for cpu in cpus[first : first + _AT_ONCE])


def refusal(output: ProgramOutput) -> str:
    """Why a change failed; "" if the output has `success` and no error.

    Its exit code is 0 in any case.
    """
    text = f"{output.output}\n{output.errors}"
    results = [value for _, key, value in items(text) if key in ("enable", "disable", "assoc")]
    wrong = [value for _, key, value in items(text) if key == "message"]
    wrong += [result for result in results if result != "success"]
    if output.code:
        wrong.append(f"it ended with {output.code}")
    if not wrong and not results:
        wrong.append(f"it does not report success: {_complaint(output.errors)}")
    return "; ".join(item[:_MOST_OUTPUT] for item in wrong)


def _query(ask: Ask, words: Sequence[str]) -> str | Missing:
    output = ask(words)
    if isinstance(output, Missing):
        return output
    return f"{output.output}\n{output.errors}"


def _complaint(text: str) -> str:
    """The last line that is no part of an answer."""
    lines = [line.strip() for line in text.splitlines() if line.strip() not in ("", "{", "}", "{}")]
    return lines[-1][:_MOST_OUTPUT] if lines else "it says nothing"


def _domains(text: str, current: Mapping[tuple[int, int, int], int]) -> tuple[Domain, ...]:
    levels: dict[tuple[int, int, int], dict[int, ProfileLevel]] = {}
    address: dict[tuple[int, int, int], int | None] = {}
    for unit, key, value in items(text):
        if unit.package is not None and unit.level is not None:
            own = levels.setdefault(unit.key, {})
            own.setdefault(unit.level, ProfileLevel()).values.setdefault(key, value)
            address.setdefault(unit.key, unit.cpu)
    domains = []
    for where, known in sorted(levels.items()):
        only = next(iter(known)) if len(known) == 1 else None
        level = current.get(where, only)
        if level is not None and level in known:
            domains.append(_domain(where, address[where], level, known[level]))
    return tuple(domains)


def _domain(key: tuple[int, int, int], cpu: int | None, level: int, values: ProfileLevel) -> Domain:
    bf, tf, cp = (values.switch(name) for name in ("base-freq", "turbo-freq", "core-power"))
    return Domain(
        *key,
        cpu,
        level,
        bf[0],
        tf[0],
        cp[0],
        bf[1],
        tf[1],
        cp[1],
        cpus=values.cpus("enable-cpu"),
        base_hz=values.hz("base-frequency"),
        bf_high=values.cpus("high-priority-cpu") if bf[1] else (),
        bf_high_hz=values.hz("high-priority-base-frequency") if bf[1] else None,
        bf_low_hz=values.hz("low-priority-base-frequency") if bf[1] else None,
    )


def _packages(rows: Iterable[Domain]) -> list[SstPackage]:
    """By die: what its power domains have in common, and all high-priority CPUs."""
    dies: dict[tuple[int, int], list[Domain]] = {}
    for row in rows:
        dies.setdefault((row.package, row.die), []).append(row)
    return [
        SstPackage(
            package=Package(package),
            die=die,
            level=_same(row.level for row in own),
            bf=_same(row.bf for row in own),
            tf=_same(row.tf for row in own),
            cp=_same(row.cp for row in own),
            bf_supported=_same(row.bf_supported for row in own),
            tf_supported=_same(row.tf_supported for row in own),
            cp_supported=_same(row.cp_supported for row in own),
            bf_high=tuple(sorted({cpu for row in own for cpu in row.bf_high})),
            bf_high_hz=_same(row.bf_high_hz for row in own),
            bf_low_hz=_same(row.bf_low_hz for row in own),
        )
        for (package, die), own in dies.items()
    ]


def _same(values: Iterable[T]) -> T | None:
    """The common value; None if they differ."""
    every = set(values)
    return every.pop() if len(every) == 1 else None


def _current_levels(text: str) -> Mapping[tuple[int, int, int], int]:
    return {
        unit.key: int(value)
        for unit, key, value in items(text)
        if unit.package is not None
        and key == "get-config-current_level"
        and re.fullmatch(r"\d{1,2}", value)
    }


def _classes(text: str) -> dict[int, int]:
    """SST-CP class by CPU."""
    return {
        unit.cpu: int(value)
        for unit, key, value in items(text)
        if unit.cpu is not None and key == "clos" and re.fullmatch(rf"[0-{_MOST_CLASS}]", value)
    }
