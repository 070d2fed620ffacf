"""Which core polls which queue of a DPDK application.

DPDK does not report it. In order of precedence: the application's own `--config`; a single polling
lcore; the operator's map; else only the total is known, with a reason.

Grammar: DPDK Programmer's Guide, "EAL parameters" (`-c`, `-l`, `--lcores`) and the l3fwd sample
application (`--config`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import TypeAlias

from nftop.derive.nf.rates import not_bound, where_it_runs
from nftop.derive.threads import ThreadRate
from nftop.model.ids import Cpu, Lcore, parse_cpu_list
from nftop.model.missing import Missing, Reason
from nftop.model.nf.queue_map import Prefix, Queue, QueueMap, parse_triples
from nftop.model.sample import DpdkApp
from nftop.model.struct import dataclass, replace


def enabled_lcores(eal_params: Sequence[str]) -> frozenset[Lcore]:
    """The lcores that its EAL starts; empty if the command line does not list them."""
    for names, parse in _LCORE_OPTIONS:
        for text in _values(eal_params, names):
            try:
                return frozenset(Lcore(lcore) for lcore in parse(text))
            except ValueError:
                return frozenset()
    return frozenset()


def config_queues(app_params: Sequence[str]) -> Mapping[Queue, Lcore]:
    """Queue to lcore from an l3fwd-like `--config`, or empty."""
    for text in _values(app_params, ("--config",)):
        return parse_triples(text) or {}
    return {}


def _values(params: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    """Values of an option in any of getopt_long's spellings: `-l 1`, `-l1`, `--x=1`, `--x 1`."""
    for index, param in enumerate(params):
        for name in names:
            if param == name and index + 1 < len(params):
                yield params[index + 1]
            elif name.startswith("--") and param.startswith(name + "="):
                yield param[len(name) + 1 :]
            elif not name.startswith("--") and param.startswith(name) and len(param) > len(name):
                yield param[len(name) :]


def _from_mask(text: str) -> Iterator[int]:
    mask = int(text, 16)
    return (bit for bit in range(mask.bit_length()) if mask >> bit & 1)


def _from_lcores(text: str) -> Iterator[int]:
    """Lcores of `--lcores`: sets with optional CPUs, `1,2@(5-7),(3-5)@(0,2)`."""
    without_cpus = re.sub(r"@(\([^)]*\)|[\d-]+)", "", text)
    return iter(parse_cpu_list(without_cpus.replace("(", "").replace(")", "")))


def _from_list(text: str) -> Iterator[int]:
    # -l accepts the grammar of --lcores since 25.03, and plain ranges before.
    return _from_lcores(text)


_LCORE_OPTIONS = ((("-l",), _from_list), (("--lcores",), _from_lcores), (("-c",), _from_mask))


# Maximum number of queues in a message about a wrong map.
_MOST_ODD = 3
_UNKNOWN = Missing(Reason.WARMING, "not known yet which of its threads poll")
# If its packets move, it polls although nothing is seen to.
_UNSEEN = Missing(
    Reason.SOURCE,
    "its packets move, but its threads can't be seen from here (another pid namespace?), so its "
    "cores are not known",
)
_ASLEEP = Missing(
    Reason.SOURCE,
    "its packets move, but no thread of it is seen to poll: it may sleep between packets",
)


@dataclass(frozen=True, slots=True)
class LcoreThread:
    """One EAL thread: where it runs and whether it polls.

    Attributes:
        lcore: None if unknown.
        cpu: to which it is bound or, if it may move, on which it ran last; None if unknown.
        allowed: CPUs it may run on.
        polls: None if unknown.
        rate: its run and wait shares; None if its thread was not found.
    """

    lcore: Lcore | None
    cpu: Cpu | None
    allowed: tuple[Cpu, ...]
    name: str
    polls: bool | None
    rate: ThreadRate | None

    @property
    def unpinned(self) -> Missing | None:
        """Why its cycles are not those of one CPU, or None."""
        return not_bound(self.name, self.allowed)


@dataclass(frozen=True, slots=True)
class Attribution:
    """Queues of an application by polling lcore.

    Attributes:
        how: a text for the screen.
        pollers: every lcore that polls or is configured to.
        queues: by lcore; None if only the total is known.
        all_on: the lcore that has every queue, or None.
        uncounted: why the pollers on known CPUs are not all, or None.
    """

    how: str
    pollers: tuple[LcoreThread, ...]
    queues: Mapping[Lcore, tuple[Queue, ...]] | None = None
    all_on: LcoreThread | None = None
    uncounted: Missing | None = None


def attribute(
    app: DpdkApp,
    threads: Sequence[ThreadRate],
    counting: Collection[Lcore],
    queue_map: QueueMap,
    *,
    moves: bool = False,
) -> Attribution:
    """Attribute one application's queues.

    Args:
        app: the application.
        threads: every watched thread of the host.
        counting: lcores whose own cycle counter advances: they poll.
        queue_map: the operator's.
        moves: whether its packets move.
    """
    seen = any(rate.thread.pid == app.pid for rate in threads)
    lcores = lcore_threads(app, threads, counting)
    declared = _declared(app.app_params, _queues_of(app))
    if declared.lcore_of:
        return _by_queue("its own --config", declared, lcores)
    if any(lcore.polls is None for lcore in lcores) and (seen or not moves):
        return Attribution(_UNKNOWN.message, (), uncounted=_UNKNOWN)
    pollers = tuple(lcore for lcore in lcores if lcore.polls)
    uncounted = _uncounted(pollers)
    if not pollers:
        return _nobody(moves=moves, seen=seen)
    if len(pollers) == 1:
        how = "its only polling lcore has every queue"
        return Attribution(how, pollers, all_on=pollers[0], uncounted=uncounted)
    mapped = queue_map.get(Prefix(app.prefix))
    if mapped:
        return _by_queue("--queue-map", _assignment(mapped, _queues_of(app)), lcores)
    # The prefix is a directory's name, which a container may choose: it must not end the quotes of
    # a command to paste.
    option = shlex.quote(f"{app.prefix}:(port,queue,lcore),...")
    how = (
        f"{len(pollers)} lcores poll and DPDK does not report which queue is whose: only the "
        f"application's total is known; --queue-map {option} says it"
    )
    return Attribution(how, pollers, uncounted=uncounted)


def _nobody(*, moves: bool, seen: bool) -> Attribution:
    if not moves:
        return Attribution("no lcore of it polls: is it started?", ())
    why = _ASLEEP if seen else _UNSEEN
    return Attribution(why.message, (), uncounted=why)


def refreshed(held: Attribution, threads: Sequence[ThreadRate]) -> Attribution:
    """An earlier attribution with the present shares of its threads."""
    now = {(rate.thread.tid, rate.thread.start_ticks): rate for rate in threads}

    def fresh(poller: LcoreThread) -> LcoreThread:
        if poller.rate is None:
            return poller
        thread = poller.rate.thread
        return replace(poller, rate=now.get((thread.tid, thread.start_ticks)))

    return replace(
        held,
        pollers=tuple(fresh(poller) for poller in held.pollers),
        all_on=None if held.all_on is None else fresh(held.all_on),
    )


def lcore_threads(
    app: DpdkApp, threads: Sequence[ThreadRate], counting: Collection[Lcore]
) -> tuple[LcoreThread, ...]:
    """The application's EAL threads, by telemetry if it lists them, else by their names."""
    own = [rate for rate in threads if rate.thread.pid == app.pid]
    named = {
        Lcore(rate.thread.role_index): rate
        for rate in own
        if rate.thread.role == "dpdk_lcore" and rate.thread.role_index is not None
    }
    # Threads whose name does not have their lcore: the main lcore's, and truncated names.
    nameless = [
        rate
        for rate in own
        if rate.thread.role == "dpdk_main"
        or (rate.thread.role == "dpdk_lcore" and rate.thread.role_index is None)
    ]
    reported: dict[Lcore, tuple[Cpu, ...]] = {
        lcore.lcore: lcore.cpus for lcore in app.lcores if lcore.role in ("RTE", "NON_EAL")
    }
    wanted = reported.keys() or (enabled_lcores(app.eal_params) | named.keys())
    left_over = [lcore for lcore in wanted if lcore not in named]
    if len(left_over) == 1 and len(nameless) == 1:
        named[left_over[0]] = nameless.pop()
    result = [
        _thread(lcore, reported.get(lcore, ()), named.get(lcore), counting=lcore in counting)
        for lcore in sorted(wanted)
        if lcore in named or lcore in reported
    ]
    if not own:  # its threads are hidden, so any of its lcores may poll
        result = [replace(item, polls=item.polls or None) for item in result]
    unknown = [_thread(None, (), rate, counting=False) for rate in nameless]
    return (*result, *unknown)


def _thread(
    lcore: Lcore | None, cpus: tuple[Cpu, ...], rate: ThreadRate | None, *, counting: bool
) -> LcoreThread:
    pinned = rate.thread.allowed if rate is not None else cpus
    return LcoreThread(
        lcore=lcore,
        cpu=where_it_runs(rate) if rate is not None else pinned[0] if len(pinned) == 1 else None,
        allowed=pinned,
        name=rate.thread.comm if rate is not None else f"lcore {lcore}",
        polls=True if counting else rate.polls if rate is not None else False,
        rate=rate,
    )


# Port, number of its receive queues, and whether it is a member of a bonding port.
_PortQueues: TypeAlias = tuple[tuple[int, int | None, bool | None], ...]


def _queues_of(app: DpdkApp) -> _PortQueues:
    return tuple((port.port, port.rx_queues, port.bond_member) for port in app.ports)


@dataclass(frozen=True, slots=True)
class _Assignment:
    """Which lcore polls which queue, and what of it does not fit the application's queues."""

    lcore_of: Mapping[Queue, Lcore]
    by_lcore: Mapping[Lcore, tuple[Queue, ...]]
    remarks: tuple[str, ...]


@lru_cache(maxsize=256)  # a command line stays, and so do the queues of its ports
def _declared(app_params: tuple[str, ...], ports: _PortQueues) -> _Assignment:
    return _assignment(config_queues(app_params), ports)


def _assignment(lcore_of: Mapping[Queue, Lcore], ports: _PortQueues) -> _Assignment:
    queues: dict[Lcore, list[Queue]] = {}
    for queue, lcore in sorted(lcore_of.items()):
        queues.setdefault(lcore, []).append(queue)
    by_lcore = {lcore: tuple(item) for lcore, item in queues.items()}
    return _Assignment(lcore_of, by_lcore, tuple(_unassigned(ports, lcore_of)))


def _by_queue(origin: str, assigned: _Assignment, lcores: Sequence[LcoreThread]) -> Attribution:
    declared = assigned.by_lcore.keys()
    # An lcore without a queue may poll too (later stages of a pipeline); one with a queue may
    # sleep.
    pollers = tuple(item for item in lcores if item.lcore in declared or item.polls)
    uncounted = _uncounted(pollers)
    remarks = [origin, *assigned.remarks]
    remarks += [
        f"lcore {poller.lcore} does not poll"
        for poller in pollers
        if poller.lcore in declared and poller.polls is False
    ]
    absent = sorted(declared - {poller.lcore for poller in pollers})
    if absent:
        remarks.append(f"its lcores {', '.join(map(str, absent))} were not found")
        uncounted = Missing(Reason.SOURCE, "some of its lcores were not found")
    return Attribution("; ".join(remarks), pollers, assigned.by_lcore, uncounted=uncounted)


def _uncounted(pollers: Sequence[LcoreThread]) -> Missing | None:
    return next((poller.unpinned for poller in pollers if poller.unpinned is not None), None)


def _unassigned(ports: _PortQueues, lcore_of: Mapping[Queue, Lcore]) -> Iterator[str]:
    """What of a map does not fit the application's queues, a text."""
    queues_of = {port: count for port, count, _ in ports}
    if not lcore_of or None in queues_of.values() or not any(queues_of.values()):
        return
    # The bond's are polled for its members.
    ours = {port: count or 0 for port, count, is_member in ports if not is_member}
    queues = ((port, queue) for port, count in ours.items() for queue in range(count))
    known = {item for item in lcore_of if item[1] < (queues_of.get(item[0]) or 0)}
    polled = sum(port in ours for port, _ in known)
    for verdict, odd, count in (
        (
            "is on no lcore, so its packets are on no core",
            (item for item in queues if item not in lcore_of),
            sum(ours.values()) - polled,
        ),
        ("does not exist", iter(sorted(lcore_of.keys() - known)), len(lcore_of) - len(known)),
    ):
        # The application reports their number; the message must not grow with it.
        for port, queue in islice(odd, _MOST_ODD):
            yield f"queue {queue} of port {port} {verdict}"
        if count > _MOST_ODD:
            yield f"and {count - _MOST_ODD} more"
