"""The gates of the host that a command line means: of each part, and of all."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from types import MappingProxyType

from nftop.cli.compose.classes_host import simulated
from nftop.control.backend import AbsentError
from nftop.control.backends import CLASSES, open_classes
from nftop.control.cpufreq.backend import Frequencies
from nftop.control.cpufreq.cpufreq import CPUFREQ, open_cpufreq
from nftop.control.gate import AnyGate, Gate, Joined, PartGate, real_gate
from nftop.control.journal import FileJournal, Journal
from nftop.control.speed_select.backend import ISST, NOT_SIMULATED, SpeedSelect, open_isst


def classes_gate(options: argparse.Namespace) -> Gate:
    """Of cache classes. Raises AbsentError, UsageError."""
    if options.scenario is None:
        return real_gate(open_classes())
    from nftop.control.simulated import simulated_gate  # noqa: PLC0415 - numpy comes with it

    return simulated_gate(simulated(options).world)


def frequencies_gate(options: argparse.Namespace) -> PartGate[Frequencies]:
    """Of the frequencies of cores. Raises AbsentError, UsageError."""
    if options.scenario is None:
        part: Frequencies = open_cpufreq()
        return real_gate(part)
    from nftop.control.simulated import simulated_frequencies  # noqa: PLC0415 - as above

    return simulated_frequencies(simulated(options).world)


def isst_gate(options: argparse.Namespace) -> PartGate[SpeedSelect]:
    """Of SST-BF and SST-CP classes. Raises AbsentError."""
    if options.scenario is not None:
        raise AbsentError(NOT_SIMULATED)
    return real_gate(open_isst())


def whole_gate(options: argparse.Namespace) -> Joined:
    """Of all parts that can be changed. Raises AbsentError where none can, UsageError."""
    if options.scenario is not None:
        from nftop.control.simulated import simulated_gates  # noqa: PLC0415 - as above

        return simulated_gates(simulated(options).world)
    found, absent = real_gates()
    if found is None:
        raise AbsentError("; ".join(absent.values()))
    return found


def real_gates(
    refused: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Joined | None, Mapping[str, str]]:
    """Of this host, None where nothing can be changed; and why parts can't be, by their names.

    `refused`: parts that are not opened, and why.
    """
    gates: dict[str, AnyGate] = {}
    absent = dict(refused)
    for name, opener in (
        (CLASSES, open_classes),
        (CPUFREQ, open_cpufreq),
        (ISST, open_isst),
    ):
        if name in refused:
            continue
        try:
            gates[name] = real_gate(opener())
        except AbsentError as error:
            absent[name] = str(error)
    return Joined(gates, absent) if gates else None, absent


def journal_of(options: argparse.Namespace) -> Journal:
    """Of this host, or the empty one that a simulated host begins with."""
    return FileJournal() if options.scenario is None else classes_gate(options).journal
