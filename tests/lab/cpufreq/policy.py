"""One policy: what was asked for, and what is in effect.

Requests are kept as they were made (freq_qos of kernel/power/qos.c). The limits in effect are made
from them anew whenever anything changes (`cpufreq_set_policy`), and these are what is read back: a
minimum above the maximum is taken, shows as the maximum, and comes to light when that is raised.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.lab.tree import failed

NOT_REQUESTED_MIN_KHZ, NOT_REQUESTED_MAX_KHZ = 0, 0x7FFFFFFF
# Names of energy_performance_preference and HWP's values of them, `default` first.
EPPS: Mapping[str, int] = {
    "default": 0x80,
    "performance": 0x00,
    "balance_performance": 0x80,
    "balance_power": 0xC0,
    "power": 0xFF,
}
# sscanf("%lu"): blanks, a number, and whatever follows it.
_NUMBER = re.compile(r"\s*([+-]?)(\d+)")
_GOVERNOR_CHARACTERS = 15


@dataclass(slots=True)
class Policy:
    """As files of `policyN` show it; frequencies in kHz.

    Attributes:
        cpus: whose it is, online or not.
        driver: `scaling_driver`.
        governors: that it may have. governor: that it has.
        hardware_min_khz, hardware_max_khz: what the CPU can.
        base_khz: `base_frequency`, None where the driver has none.
        table_khz: the frequencies there are, ascending; empty where any may be set.
        ceiling_khz: the highest that may be granted now: less without turbo.
        min_request_khz, max_request_khz: as asked for.
        epp: HWP's value; None where the driver has none.
    """

    number: int
    cpus: tuple[int, ...]
    driver: str
    governors: tuple[str, ...]
    governor: str
    hardware_min_khz: int
    hardware_max_khz: int
    base_khz: int | None
    table_khz: tuple[int, ...]
    ceiling_khz: Callable[[], int]
    min_request_khz: int = NOT_REQUESTED_MIN_KHZ
    max_request_khz: int = NOT_REQUESTED_MAX_KHZ
    epp: int | None = None

    def limits_khz(self) -> tuple[int, int]:
        """`scaling_min_freq` and `scaling_max_freq`: cpufreq_verify_within_limits, in its order."""
        low, high = self.hardware_min_khz, self.ceiling_khz()
        least, most = self.min_request_khz, self.max_request_khz
        least, most = max(least, low), max(most, low)
        least, most = min(least, high), min(most, high)
        least = min(least, most)
        if self.table_khz:  # __resolve_freq: the next above the minimum, the next below the maximum
            least = next((item for item in self.table_khz if item >= least), self.table_khz[-1])
            most = next((e for e in reversed(self.table_khz) if e <= most), self.table_khz[0])
        return least, most

    def write_min(self, text: str) -> None:
        """Write to scaling_min_freq."""
        self.min_request_khz = _number(text)

    def write_max(self, text: str) -> None:
        """Write to scaling_max_freq."""
        self.max_request_khz = _number(text)

    def set_governor(self, text: str) -> None:
        """Write to scaling_governor; any case will do (strncasecmp)."""
        words = text.split()
        wanted = words[0][:_GOVERNOR_CHARACTERS].lower() if words else ""
        if wanted not in self.governors:
            raise failed(errno.EINVAL)
        self.governor = wanted

    def shown_epp(self) -> str:
        """The name of what was written last, whatever the governor makes of it; else the number."""
        names = [name for name, value in EPPS.items() if value == self.epp and name != "default"]
        return names[0] if names else str(self.epp)

    def set_epp(self, text: str) -> None:
        """Write to energy_performance_preference.

        The governor `performance` has its own, so that another one is refused (EBUSY).
        """
        words = text.split()
        if not words:
            raise failed(errno.EINVAL)
        if words[0] not in EPPS and not re.fullmatch(r"\d{1,3}", words[0]):
            raise failed(errno.EINVAL)
        value = EPPS[words[0]] if words[0] in EPPS else int(words[0])
        if value > 0xFF:
            raise failed(errno.EINVAL)
        if value > 0 and self.governor == "performance":
            raise failed(errno.EBUSY)
        self.epp = value


def _number(text: str) -> int:
    """A request: 32 bits of it, signed, of which a negative one is refused."""
    hit = _NUMBER.match(text)
    if hit is None:
        raise failed(errno.EINVAL)
    bits = (-int(hit[2]) if hit[1] == "-" else int(hit[2])) & 0xFFFFFFFF
    if bits > NOT_REQUESTED_MAX_KHZ:
        raise failed(errno.EINVAL)
    return bits
