"""Gates to the host of a command line: one for each kind of change, and one for all."""

from __future__ import annotations

import argparse

from nftop.cli.compose.classes_host import simulated
from nftop.cli.parsers.cat import EndedError
from nftop.control.backend import CLASSES, AbsentError
from nftop.control.backends import open_classes
from nftop.control.cpufreq.backend import FrequencyBackend
from nftop.control.cpufreq.cpufreq import CPUFREQ, open_cpufreq
from nftop.control.gate import BackendClassGate, BackendGate, HostGate, open_gate, open_host_gate
from nftop.control.journal import FileJournal, Journal, unfinished
from nftop.control.speed_select.backend import NOT_SIMULATED, SpeedSelect, open_isst
from nftop.export.output import OK


def classes_gate(options: argparse.Namespace) -> BackendClassGate:
    """Gate of cache classes. Raises AbsentError, UsageError."""
    if options.scenario is None:
        return open_gate(open_classes())
    return _simulated_gates(options).gates[CLASSES]


def frequencies_gate(options: argparse.Namespace) -> BackendGate[FrequencyBackend]:
    """Gate of frequencies. Raises AbsentError, UsageError."""
    if options.scenario is None:
        backend: FrequencyBackend = open_cpufreq()
        return open_gate(backend)
    return _simulated_gates(options).gates[CPUFREQ]


def isst_gate(options: argparse.Namespace) -> BackendGate[SpeedSelect]:
    """Gate of SST-BF and SST-CP classes. Raises AbsentError."""
    if options.scenario is not None:
        raise AbsentError(NOT_SIMULATED)
    return open_gate(open_isst())


def whole_gate(options: argparse.Namespace) -> HostGate:
    """Gate of all backends. Raises AbsentError if there is none, UsageError."""
    if options.scenario is not None:
        return _simulated_gates(options)
    gate, absent = open_host_gate()
    if gate is None:
        raise AbsentError("; ".join(absent.values()))
    return gate


def undo_gate(options: argparse.Namespace) -> HostGate:
    """As `whole_gate`; without a backend EndedError (OK) if nftop never changed this host."""
    try:
        return whole_gate(options)
    except AbsentError:
        journal = journal_of(options)
        if not journal.history() and not unfinished(journal):
            text = "there is nothing to take back: nftop has changed nothing on this host"
            raise EndedError(text, OK) from None
        raise


def _simulated_gates(options: argparse.Namespace) -> HostGate:
    from nftop.control.simulated import simulated_gates  # noqa: PLC0415 - numpy comes with it

    return simulated_gates(simulated(options).world)


def journal_of(options: argparse.Namespace) -> Journal:
    """Journal of this host, or the empty one of a simulated host."""
    return FileJournal() if options.scenario is None else classes_gate(options).journal
