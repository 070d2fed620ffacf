"""The host that a lab shows: its model, its clock, and every tree and file made from them."""

from __future__ import annotations

import errno
import functools
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nftop.model.topology import Topology
from nftop.sim import scenario
from nftop.sim.model import Model, model_of
from nftop.sim.uncore import simulated_ports
from nftop.uarch.table import load as load_uarch
from tests.lab import clock, machine, proc
from tests.lab.clock import Clock
from tests.lab.cpufreq import tree as cpufreq_tree
from tests.lab.cpufreq.host import Cpufreq, cpufreq_of
from tests.lab.cpufreq.policy import Policy
from tests.lab.cpuid import leaves
from tests.lab.files import Folder, sysfs_folders, topology_of, without
from tests.lab.machine import Machine
from tests.lab.meters import Meters
from tests.lab.msr import registers
from tests.lab.msr.bank import Msrs
from tests.lab.msr.registers import Registers
from tests.lab.msr.tree import DeviceTree
from tests.lab.options import Options
from tests.lab.perf import competitor
from tests.lab.perf.pmu import load
from tests.lab.perf.sysfs import perf_files
from tests.lab.perf.tree import PerfTree
from tests.lab.resctrl import counters, hotplug, profile
from tests.lab.resctrl import mount as resctrl_mount
from tests.lab.resctrl.hardware import FEATURES, hardware_of
from tests.lab.resctrl.host import host_of
from tests.lab.resctrl.processes import ProcFolder
from tests.lab.resctrl.state import Resctrl
from tests.lab.resctrl.tree import ResctrlTree
from tests.lab.switches import Switches, cpu_files, sysctls, throttles
from tests.lab.texts import Text, TextTree
from tests.lab.tree import Tree, failed
from tests.lab.uncore.boxes import Readers
from tests.lab.uncore.files import unit_files
from tests.lab.uncore.units import units_of

_CPUS_PER_CORE = 4  # two packages of cores of two threads
_EARLY = frozenset({"SKX", "CLX"})  # they have IIO LLC WAYS, and later ones MBA_CFG


class MountPoint:
    """Whether a file system is mounted, with which options, by lines written to a file of `ctl`.

    What programs see is mounted by `namespace`; this is the file system's side of it.
    """

    def __init__(self, mount: Callable[[Collection[str]], None]) -> None:
        """`mount` makes it as after a mount(2) with such options; OSError if it can't."""
        self._mount = mount
        self.target: str | None = None
        self.options = ""
        self.changed: Callable[[], None] = lambda: None  # called after each of them

    def command(self, text: str) -> None:
        """`mount TARGET`, `mount TARGET OPTIONS` or `unmount`, with the kernel's errno for each.

        The target's blanks are escaped as in /proc/mounts.

        Raises:
            OSError: EBUSY where it is mounted already, EINVAL where it is not; what the tree says.
            ValueError: it is none of these.
        """
        match text.removesuffix("\n").split(" "):
            case ["mount", target, *options] if len(options) < 2:
                if self.target is not None:
                    raise failed(errno.EBUSY)
                self._mount([word for word in "".join(options).split(",") if word])
                self.target, self.options = target, "".join(options)
            case ["unmount"]:
                if self.target is None:
                    raise failed(errno.EINVAL)
                self.target = None
            case _:
                raise ValueError(f"{text!r} is none of mount TARGET [OPTIONS] and unmount")
        self.changed()

    def shown(self) -> str | None:
        """Target and options as /proc/mounts has them; None while it is not mounted."""
        if self.target is None:
            return None
        return f"{self.target} {','.join(filter(None, ('rw,relatime', self.options)))}"


@dataclass(frozen=True, slots=True)
class LabHost:
    """Everything that a lab's trees and files are made from.

    `topology` is the model's, with the caches of the machine and with every CPU online. `readers`
    read the boxes outside its packages' cores. `cpufreq` is None where its kernel has none.
    """

    options: Options
    machine: Machine
    model: Model
    topology: Topology
    clock: Clock
    switches: Switches
    readers: Readers
    meters: Meters
    cpufreq: Cpufreq | None

    def current(self) -> Topology:
        """The topology without the CPUs that are offline."""
        return without(
            self.topology, {info.cpu for info in self.topology.cpus} - self.switches.online
        )


def lab_host(options: Options) -> LabHost:
    """The host that the options ask for; ValueError says what of it there can't be."""
    kind = machine.load(options.machine)
    _check_clusters(kind, options)
    kind = machine.with_tables(kind, machine.PMUS[options.pmu])
    requested = {"nmi_watchdog": options.watchdog, "paranoid": options.paranoid}
    reported = {name: value for name, value in requested.items() if value is not None}
    perf = {**kind.tables["perf"], **reported}
    kind = replace(kind, tables={**kind.tables, "perf": perf})
    model = model_of(_scenario(options.scenario or kind.scenario), options.cpus, smt=options.smt)
    pmu = load(kind, smt=options.smt)
    competitor.parse(options.competitor, pmu)
    switches = Switches(
        online=frozenset(info.cpu for info in model.layout.topology.cpus),
        watchdog=pmu.watchdog,
        paranoid=pmu.paranoid,
    )
    return LabHost(
        options=options,
        machine=kind,
        model=model,
        topology=topology_of(kind, model.layout.topology, options.clusters),
        clock=Clock(at_ns=options.frozen_at_ns or 0, running=options.frozen_at_ns is None),
        switches=switches,
        readers=Readers(model.layout.topology, lambda: switches.online),
        meters=Meters(kind, model, lambda: switches.online),
        cpufreq=cpufreq_of(kind.tables["cpufreq"], model.layout.topology, options.cpufreq),
    )


def _check_clusters(kind: Machine, options: Options) -> None:
    most = kind.tables["resctrl"]["clusters"] if profile.load(options.kernel).clusters else 1
    if not 1 <= options.clusters <= most:
        raise ValueError(
            f"--snc {options.clusters}: Linux {options.kernel} knows of {most} to a package of "
            f"{options.machine}; --model icx --kernel 7.2 may have 2"
        )
    if options.clusters > 1 and options.cpus < _CPUS_PER_CORE * options.clusters:
        raise ValueError(f"--snc {options.clusters} needs a core in each: --cpus is too few")


def trees(
    host: LabHost, static: Sequence[Folder], rewrite: Callable[[Folder, Folder], None]
) -> Mapping[str, Tree]:
    """What the server serves, by the folder's name.

    `static` are the host's `folders`; `rewrite` makes of one of them the other, with the same
    target.
    """
    switches = host.switches
    resctrl, mount = _resctrl(host)
    perf = PerfTree(
        host.machine,
        host.model,
        host.clock.now_ns,
        online=lambda: switches.online,
        paranoid=lambda: switches.paranoid,
        watchdog=lambda: switches.watchdog,
        readers=host.readers,
    )
    perf.compete(host.options.competitor)
    written = list(static)

    def changed() -> None:
        perf.settle()
        hotplug.follow(resctrl.state, switches.online)
        for index, after in enumerate(folders(host)):
            rewrite(written[index], after)
            written[index] = after

    switches.changed = changed
    return {
        "ctl": _control(host, mount, resctrl, perf),
        "proc": _proc(host, mount),
        "sys": _sys(host),
        "perf": perf,
        "resctrl": resctrl,
        "cpu": _devices(host, mount, resctrl),
        "cpufreq": _cpufreq(host),
    }


def folders(host: LabHost) -> tuple[Folder, ...]:
    """The static files, as they are with the CPUs that are online."""
    units = unit_files(
        units_of(host.machine, host.model),
        host.readers.cpumask(),
        len(host.topology.packages),
    )
    cores = perf_files(host.machine, smt=host.options.smt)
    pmus = {**cores, **units, **host.meters.files()}
    return (
        *sysfs_folders(
            host.current(),
            host.machine,
            links=cpufreq_tree.links(host.cpufreq),
            empty=cpufreq_tree.folders(host.cpufreq),
            throttles=host.switches.throttles,
        ),
        Folder(Path("/sys/bus/event_source/devices"), pmus),
        *pci_folders(host),
    )


def pci_folders(host: LabHost) -> tuple[Folder, ...]:
    """Root ports and network devices of the simulated host, if the lab is to show them.

    Devices are below a folder of their own, whose path from the root bus on is the kernel's.
    """
    iio = load_uarch(host.machine.uarch).iio if host.options.nics else None
    if iio is None:
        return ()
    files: dict[str, bytes] = {}
    links: dict[str, str] = {}
    for port in simulated_ports(host.model):
        above = f".pci/pci{port.bus}/{port.address(iio.first_device)}"
        files[f"{above}/class"] = b"0x060400\n"
        links[port.address(iio.first_device)] = above
        for device in port.devices:
            below = f"{above}/{device.address}"
            files[f"{below}/class"] = b"0x020000\n"
            files |= {f"{below}/net/{name}/mtu": b"1500\n" for name in device.interfaces}
            links[device.address] = below
            links[f"{below}/driver"] = f"../../../../../drivers/{device.driver}"
    return (Folder(Path("/sys/bus/pci/devices"), files, links),)


def _resctrl(host: LabHost) -> tuple[ResctrlTree, MountPoint]:
    hardware = hardware_of(host.machine.tables["resctrl"], host.topology, boot=host.options.rdt)
    if hardware.allocation is not None:
        allocation = replace(hardware.allocation, io_alloc=host.options.io_alloc)
        hardware = replace(hardware, allocation=allocation)

    def make(options: Collection[str] = ()) -> Resctrl:
        return resctrl_mount.mount(
            replace(hardware, online=host.switches.online),
            profile.load(host.options.kernel),
            ProcFolder(),
            host_of(host.model),
            host.clock.now_ns,
            options,
        )

    tree = ResctrlTree(make())

    def mount(options: Collection[str]) -> None:
        tree.state = make(options)

    return tree, MountPoint(mount)


def _devices(host: LabHost, mount: MountPoint, resctrl: ResctrlTree) -> DeviceTree:
    """/dev/cpu. Its registers are as after a boot whenever resctrl comes or goes."""
    whole = hardware_of(host.machine.tables["resctrl"], host.topology, boot=FEATURES)

    def boot() -> Registers:
        return registers.start(
            whole,
            host_of(host.model),
            host.clock.now_ns,
            lambda: resctrl.state if mount.target is not None else None,
            io_register=host.machine.uarch in _EARLY,
            mba_config=host.machine.uarch not in _EARLY,
        )

    result = [boot()]
    mount.changed = lambda: result.__setitem__(0, boot())
    every = [leaves.Cpu(host.machine, host.topology, whole, info) for info in host.topology.cpus]
    msrs = Msrs(host.machine, host.model, host.meters, host.clock.now_ns, lambda: result[0])
    return DeviceTree(msrs, every, lambda: host.switches.online)


def _scenario(name: str) -> scenario.Scenario:
    path = Path(name)
    if path.suffix != ".toml":
        return scenario.load(name)
    try:
        return scenario.parse(path.stem, path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None


def _control(host: LabHost, resctrl: MountPoint, tree: ResctrlTree, perf: PerfTree) -> Tree:
    def order(text: str) -> None:
        clock.command(host.clock, text)

    return TextTree(
        {
            "now": Text(lambda: f"{host.clock.now_ns()}\n"),
            "clock": Text(lambda: "running\n" if host.clock.running else "frozen\n", order),
            "competitor": Text(lambda: f"{perf.competitor}\n", perf.compete),
            "unknown": Text(lambda: perf.unknown),
            "resctrl": Text(lambda: f"{resctrl.shown() or 'not mounted'}\n", resctrl.command),
            "counters": Text(
                lambda: counters.commands(tree.state),
                lambda text: counters.command(tree.state, text),
            ),
            "changes": Text(lambda: f"{tree.changes}\n"),
            "throttles": throttles(host.switches),
        }
    )


def _proc(host: LabHost, resctrl: MountPoint) -> Tree:
    """Files of /proc, with dots where their paths have slashes."""
    booted_s = int(time.time() - host.clock.now_ns() / 1e9)
    real = Path("/proc/filesystems").read_text(encoding="ascii")
    filesystems = proc.filesystems(real, resctrl=host.options.offered)

    @functools.lru_cache(maxsize=1)
    def cpuinfo(online: frozenset[int]) -> str:
        return proc.cpuinfo(host.current(), host.machine)

    def stat() -> str:
        return proc.stat(host.model, host.clock.now_ns(), booted_s, host.switches.online)

    return TextTree(
        {
            "cpuinfo": Text(lambda: cpuinfo(host.switches.online)),
            "filesystems": Text(lambda: filesystems),
            "stat": Text(stat),
            "mounts": Text(lambda: proc.mounts(_own_mounts(), resctrl.shown())),
            **sysctls(host.switches, watchdog=host.options.pmu != "none"),
        }
    )


def _sys(host: LabHost) -> Tree:
    """Files of /sys that change or are written, named as those of `_proc`."""
    packages: dict[int | None, list[int]] = {}
    for info in host.topology.cpus:
        packages.setdefault(info.package, []).append(info.cpu)
    files = cpu_files(host.switches, list(packages.values()))
    return TextTree({f"devices.system.cpu.{name}": text for name, text in files.items()})


def _cpufreq(host: LabHost) -> Tree:
    def online() -> frozenset[int]:
        return host.switches.online

    # What it counts at is the scenario's, whatever is written; shown is the nearest within limits.
    def current(policy: Policy) -> int:
        least, most = policy.limits_khz()
        runs_khz = round(float(host.model.frequencies[0].hz[policy.number]) / 1000)
        return min(max(runs_khz, least), most)

    texts = cpufreq_tree.texts(host.cpufreq, online, current)
    return TextTree(texts, cpufreq_tree.folders(host.cpufreq))


def _own_mounts() -> str:
    return Path("/proc/self/mounts").read_text(encoding="utf-8", errors="surrogateescape")
