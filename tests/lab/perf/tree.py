"""The files that answer as perf events do: opening one is perf_event_open, closing it the end.

A file's name carries the call (`call.name_of`). Sources: `perf_read`, `_perf_ioctl` and their
helpers in kernel/events/core.c, Linux 6.1; perf_event_open(2) for the layout of what is read.
"""

from __future__ import annotations

import errno
import functools
import struct
import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np

from nftop.model.column import Floats
from nftop.sim.model import Model
from tests.lab.machine import Machine
from tests.lab.meters import Meter, Meters
from tests.lab.perf import competitor
from tests.lab.perf import tasks as lab_tasks
from tests.lab.perf.access import ANY_CPU, EVERY_TASK, check_arguments, check_rights
from tests.lab.perf.attr import (
    FORMAT_ENABLED,
    FORMAT_GROUP,
    FORMAT_ID,
    FORMAT_LOST,
    FORMAT_RUNNING,
    Attr,
    parse,
)
from tests.lab.perf.call import Call, parse_name
from tests.lab.perf.competitor import Demand
from tests.lab.perf.context import Context, Member
from tests.lab.perf.events import Event, resolve
from tests.lab.perf.pmu import load
from tests.lab.perf.tasks import TaskClock, Tasks, Watch, host_tasks
from tests.lab.tree import Caller, Entry, Handle, failed
from tests.lab.uncore.boxes import Box, Boxes, Readers
from tests.lab.uncore.events import resolve as resolve_box
from tests.lab.uncore.units import units_of

_ROOT = Entry(folder=True, mode=0o700, inode=1)
_FOR_GROUP = 1
_RESOLVED = 1024
# Requests by number, without their size: _IO*('$', n).
_KIND = ord("$")
_ENABLE, _DISABLE, _REFRESH, _RESET, _PERIOD, _SET_OUTPUT, _SET_FILTER, _ID, _SET_BPF = range(9)
_PAUSE_OUTPUT, _QUERY_BPF, _MODIFY = range(9, 12)
_REFUSED = (_REFRESH, _PERIOD, _SET_FILTER, _SET_BPF, _PAUSE_OUTPUT, _QUERY_BPF, _MODIFY)


class PerfTree:
    """Every open event of the lab, one file each; safe to use from several threads."""

    def __init__(
        self,
        machine: Machine,
        model: Model,
        now_ns: Callable[[], int],
        *,
        online: Callable[[], Collection[int]] | None = None,
        paranoid: Callable[[], int] | None = None,
        watchdog: Callable[[], bool] | None = None,
        tasks: Tasks | None = None,
        readers: Readers | None = None,
    ) -> None:
        """Make the tree; what is not given stays as the machine has it at boot.

        Args:
            now_ns: since the model's start.
            online: the CPUs that are.
            paranoid: kernel.perf_event_paranoid.
            watchdog: the NMI watchdog runs.
            tasks: those of this host.
            readers: of the boxes outside the cores.
        """
        topology = model.layout.topology
        everywhere = frozenset(info.cpu for info in topology.cpus)
        smt = any(info.siblings for info in topology.cpus)
        self._pmu = load(machine, smt=smt)
        self._model, self._now_ns = model, now_ns
        self._cpus = len(topology.cpus)
        self._online = online or (lambda: everywhere)
        self._paranoid = paranoid or (lambda: self._pmu.paranoid)
        self._watchdog = watchdog or (lambda: self._pmu.watchdog)
        self._tasks = tasks or host_tasks()
        self._boxes = Boxes(units_of(machine, model), model)
        self._meters = Meters(machine, model, self._online)
        # The same event is opened on every CPU and package.
        self._resolve = functools.lru_cache(_RESOLVED)(functools.partial(resolve, self._pmu))
        self._resolve_box = functools.lru_cache(_RESOLVED)(self._box_event)
        self._readers = readers or Readers(topology, self._online)
        # By the PMU's type (0: the CPU's own), the task or the package's row, and the CPU.
        self._contexts: dict[tuple[int, int, int], Context] = {}
        self._open: dict[int, tuple[str, Member]] = {}
        self._watch = Watch()
        self._demand, self._rivals = Demand(), list[tuple[tuple[int, int, int], Member]]()
        self._unknown = Counter[str]()
        self._online_seen: Collection[int] = everywhere
        self._lock = threading.RLock()

    @property
    def competitor(self) -> Demand:
        """What another program wants of the counters."""
        return self._demand

    def compete(self, text: str) -> None:
        """Have it want something else, on the CPUs that are online; ValueError as its `parse`."""
        demand = competitor.parse(text, self._pmu)
        with self._lock:
            self._bury()
            for key, leader in self._rivals:
                if (context := self._contexts.get(key)) is not None and not leader.dead:
                    competitor.leave(context, leader)
                    self._drop_empty(key, context)
            self._rivals = []
            for cpu in sorted(self._online()) if demand.groups else ():
                key = (0, EVERY_TASK, cpu)
                context = self._contexts.setdefault(key, self._context(None, EVERY_TASK, cpu))
                self._rivals += [(key, item) for item in competitor.enter(context, demand)]
            self._demand = demand

    @property
    def unknown(self) -> str:
        """What was opened of which the model knows nothing, so that it counts 0: a line each.

        The event and how often, in the order in which they came first.
        """
        with self._lock:
            return "".join(f"{event} {times}\n" for event, times in self._unknown.items())

    def settle(self) -> None:
        """CPUs have come or gone, or the watchdog: from now on, not from the next read on."""
        with self._lock:
            self._bury()
            for context in self._contexts.values():
                context.settle()

    def lookup(self, path: str) -> Entry:
        """The folder, or the file that any call would be."""
        if path == "/":
            return _ROOT
        return Entry(folder=False, mode=0o600, inode=parse_name(path[1:]).event + _ROOT.inode)

    def names(self, path: str) -> Sequence[str]:
        if path != "/":
            raise failed(errno.ENOTDIR)
        with self._lock:
            return [name for name, _ in self._open.values()]

    def open(self, path: str, flags: int, caller: Caller) -> Handle:
        """perf_event_open(2) of the call that the name carries; `caller` is the supervisor."""
        name = path[1:]
        call = parse_name(name)
        attr = parse(call.attr)
        with self._lock:
            if call.event in self._open:
                raise failed(errno.EBUSY)
            uid = self._tasks.uid(call.pid) if call.pid > 0 else None
            self._bury()
            paranoid = self._paranoid()
            check_arguments(call, attr, paranoid=paranoid, uid=uid, cpus=self._cpus)
            leader = self._leader(call)
            box = self._boxes.of_type(attr.pmu_type)
            meter = self._meters.of_type(attr.pmu_type)
            if meter is not None:
                event, of = self._meters.resolve(meter, attr), call.pid
                call = replace(call, cpu=self._meters.reader(meter, call.cpu))
            elif box is None:
                event, of = self._resolve(attr, leader.event if leader else None), call.pid
            else:
                event, (of, cpu) = self._resolve_box(attr), self._readers.of(call.cpu)
                call = replace(call, cpu=cpu)
            check_rights(call, attr, paranoid=paranoid, uid=uid, online=self._online())
            if (box or meter) is not None and call.pid != EVERY_TASK:
                raise failed(errno.EINVAL)
            key = (0, of, call.cpu) if box is None else (attr.pmu_type, of, ANY_CPU)
            key = key if meter is None else (attr.pmu_type, of, call.cpu)
            context = self._contexts.get(key) or self._context(box or meter, of, call.cpu)
            if leader is not None:
                _check_group(leader, context, pinned=attr.pinned or attr.exclusive)
            # The task that waits for its exec has nothing to be counted before it.
            on = "disabled" not in attr.bits or "enable_on_exec" in attr.bits
            member = Member(call.event, event, attr, on)
            context.add(member, leader)
            if isinstance(context.clock, TaskClock):
                self._watch.follow(context.clock)
            self._contexts[key] = context
            self._open[call.event] = name, member
            if event.unknown is not None:
                self._unknown[event.unknown] += 1
        close = functools.partial(self._close, key, context, member)
        return _Event(context, member, lock=self._lock, scan=self._bury, close=close)

    def mkdir(self, path: str, mode: int, caller: Caller) -> None:
        raise failed(errno.EPERM)

    def rmdir(self, path: str, caller: Caller) -> None:
        raise failed(errno.EPERM)

    def rename(self, old: str, new: str, caller: Caller) -> None:
        raise failed(errno.EPERM)

    def _leader(self, call: Call) -> Member | None:
        if not call.leader:
            return None
        if call.leader not in self._open:
            raise failed(errno.EBADF)
        return self._open[call.leader][1]

    def _box_event(self, attr: Attr) -> Event:
        box = self._boxes.of_type(attr.pmu_type)
        assert box is not None
        return resolve_box(box.unit, attr)

    def _context(self, box: Box | Meter | None, pid: int, cpu: int) -> Context:
        """Of a box (`pid`: the row of its package), a meter, a CPU or a task."""
        if isinstance(box, Meter):
            exact = functools.partial(self._meters.exact, box, cpu)
            return Context(box, self._now_ns, exact, held=tuple)
        if box is not None:
            return Context(box.unit, self._now_ns, self._boxes.counts(box, pid), held=tuple)
        new = functools.partial(Context, self._pmu, held=self._held)
        if pid == EVERY_TASK:
            return new(clock=self._now_ns, exact=functools.partial(self._exact, cpu))
        if cpu not in (ANY_CPU, pid % self._cpus):
            # The host's CPUs are not the lab's: a task is said to run on one of these for good.
            return new(clock=lambda: 0, exact=lab_tasks.exact, pauses=True)
        return new(clock=TaskClock(self._tasks, pid), exact=lab_tasks.exact, pauses=True)

    def _held(self) -> tuple[int, ...]:
        return self._pmu.held(watchdog=self._watchdog())

    def _exact(self, cpu: int, t_ns: int) -> Floats:
        return np.asarray(self._model.exact(t_ns, [cpu])[0])

    def _bury(self) -> None:
        """End the events of CPUs that have gone offline; those opened later are new ones."""
        online = self._online()
        if online == self._online_seen:
            return  # an event is opened on a CPU that is online only
        self._online_seen = online
        for key in list(self._contexts):
            pmu_type, pid, cpu = key
            if not pmu_type and pid == EVERY_TASK and cpu not in online:
                self._contexts.pop(key).end()

    def _close(self, key: tuple[int, int, int], context: Context, member: Member) -> None:
        context.remove(member)
        del self._open[member.number]
        self._drop_empty(key, context)

    def _drop_empty(self, key: tuple[int, int, int], context: Context) -> None:
        if not context.leaders:
            if self._contexts.get(key) is context:
                del self._contexts[key]
            if isinstance(context.clock, TaskClock):
                self._watch.forget(context.clock)


class _Event:
    """An open event as a file."""

    def __init__(
        self,
        context: Context,
        member: Member,
        *,
        lock: threading.RLock,
        scan: Callable[[], None],
        close: Callable[[], None],
    ) -> None:
        """`look`: after CPUs that have gone; called, as `close` is, with the lock held."""
        self._context, self._member, self._lock = context, member, lock
        self._scan, self._close = scan, close

    def read(self, size: int, offset: int) -> bytes:
        """All of it at once, wherever the file's position is; nothing in the error state."""
        with self._lock:
            self._scan()
            if self._member.broken:
                return b""
            words = _words(self._context, self._member)
        if size < 8 * len(words):
            raise failed(errno.ENOSPC)
        return struct.pack(f"<{len(words)}Q", *words)

    def write(self, data: bytes, offset: int) -> int:
        raise failed(errno.EINVAL)

    def ioctl(self, request: int, argument: int, data: bytearray | None) -> int:
        kind, number = request >> 8 & 0xFF, request & 0xFF
        if kind != _KIND or number > _MODIFY:
            raise failed(errno.ENOTTY)
        if number in _REFUSED:
            raise failed(errno.EINVAL)  # they are for events that sample, or for tracepoints
        with self._lock:
            self._scan()
            members = self._member.group if argument & _FOR_GROUP else (self._member,)
            if number in (_ENABLE, _DISABLE):
                self._context.switch(members, on=number == _ENABLE)
            elif number == _RESET:
                self._context.reset(members)
            elif number == _ID and data is not None:
                data[:8] = struct.pack("<Q", self._member.number)
        return 0

    def close(self) -> None:
        with self._lock:
            self._close()


def _check_group(leader: Member, context: Context, *, pinned: bool) -> None:
    if leader.leader is not leader or leader not in context.leaders or pinned:
        raise failed(errno.EINVAL)


def _words(context: Context, member: Member) -> list[int]:
    form = member.attr.read_format
    members = member.group if form & FORMAT_GROUP else (member,)
    readings = context.read(members)
    times = [readings[0].enabled_ns] if form & FORMAT_ENABLED else []
    times += [readings[0].running_ns] if form & FORMAT_RUNNING else []
    values = []
    for item, reading in zip(members, readings, strict=True):
        value = [reading.count]
        value += [item.number] if form & FORMAT_ID else []
        value += [0] if form & FORMAT_LOST else []
        values.append(value)
    if form & FORMAT_GROUP:
        return [len(members), *times, *(word for value in values for word in value)]
    return [values[0][0], *times, *values[0][1:]]
