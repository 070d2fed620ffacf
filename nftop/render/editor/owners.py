"""Who is in each class of the editor: CPUs, network functions, what a packet costs them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nftop.derive.cache.class_cost import cost_of
from nftop.derive.placement import kinds
from nftop.model.change import Cell, State, parts
from nftop.model.frame import CacheClass, Frame
from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.metrics.catalogue import cpu_metric
from nftop.model.rdt.rdt import ROOT
from nftop.model.sst import Priority
from nftop.render.base import format as fmt
from nftop.render.cores.table import is_bound, is_other
from nftop.render.editor.model import Board
from nftop.render.power.settings import LETTERS


class Who(NamedTuple):
    """As texts: CPUs, names of network functions (untrusted), what a packet costs them all."""

    cpus: str
    nfs: str
    cpp: str


CPP = 6  # cells of cycles per packet
NOBODY = Who("none", "", "")


def who_is_where(board: Board, frame: Frame) -> Mapping[str, Who]:
    """Of each class those on the selected cache: what runs elsewhere fills other caches."""
    wanted = board.spot.domain if board.spot.cache == "L3" else None
    near = {cpu.cpu for cpu in frame.topology.cpus if wanted in (None, cpu.l3)}
    rows: dict[str, list[int]] = defaultdict(list)
    for row, nf in enumerate(frame.cpus.nf):
        if nf is not None and frame.cpus.topology.cpus[row].cpu in near:
            rows[_class_of(frame, row, board.target)].append(row)
    kinds_of = kinds(frame.cpus)
    found = {}
    for group in board.groups:
        every = board.cpus.get(group, ())
        here = [cpu for cpu in every if cpu in near]
        cpus = _cores(here, kinds_of) if here or not every else "elsewhere"
        found[group] = Who(cpus, *_network_functions(frame, rows[group]))
    return found


def _cores(cpus: Sequence[int], kinds_of: Mapping[Cpu, Priority]) -> str:
    told = {LETTERS[kinds_of[Cpu(cpu)]] for cpu in cpus if Cpu(cpu) in kinds_of}
    return f"{format_cpu_list(cpus) or NOBODY.cpus} {'/'.join(sorted(told))}".rstrip()


def _network_functions(frame: Frame, rows: Sequence[int]) -> tuple[str, str]:
    """The names of those that poll on some rows, and the cycles per packet of all of them."""
    if not rows:
        return "", ""
    names = ", ".join(dict.fromkeys(frame.cpus.nf[row] or "" for row in rows))
    cost, metric = cost_of(frame, rows), cpu_metric("cpp")
    bound = is_bound(metric, saturated=cost.saturated, clock=cost.clock)
    return names, fmt.cell(cost.cpp, metric.unit, CPP, bound=bound, estimate=is_other(cost.clock))


def _class_of(frame: Frame, row: int, target: State) -> str:
    """The class that counts on a CPU: its poller's own, or the CPU's after the draft."""
    told = frame.cpus.group[row]
    if isinstance(told, CacheClass) and told.of == "task":
        return told.name
    cpu = frame.cpus.topology.cpus[row].cpu
    return parts(target.get(Cell("cpu", "", number=cpu), ROOT))[0]
