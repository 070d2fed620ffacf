"""`nftop sst`: show and change frequencies and priority of cores."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence

from nftop.cli.commands.apply import Planned, change
from nftop.cli.compose.classes_host import ending, resolve_group, wants_json
from nftop.cli.compose.gates import classes_gate, frequencies_gate, isst_gate
from nftop.cli.compose.hosts import open_requested
from nftop.cli.parsers.cat import GoneError
from nftop.cli.parsers.cat_actions import TrialWish
from nftop.control.cpufreq.backend import FrequencyBackend
from nftop.control.cpufreq.policies import CoreSettings, cores
from nftop.control.gate import BackendGate
from nftop.control.gate_protocols import ClassGate
from nftop.control.journal import FileJournal
from nftop.control.journal_check import news
from nftop.control.resctrl.operations import cpus_in
from nftop.control.speed_select.backend import NOT_SIMULATED, SpeedSelect
from nftop.export.output import put
from nftop.model.change import (
    Action,
    PinCpus,
    PinEvery,
    ReleaseCpus,
    SetCpClass,
    SstAction,
    SwitchBf,
)
from nftop.model.frame import is_named
from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.missing import Missing, Reason
from nftop.model.rdt.rdt import ROOT, class_directory, class_name
from nftop.model.sst import SstState, Switch
from nftop.render.base.text import printable
from nftop.sources.cpufreq.isst import read_sst

# NFs are known from the second reading on.
_FRAMES = 3
_POLL_S = 0.5


def sst(options: argparse.Namespace) -> int:
    resolve_group(options)
    if options.subcommand == "show":
        with ending(options) as ended:
            _show(options)
        return ended[0]

    if options.subcommand == "try":
        from nftop.cli.commands.sweep import tried  # noqa: PLC0415 - numpy comes with it

        return tried(options, _wanted_pins)
    if options.subcommand in ("bf", "cp"):
        action, words = _bf(options) if options.subcommand == "bf" else _cp(options)

        def switch(gate: BackendGate[SpeedSelect]) -> Planned:
            return gate.propose([action], (f"{gate.program} {shlex.join(words)}",)), ()

        return change(options, isst_gate, switch)

    def plan(gate: BackendGate[FrequencyBackend]) -> Planned:
        action: Action
        if options.subcommand == "apply":
            action = PinEvery(options.mode)
        else:
            kind = PinCpus if options.subcommand == "pin" else ReleaseCpus
            action = kind(_cpus(options, gate))
        return gate.propose([action], (_command(options, gate),)), ()

    return change(options, frequencies_gate, plan)


def _wanted_pins(options: argparse.Namespace, _gate: ClassGate) -> TrialWish:
    """The configuration of `sst try`."""
    cpus = tuple(options.cpus)
    return TrialWish("pinned", (PinCpus(cpus),), ("--cpus", format_cpu_list(cpus)))


def _bf(options: argparse.Namespace) -> tuple[SstAction, list[str]]:
    packages = tuple(sorted(set(options.package or ())))
    words = ["sst", "bf", options.state]
    words += [word for package in packages for word in ("--package", str(package))]
    return SwitchBf(options.state == "on", packages), words


def _cp(options: argparse.Namespace) -> tuple[SstAction, list[str]]:
    cpus, number = tuple(options.cpus), options.cp_class
    words = ["sst", "cp", "--cpus", format_cpu_list(cpus), "--class", str(number)]
    return SetCpClass(cpus, number), words


def _cpus(options: argparse.Namespace, gate: BackendGate[FrequencyBackend]) -> tuple[Cpu, ...]:
    """CPUs that the command line names. Raises GoneError, OSError."""
    if options.cpus:
        return tuple(options.cpus)
    if options.group is not None:
        return _of_group(options)
    if options.nf is not None:
        return _of_nf(options)
    facts = gate.host.facts()
    online = {cpu for policy in facts.policies for cpu in policy.cpus} - facts.offline
    return tuple(map(Cpu, sorted(online)))


def _of_group(options: argparse.Namespace) -> tuple[Cpu, ...]:
    group = class_directory(options.group)
    state = classes_gate(options).host.state()
    if group != ROOT and not any(cell.group == group for cell in state):
        raise GoneError(f"there is no group {group}")
    cpus = cpus_in(state, group)
    if not cpus:
        raise GoneError(f"group {class_name(group)} has no CPU")
    return tuple(map(Cpu, sorted(cpus)))


def _of_nf(options: argparse.Namespace) -> tuple[Cpu, ...]:
    """CPUs of all NFs of that name, as the screen shows them."""
    feed = open_requested(options).feed(interval_s=_POLL_S)
    names: set[str] = set()
    try:
        for count, frame in enumerate(feed.frames(), 1):
            names |= {row.name for row in frame.nfs}
            cpus = {cpu for row in frame.nfs if is_named(row, options.nf) for cpu in row.cpus}
            if cpus:
                return tuple(sorted(cpus))
            if count == _FRAMES:
                break
    finally:
        feed.stop()
    known = ", ".join(sorted(names)) or "none that polls"
    raise GoneError(f"there is no network function {options.nf} that polls; there is {known}")


def _command(options: argparse.Namespace, gate: BackendGate[FrequencyBackend]) -> str:
    words = ["sst", options.subcommand]
    if options.subcommand == "apply":
        words += ["--mode", options.mode]
    elif options.cpus:
        words += ["--cpus", format_cpu_list(options.cpus)]
    elif options.group is not None:
        words += ["--group", class_name(class_directory(options.group))]
    elif options.nf is not None:
        words += ["--nf", options.nf]
    else:
        words += ["--all"]
    return f"{gate.program} {shlex.join(words)}"


def _show(options: argparse.Namespace) -> None:
    backend = frequencies_gate(options).host
    facts = backend.facts()
    rows, others = cores(facts, backend.state()), backend.keepers()
    is_simulated = options.scenario is not None
    sst_state: SstState | Missing = Missing(Reason.SOURCE, NOT_SIMULATED)
    if not is_simulated:
        sst_state = read_sst([core.cpu for core in rows])
    cut_off = "" if is_simulated else news(FileJournal())
    if wants_json(options):
        from nftop.export.json.changes import cores_json  # noqa: PLC0415 - only here

        text = cores_json(rows, others, sst_state, simulated=is_simulated, unfinished=cut_off)
        put(sys.stdout, text + "\n")
        return
    classes = {} if isinstance(sst_state, Missing) else sst_state.cp_class
    lines = [printable(cut_off), ""] * bool(cut_off) + [*_table(rows, classes)]
    lines += ["", *_packages(sst_state)]
    lines += ["", *(f"warning: {printable(other)}" for other in others)] * bool(others)
    put(sys.stdout, "\n".join(lines) + "\n")


_HEAD = (
    "CPU", "SIBLING", "PRIORITY", "BASE MHz", "MIN", "MAX", "LIMITS", "GOVERNOR", "EPP", "SST-CP",
)  # fmt: skip


def _table(rows: Sequence[CoreSettings], classes: Mapping[int, int]) -> list[str]:
    """`classes`: SST-CP classes; no column where there are none."""
    count = len(_HEAD) - (not classes)
    cells = [_HEAD[:count], *(_row(row, classes)[:count] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(count)]
    return [
        "  ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def _row(core: CoreSettings, classes: Mapping[int, int]) -> tuple[str, ...]:
    return (
        str(core.cpu),
        format_cpu_list(core.siblings) or "-",
        core.priority or "-",
        _mhz(core.base_khz),
        _mhz(core.min_khz),
        _mhz(core.max_khz),
        f"{_mhz(core.least_khz)}-{_mhz(core.most_khz)}" + " pinned" * core.pinned,
        printable(core.governor or "-"),
        printable(core.epp or "-"),
        str(classes.get(core.cpu, "-")),
    )


def _packages(sst_state: SstState | Missing) -> list[str]:
    """State of each package, or why it is unknown."""
    if isinstance(sst_state, Missing):
        return [printable(sst_state.message)]
    return [
        f"package {package.package}{f' die {package.die}' * bool(package.die)}: "
        f"SST-BF {_state(package.bf, package.bf_supported)}, "
        f"SST-CP {_state(package.cp, package.cp_supported)}"
        for package in sst_state.packages
    ]


def _state(switch: Switch, supported: Switch) -> str:
    return "not supported" if supported is False else _SWITCH[switch]


_SWITCH: Mapping[Switch, str] = {True: "on", False: "off", None: "not told"}


def _mhz(khz: int | None) -> str:
    return "-" if khz is None else f"{khz / 1000:g}"
