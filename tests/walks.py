"""Files that a counter passes on its way to the screen, and a change on its way to resctrl.

They are measured: the union of the package's files on the call stacks of a few functions, taken
while the application runs in this process, and of the files that define what these hand over.
"""

from __future__ import annotations

import inspect
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

import nftop
from nftop.control import backends, guard_client, guard_process, journal_entry, transaction
from nftop.control.gate import BackendGate
from nftop.control.journal import FileJournal
from nftop.control.resctrl import plan
from nftop.control.resctrl.writer import Resctrl
from nftop.derive.cpu.counters import COUNTERS
from nftop.derive.fold import FoldState
from nftop.model.change import Proposal
from nftop.model.check import Check
from nftop.model.column import Column
from nftop.model.frame import Frame
from nftop.model.metrics.catalogue import cpu_metric
from nftop.model.metrics.metric import Unit
from nftop.model.missing import Missing
from nftop.model.sample import CounterTable
from nftop.render.base import format as cell_format
from nftop.render.base.line import Line
from nftop.session.live import Live
from nftop.sources.perf.abi import host_kernel
from nftop.sources.perf.group import GroupReader
from nftop.sources.perf.source import PerfSource
from nftop.store.history.rings import TickHistory
from nftop.ui.app import NftopApp
from nftop.ui.widgets.lines import Lines
from tests.control.hosts import LabHost
from tests.samples import HOST, topology
from tests.sources.perf_kernel import FakeKernel
from tests.ui.editing import apply, edited
from tests.ui.gates import MemoryGate, open_gate

PACKAGE = Path(nftop.__file__).parent
_TICK_NS = 100_000_000
_LIMIT_S = 180.0

# What the editor's gate in the tests leaves out, as its guard is no process: guard, request, the
# journal's file, and the files of resctrl, which the lab's host has in memory.
_CHANGE_HANDED_OVER = (
    BackendGate.apply,
    guard_client.start_guard,
    journal_entry.request,
    guard_process.main,
    backends.open_backend,
    FileJournal,
    Resctrl.do,
    Proposal,
)
_COUNTER_HANDED_OVER = (host_kernel, CounterTable, COUNTERS.run, Column, Frame, Line)


class PacedCounters:
    """Counters of a fake kernel, whose time passes at each read."""

    name = "perf"
    inline = True

    def __init__(self, root: Path) -> None:
        self._kernel = FakeKernel(root, cpus=4)
        self._source = PerfSource(
            root=root, kernel=self._kernel.kernel, clock_ns=lambda: self._kernel.now_ns
        )

    def read(self) -> CounterTable | Missing:
        self._kernel.pass_ns(_TICK_NS)
        return self._source.read()

    def check(self) -> tuple[Check, ...]:
        return ()

    def close(self) -> None:
        self._source.close()


async def counter_to_screen() -> set[str]:
    """Files that the counts of instructions and cycles pass until IPC is drawn."""
    ipc = cpu_metric("ipc").compute
    assert ipc is not None
    cell_format.printer.cache_clear()  # so that it is called
    with (
        tempfile.TemporaryDirectory() as root,
        stacks(
            GroupReader.fetch, ipc, cell_format.printer, Lines.render_lines, unit=Unit.PER_CYCLE
        ) as files,
    ):
        feed = Live(
            (PacedCounters(Path(root)),),
            FoldState(HOST, topology(4, smt=False)),
            _TICK_NS / 1e9,
            on_pollers=lambda *_: None,
        )
        async with NftopApp(feed, TickHistory()).run_test(size=(120, 36)) as pilot:
            deadline_s = time.monotonic() + _LIMIT_S
            while not all(files.values()):
                assert time.monotonic() < deadline_s, files
                await pilot.pause(0.05)
    return set().union(*files.values(), map(file_of, _COUNTER_HANDED_OVER))


async def key_to_resctrl() -> set[str]:
    """Files that a mask passes from the key in the editor until it is written."""
    gate = open_gate()
    with stacks(plan.propose, MemoryGate.apply, transaction.apply, LabHost.do) as files:
        async with edited(gate, "plus") as run:
            await apply(run, gate)
    assert all(files.values()), "each of them ran"
    return set().union(*files.values(), map(file_of, _CHANGE_HANDED_OVER))


def file_of(defined: object) -> str:
    """The package's file that defines a class or function, relative to the package."""
    assert inspect.isclass(defined) or inspect.isroutine(defined)
    if inspect.isclass(defined):
        return defined.__module__.partition(".")[2].replace(".", "/") + ".py"
    return Path(inspect.getfile(inspect.unwrap(defined))).relative_to(PACKAGE).as_posix()


@contextmanager
def stacks(
    *functions: Callable[..., object], unit: Unit | None = None
) -> Iterator[dict[str, set[str]]]:
    """By name of a function, the package's files on the stacks of its calls within the context.

    Of a function with a parameter `unit` only calls with this one count.
    """
    codes: dict[CodeType, str] = {
        inspect.unwrap(item).__code__: f"{item.__module__}.{item.__qualname__}"
        for item in functions
    }
    files: dict[str, set[str]] = {name: set() for name in codes.values()}

    def observe(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or frame.f_code not in codes:
            return
        if frame.f_locals.get("unit", unit) is not unit:
            return
        name = codes[frame.f_code]
        caller: FrameType | None = frame
        while caller is not None:
            path = Path(caller.f_code.co_filename)
            if path.is_relative_to(PACKAGE):
                files[name].add(path.relative_to(PACKAGE).as_posix())
            caller = caller.f_back

    threading.setprofile(observe)
    sys.setprofile(observe)
    try:
        yield files
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
