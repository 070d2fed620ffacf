"""The host that a lab shows: its model, its clock, and every tree and file made from them."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nftop.sim import scenario
from nftop.sim.model import Model, model_of
from tests.lab import clock, machine, proc
from tests.lab.clock import Clock
from tests.lab.files import Folder, sysfs_folders
from tests.lab.machine import Machine
from tests.lab.options import Options
from tests.lab.texts import Text, TextTree
from tests.lab.tree import Mountable, Tree


@dataclass(slots=True)
class Settings:
    """What programs inside may set by sysctl(8): the NMI watchdog, kernel.perf_event_paranoid."""

    nmi_watchdog: int
    perf_event_paranoid: int


class MountPoint:
    """Whether a tree is mounted, with which options. Each is one line written to a file of `ctl`.

    What programs see is mounted by `namespace`; this is the file system's side of it.
    """

    def __init__(self, tree: Mountable) -> None:
        self._tree = tree
        self.options: str | None = None

    def command(self, text: str) -> None:
        """`mount`, `mount OPTIONS` or `unmount`, with the errno the kernel has for each.

        Raises:
            OSError: EBUSY where it is mounted already, EINVAL where it is not; what the tree says.
            ValueError: it is none of these.
        """
        match text.split():
            case ["mount", *options] if len(options) < 2:
                if self.options is not None:
                    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
                self._tree.mount("".join(options))
                self.options = "".join(options)
            case ["unmount"]:
                if self.options is None:
                    raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
                self._tree.unmount()
                self.options = None
            case _:
                raise ValueError(f"{text!r} is none of mount, mount OPTIONS and unmount")

    def shown(self) -> str | None:
        """The options as /proc/mounts has them; None while it is not mounted."""
        if self.options is None:
            return None
        return ",".join(filter(None, ("rw,relatime", self.options)))


@dataclass(frozen=True, slots=True)
class LabHost:
    """Everything that a lab's trees and files are made from."""

    options: Options
    machine: Machine
    model: Model
    clock: Clock
    settings: Settings


def lab_host(options: Options) -> LabHost:
    """The host that the options ask for; ValueError says what of it there can't be."""
    frozen_at_ns = options.frozen_at_ns
    return LabHost(
        options=options,
        machine=machine.load(options.machine),
        model=model_of(_scenario(options.scenario), options.cpus),
        clock=Clock(at_ns=frozen_at_ns or 0, running=frozen_at_ns is None),
        settings=Settings(int(options.watchdog), options.paranoid),
    )


def trees(host: LabHost, resctrl: Mountable | None = None) -> Mapping[str, Tree]:
    """What the server serves, by the folder's name; `resctrl` as soon as something mounts it."""
    mounted = None if resctrl is None else MountPoint(resctrl)
    served: dict[str, Tree] = {"ctl": _control(host, mounted), "proc": _proc(host, mounted)}
    return served if resctrl is None else served | {"resctrl": resctrl}


def folders(host: LabHost) -> tuple[Folder, ...]:
    """The static files."""
    return sysfs_folders(host.model.layout.topology, host.machine)


def _scenario(name: str) -> scenario.Scenario:
    path = Path(name)
    if path.suffix != ".toml":
        return scenario.load(name)
    try:
        return scenario.parse(path.stem, path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None


def _control(host: LabHost, resctrl: MountPoint | None) -> Tree:
    def order(text: str) -> None:
        clock.command(host.clock, text)

    texts = {
        "now": Text(lambda: f"{host.clock.now_ns()}\n"),
        "clock": Text(lambda: "running\n" if host.clock.running else "frozen\n", order),
    }
    if resctrl is not None:
        texts["resctrl"] = Text(lambda: f"{resctrl.shown() or 'not mounted'}\n", resctrl.command)
    return TextTree(texts)


def _proc(host: LabHost, resctrl: MountPoint | None) -> Tree:
    """Files of /proc, with dots where their paths have slashes."""
    cpuinfo = proc.cpuinfo(host.model.layout.topology, host.machine)
    booted_s = int(time.time() - host.clock.now_ns() / 1e9)
    real_filesystems = Path("/proc/filesystems").read_text(encoding="ascii")
    return TextTree(
        {
            "cpuinfo": Text(lambda: cpuinfo),
            "stat": Text(lambda: proc.stat(host.model, host.clock.now_ns(), booted_s)),
            "filesystems": Text(lambda: proc.filesystems(real_filesystems)),
            "mounts": Text(
                lambda: proc.mounts(_own_mounts(), resctrl.shown() if resctrl else None)
            ),
            "sys.kernel.nmi_watchdog": _setting(host.settings, "nmi_watchdog", range(2)),
            "sys.kernel.perf_event_paranoid": _setting(
                host.settings, "perf_event_paranoid", range(-1, 5)
            ),
        }
    )


def _own_mounts() -> str:
    return Path("/proc/self/mounts").read_text(encoding="utf-8", errors="surrogateescape")


def _setting(settings: Settings, name: str, allowed: range) -> Text:
    def write(text: str) -> None:
        if int(text) not in allowed:
            raise ValueError(f"{name} can't be {text}")
        setattr(settings, name, int(text))

    return Text(lambda: f"{getattr(settings, name)}\n", write)
