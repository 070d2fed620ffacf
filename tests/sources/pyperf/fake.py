"""The kernel's Python module as `PythonPerfSource` sees it, on a host with trouble on demand.

As Linux 7.2 behaves: an event opens on every CPU of its PMU unless `cpu` terms say otherwise, a
read gives what was counted since the read before, times only where `read_format` asks for them,
and to read what is closed ends the process, which is an AssertionError here.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

from tests.sources.trees import ONLINE, PMUS, put

SECOND = 1_000_000_000
# Per ns of running time, each its own, so that a swapped column shows.
RATES = {
    "cycles": 30,
    "instructions": 45,
    "ref-cycles": 20,
    "msr/mperf": 20,
    "msr/tsc": 25,
    "context-switches": 11,
    "cpu/de_no_dispatch_per_slot.no_ops_from_frontend": 36,
    "cpu/de_no_dispatch_per_slot.backend_stalls": 72,
    "cpu/de_src_op_disp.all": 66,
    "cpu/ex_ret_ops": 60,
}
SOFTWARE = frozenset({"context-switches", "msr/tsc", "msr/mperf"})

# Zen 4's top-down as perf has it (tools/perf/pmu-events/arch/x86/amdzen4/pipeline.json): of
# 6 x 30 = 180 slots a ns the rates above make 0.2, 0.0333, 0.4 and 0.3333.
_SLOTS = "total_dispatch_slots"
ZEN4 = (
    {"MetricName": "frontend_bound", "ScaleUnit": "100%",
     "MetricExpr": f"d_ratio(de_no_dispatch_per_slot.no_ops_from_frontend, {_SLOTS})"},
    {"MetricName": "bad_speculation", "ScaleUnit": "100%ops",
     "MetricExpr": f"d_ratio(de_src_op_disp.all - ex_ret_ops, {_SLOTS})"},
    {"MetricName": "backend_bound", "ScaleUnit": "100%slots",
     "MetricExpr": f"d_ratio(de_no_dispatch_per_slot.backend_stalls, {_SLOTS})"},
    {"MetricName": "retiring", "ScaleUnit": "100%",
     "MetricExpr": f"d_ratio(ex_ret_ops, {_SLOTS})"},
    {"MetricName": _SLOTS, "MetricExpr": "6 * ls_not_halted_cyc"},
)  # fmt: skip
ZEN4_SHARES = {
    "tma.frontend_bound": 36 / 180,
    "tma.bad_speculation": 6 / 180,
    "tma.backend_bound": 72 / 180,
    "tma.retiring": 60 / 180,
}
ZEN4_EVENTS = tuple(name.removeprefix("cpu/") for name in RATES if name.startswith("cpu/"))

_TERM = re.compile(r"(?P<head>[\w.-]+)/(?P<inside>[^/]*)/")


@dataclass
class FakePerf:
    """Give it the folder that stands for `/`; it is a `PerfModule`."""

    root: Path
    cpus: int = 4
    rows: tuple[Mapping[str, str], ...] = ZEN4
    # What parse_metrics shows, None where it fails.
    shown: tuple[str, ...] | None = (*ZEN4_EVENTS, "ls_not_halted_cyc")
    unknown: frozenset[str] = frozenset()  # to the parser
    # (names of the group, CPU) -> errno or 0
    refuse: Callable[[tuple[str, ...], int], int] = lambda names, cpu: 0
    # (names of the group, CPU) -> the share of the time it is on the counters
    share: Callable[[tuple[str, ...], int], float] = lambda names, cpu: 1.0
    reorder: bool = False
    knows_cpu_term: bool = True
    complains: bool = False  # on descriptor 2, as perf's parser does
    bare: bool = False  # events show themselves without their PMU, as after Linux 7.2

    now_ns: int = 1000
    online: set[int] = field(default_factory=set)
    born: dict[int, int] = field(default_factory=dict)  # when each CPU last came online
    opened: list[tuple[str, int]] = field(default_factory=list)
    reads: list[tuple[str, int]] = field(default_factory=list)
    live: int = 0  # descriptors
    evsel: type = field(init=False)
    evlist: type = field(init=False)

    def __post_init__(self) -> None:
        self.evsel, self.evlist = FakeEvent, FakeList
        self.online = set(range(self.cpus))
        self.born = dict.fromkeys(self.online, 0)
        put(self.root / PMUS / "msr/events", {"tsc": "event=0", "mperf": "event=0"})
        self.write_online()

    def write_online(self) -> None:
        """Write which CPUs are online; until then sysfs lags behind."""
        put(self.root, {ONLINE: ",".join(map(str, sorted(self.online)))})

    def bounce(self, cpu: int) -> None:
        """Offline and online again, so fast that nobody sees it."""
        self.born[cpu] = self.now_ns

    def metrics(self) -> list[dict[str, str]]:
        return [{"PMU": "default_core", **row} for row in self.rows]

    def parse_metrics(self, names: str, /) -> FakeList:
        if self.shown is None or not names:
            raise OSError(-1, "Unknown error -1")
        return FakeList(self, [FakeEvent(self, f"cpu/{name}", name, ()) for name in self.shown])

    def parse_events(self, text: str, /) -> FakeList:
        if self.complains:
            os.write(2, b"event syntax error")
        events = []
        for result in _TERM.finditer(text):
            inside = result["inside"].split(",")
            terms = [item for item in inside if not item.startswith("cpu=")]
            name = "/".join([result["head"], *terms])
            name = name if name in RATES else f"cpu/{name}"
            if name not in RATES or name in self.unknown:
                raise OSError(errno.ENOTTY, "Inappropriate ioctl for device")
            spans = [item.removeprefix("cpu=") for item in inside if item.startswith("cpu=")]
            cpus = _cpus(spans) if self.knows_cpu_term else tuple(sorted(self.online))
            events.append(FakeEvent(self, name, result[0], cpus))
        return FakeList(self, events[::-1] if self.reorder else events)


def _cpus(spans: list[str]) -> tuple[int, ...]:
    ends = [(span.split("-")[0], span.split("-")[-1]) for span in spans]
    return tuple(cpu for first, last in ends for cpu in range(int(first), int(last) + 1))


class FakeEvent:
    def __init__(self, host: FakePerf, name: str, term: str, cpus: tuple[int, ...]) -> None:
        self.host, self.name, self.term = host, name, term
        self.on = cpus
        self.read_format = 0
        self.group: tuple[str, ...] | None = None
        self.opened_ns = 0
        self.last: dict[int, tuple[int, int, int]] = {}

    def __str__(self) -> str:
        return f"evsel({self.term})" if self.host.bare else f"evsel(cpu/{self.term}/)"

    def cpus(self) -> tuple[int, ...]:
        return self.on

    def read(self, cpu: int, thread: int, /) -> SimpleNamespace:
        assert self.group is not None, "Segmentation fault"
        assert cpu in self.on
        assert thread == -1
        host = self.host
        host.reads.append((self.name, cpu))
        host.now_ns += 1  # reading takes time
        dead = cpu not in host.online or host.born[cpu] > self.opened_ns
        enabled = self.last.get(cpu, (0, 0, 0))[1] if dead else host.now_ns - self.opened_ns
        alone = set(self.group) <= SOFTWARE
        running = int(enabled * (1.0 if alone else host.share(self.group, cpu)))
        now = (RATES[self.name] * (cpu + 1) * running, enabled, running)
        before = self.last.get(cpu, (0, 0, 0))
        self.last[cpu] = now
        val, ena, run = (new - old for new, old in zip(now, before, strict=True))
        with_times = self.read_format == 3
        return SimpleNamespace(val=val, ena=ena * with_times, run=run * with_times)


class FakeList:
    def __init__(self, host: FakePerf, events: list[FakeEvent]) -> None:
        self.host, self.events = host, events

    def __iter__(self) -> Iterator[FakeEvent]:
        return iter(self.events)

    def open(self) -> None:
        names = tuple(sorted(event.name for event in self.events))
        for event in self.events:
            for cpu in event.on:
                code = self.host.refuse(names, cpu) if cpu in self.host.online else errno.ENODEV
                if code:
                    raise OSError(code, os.strerror(code))
        for event in self.events:
            event.group, event.opened_ns, event.last = names, self.host.now_ns, {}
            self.host.opened += [(event.name, cpu) for cpu in event.on]
            self.host.live += len(event.on)

    def enable(self) -> None:
        assert all(event.group for event in self.events)

    def disable(self) -> None:
        assert all(event.group for event in self.events), "Segmentation fault"

    def close(self) -> None:
        for event in self.events:
            self.host.live -= len(event.on) if event.group else 0
            event.group = None
