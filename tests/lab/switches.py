"""What root can change of the host while it runs: CPUs, and sysctls.

Names of files have dots where their paths have slashes.
"""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from nftop.model.ids import format_cpu_list
from tests.lab.texts import Text
from tests.lab.tree import failed

_TRUE, _FALSE = ("1", "y", "Y", "on"), ("0", "n", "N", "off")


@dataclass(slots=True)
class Switches:
    """How they stand.

    Attributes:
        online: CPUs that are.
        watchdog: kernel.nmi_watchdog. paranoid: kernel.perf_event_paranoid.
        throttles: how often a CPU saw its core and its package too hot, by CPU; else 0.
        changed: is called after every change.
    """

    online: frozenset[int]
    watchdog: bool
    paranoid: int
    throttles: dict[int, tuple[int, int]] = field(default_factory=dict)
    changed: Callable[[], None] = lambda: None


def throttles(switches: Switches) -> Text:
    """A line for each CPU: its number, its core's count and its package's."""

    def write(text: str) -> None:
        cpu, core, package = map(int, text.split())
        switches.throttles[cpu] = core, package
        switches.changed()

    return Text(
        lambda: "".join(
            f"{cpu} {core} {package}\n"
            for cpu, (core, package) in sorted(switches.throttles.items())
        ),
        write,
    )


def sysctls(switches: Switches, *, watchdog: bool) -> Mapping[str, Text]:
    """Files of /proc; `watchdog`: there are counters for one."""

    def set_watchdog(text: str) -> None:
        if text.strip() not in ("0", "1"):
            raise ValueError(f"{text!r} is neither 0 nor 1")
        # Without counters the kernel takes it and leaves it off.
        switches.watchdog = watchdog and text.strip() == "1"
        switches.changed()

    def set_paranoid(text: str) -> None:
        switches.paranoid = int(text)
        switches.changed()

    return {
        "sys.kernel.nmi_watchdog": Text(lambda: f"{int(switches.watchdog)}\n", set_watchdog),
        "sys.kernel.perf_event_paranoid": Text(lambda: f"{switches.paranoid}\n", set_paranoid),
    }


def cpu_files(switches: Switches, packages: Collection[Collection[int]]) -> Mapping[str, Text]:
    """Files of /sys/devices/system/cpu; CPU 0 can't be switched.

    They follow `online_store` of drivers/base/core.c, Linux 6.1. Deliberate difference: a package,
    of whose CPUs there is one collection each, keeps one (EBUSY).
    """

    def switch(cpu: int, text: str) -> None:
        word = text.strip()
        if word not in (*_TRUE, *_FALSE):
            raise ValueError(f"{text!r} is no switch")
        changed = switches.online | {cpu} if word in _TRUE else switches.online - {cpu}
        if not all(changed & set(package) for package in packages):
            raise failed(errno.EBUSY)
        if changed != switches.online:
            switches.online = changed
            switches.changed()

    def file(cpu: int) -> Text:
        return Text(lambda: f"{int(cpu in switches.online)}\n", functools.partial(switch, cpu))

    every = frozenset(cpu for package in packages for cpu in package)
    return {
        "online": Text(lambda: f"{format_cpu_list(switches.online)}\n"),
        "offline": Text(lambda: f"{format_cpu_list(every - switches.online)}\n"),
        **{f"cpu{cpu}.online": file(cpu) for cpu in sorted(every) if cpu},
    }
