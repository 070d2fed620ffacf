"""A table's events on the fake kernel, each at a pace of its own, counted up to top-down."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from nftop.derive.cpu.counters import CounterState, step_counters
from nftop.model.missing import Reading
from nftop.model.sample import CounterTable, SourceReading
from nftop.sources.perf.pmu import encode, read_pmu
from nftop.sources.perf.source import PerfSource
from nftop.uarch.table import Encoding, EventSpec, Uarch
from nftop.uarch.topdown import evaluate, sum_siblings
from tests.samples import topology
from tests.sources import perf_kernel
from tests.sources.perf_kernel import Event, FakeKernel

SECOND = 1_000_000_000
OTHERWISE = 7  # counts per microsecond of an event that has no pace of its own
BOTH_THREADS, ONE_THREAD = topology(4), topology(4, smt=False)


def set_paces(
    fake: FakeKernel,
    uarch: Uarch,
    per_us: Mapping[str, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Let the kernel know those of the table's events that its sysfs has terms for."""
    rates = {
        code: per_us.get(name, OTHERWISE)
        for name, spec in uarch.events.items()
        if (code := _code(spec, fake.root)) is not None
    }
    fake.known = frozenset(rates)
    monkeypatch.setattr(perf_kernel, "RATES", rates)


def _code(spec: EventSpec, root: Path) -> Event | None:
    try:
        code = spec if isinstance(spec, Encoding) else encode(read_pmu(spec.pmu, root), spec.terms)
    except ValueError:
        return None
    return code.pmu_type, code.config


def topdown(
    fake: FakeKernel, uarch: Uarch, *, smt: bool, levels: int
) -> tuple[CounterTable, dict[str, Reading]]:
    """The last table of a few ticks, and what derives from it for CPU 0."""
    source = PerfSource(
        root=fake.root,
        kernel=fake.kernel,
        clock_ns=lambda: fake.now_ns,
        uarch=uarch.with_smt(on=smt),
    )
    host = BOTH_THREADS if smt else ONE_THREAD
    state = CounterState()
    nodes: dict[str, Reading] = {}
    last: CounterTable | None = None
    for tick in range(1, 9):
        fake.pass_ns(9 * SECOND // 10)
        if source.turning:
            source.turn()
        fake.pass_ns(SECOND // 10)
        read = source.read()
        assert isinstance(read, CounterTable)
        last = read
        state, rates = step_counters(state, SourceReading(read, tick * SECOND, 0), host)
        columns = evaluate(uarch, sum_siblings(rates.per_s, host), smt=smt, levels=levels)
        nodes = {name.removeprefix("tma."): column[0] for name, column in columns.items()}
    source.close()
    assert last is not None and not fake.fds
    return last, nodes


def counted(table: CounterTable, *, group: int | None = None) -> list[str]:
    """What is counted on every CPU, in whichever group or in this one."""
    columns = zip(table.events, table.group.tolist(), table.reasons.T, strict=True)
    return [name for name, its, why in columns if group in (None, its) and not why.any()]
