"""The lines that intel-speed-select prints: what each says, and where it belongs.

Source: tools/power/x86/intel-speed-select/isst-display.c, Linux 5.3 to 6.12.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from nftop.model.ids import Cpu, parse_cpu_list
from nftop.model.sst import Switch

# A power domain without CPUs is `cpu--1`.
_PLACE = re.compile(r"(package|die|powerdomain|cpu)-(-?\d{1,5})")
_LEVEL = re.compile(r"perf-profile-level-(\d{1,2})")
# Its lists are cut off at so many characters; its masks are long enough for any host.
_LONGEST_LIST = 511
_SWITCHES: Mapping[str, Switch] = {"enabled": True, "disabled": False}
_MHZ = 1_000_000
_MOST_MHZ = 20_000


@dataclass(slots=True)
class Place:
    """Where a line belongs."""

    package: int | None = None
    die: int = 0
    domain: int = 0
    cpu: int | None = None
    level: int | None = None

    @property
    def key(self) -> tuple[int, int, int]:
        """Of the power domain; only where there is a package."""
        return self.package or 0, self.die, self.domain


@dataclass(slots=True)
class Level:
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
        """Of `NAME-list`, or of `NAME-mask` where the list was cut off."""
        told = self.values.get(f"{name}-list", "")
        try:
            if len(told) < _LONGEST_LIST:
                return parse_cpu_list(told)
            bits = int(self.values.get(f"{name}-mask", "").replace(",", ""), 16)
        except ValueError:
            return ()
        return tuple(Cpu(cpu) for cpu in range(bits.bit_length()) if bits >> cpu & 1)


def items(text: str) -> Iterator[tuple[Place, str, str]]:
    """Every `key: value` and where it belongs; the place is the same object, changed."""
    place = Place()
    for raw in text.splitlines():
        line = raw.strip().rstrip(",")
        if line.endswith("{") or '"' not in line:
            head = line.removesuffix("{").strip().removesuffix(":").strip().strip('"')
            if _moved(place, head):
                continue
        key, colon, value = line.replace('"', "").partition(":")
        if colon:
            yield place, key.strip(), value.strip()


def _moved(place: Place, head: str) -> bool:
    """Go where a heading says; whether it is one."""
    parts = [_PLACE.fullmatch(word) for word in head.split(":")]
    if all(parts):
        for part in filter(None, parts):
            number = int(part[2])
            match part[1]:
                case "package":
                    place.package, place.die, place.domain = number, 0, 0
                    place.cpu = place.level = None
                case "die":
                    place.die, place.domain, place.cpu = number, 0, None
                case "powerdomain":
                    place.domain, place.cpu = number, None
                case "cpu":
                    place.cpu = None if number < 0 else number
        return True
    level = _LEVEL.fullmatch(head)
    if level:
        place.level = int(level[1])
    return level is not None
