"""Which core polls which queue of a DPDK application.

DPDK never tells. In this order: what the application's own `--config` says; a single polling
lcore has them all; the operator's map; otherwise only the application's total is known, and that
is said.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from nftop.derive.eal import config_queues, enabled_lcores
from nftop.derive.threads import ThreadRate
from nftop.model.ids import Cpu, Lcore
from nftop.model.queue_map import Prefix, Queue, QueueMap
from nftop.model.sample import DpdkApp

NO_POLLER = "no lcore polls"


@dataclass(frozen=True, slots=True)
class LcoreThread:
    """One EAL thread: where it runs and whether it polls.

    Attributes:
        lcore: None for a main thread whose lcore id nothing tells.
        cpu: None when it may run on more than one.
        polls: None while that is not known yet.
    """

    lcore: Lcore | None
    cpu: Cpu | None
    name: str
    polls: bool | None


@dataclass(frozen=True, slots=True)
class Attribution:
    """Who polls what.

    Attributes:
        how: in words, for the screen.
        pollers: the lcores that poll, in lcore order.
        queues: by lcore, the queues it polls. None where only the total is known.
        all_on: the lcore that has every queue, where there is just one.
    """

    how: str
    pollers: tuple[LcoreThread, ...]
    queues: Mapping[Lcore, tuple[Queue, ...]] | None = None
    all_on: LcoreThread | None = None


def attribute(
    app: DpdkApp,
    threads: Sequence[ThreadRate],
    counting: Collection[Lcore],
    queue_map: QueueMap,
) -> Attribution | None:
    """Attribute one application's queues; None while it is not known yet who polls.

    Args:
        app: the application.
        threads: every watched thread of the host.
        counting: lcores whose own cycle counter advances: they poll, whatever else is known.
        queue_map: the operator's.
    """
    lcores = lcore_threads(app, threads, counting)
    declared = config_queues(app.app_params)
    if declared:
        return _by_queue("its own --config", declared, lcores)
    if any(lcore.polls is None for lcore in lcores):
        return None
    pollers = tuple(lcore for lcore in lcores if lcore.polls)
    if not pollers:
        return Attribution(NO_POLLER, ())
    if len(pollers) == 1:
        return Attribution("its only polling lcore has every queue", pollers, all_on=pollers[0])
    mapped = queue_map.get(Prefix(app.prefix))
    if mapped:
        return _by_queue("--queue-map", mapped, lcores)
    return Attribution(
        f"{len(pollers)} lcores poll and DPDK does not tell which queue is whose: only the "
        f"application's total is known; --queue-map '{app.prefix}:(port,queue,lcore),...' says it",
        pollers,
    )


def lcore_threads(
    app: DpdkApp, threads: Sequence[ThreadRate], counting: Collection[Lcore]
) -> tuple[LcoreThread, ...]:
    """The application's EAL threads, from telemetry where it tells them, else from their names."""
    workers: dict[Lcore, ThreadRate] = {}
    main: ThreadRate | None = None
    own = [rate for rate in threads if rate.thread.pid == app.pid]
    for rate in own:
        if rate.thread.role == "dpdk_lcore" and rate.thread.role_index is not None:
            workers[Lcore(rate.thread.role_index)] = rate
        elif rate.thread.role == "dpdk_main":
            main = rate
    told: list[tuple[Lcore | None, tuple[Cpu, ...], ThreadRate | None]]
    if app.lcores:
        told = [
            (lcore.lcore, lcore.cpus, workers.get(lcore.lcore))
            for lcore in app.lcores
            if lcore.role in ("RTE", "NON_EAL")
        ]
    else:
        told = [(lcore, rate.thread.allowed, rate) for lcore, rate in workers.items()]
        unnamed = enabled_lcores(app.eal_params) - workers.keys()
        if len(unnamed) == 1 and main is not None:
            told.append((next(iter(unnamed)), main.thread.allowed, main))
        elif main is not None:
            told.append((None, main.thread.allowed, main))
    # The main lcore has no thread of its own name: it is the one the workers leave over.
    left_over = [lcore for lcore, _, rate in told if rate is None]
    lcores = [
        _thread(
            lcore,
            cpus,
            rate or (main if left_over == [lcore] else None),
            counting=lcore in counting,
            hidden=not own,
        )
        for lcore, cpus, rate in told
    ]
    return tuple(sorted(lcores, key=lambda each: (each.lcore is None, each.lcore or 0)))


def _thread(
    lcore: Lcore | None,
    cpus: tuple[Cpu, ...],
    rate: ThreadRate | None,
    *,
    counting: bool,
    hidden: bool,
) -> LcoreThread:
    pinned = rate.thread.allowed if rate is not None else cpus
    cpu = pinned[0] if len(pinned) == 1 else None
    if counting:
        polls: bool | None = True
    else:
        # Nothing runs for it; or its threads can't be seen, and then anything may.
        polls = rate.polls if rate is not None else (None if hidden else False)
    name = rate.thread.comm if rate is not None else f"lcore {lcore}"
    return LcoreThread(lcore, cpu, name, polls)


def _by_queue(
    how: str, lcore_of: Mapping[Queue, Lcore], lcores: Sequence[LcoreThread]
) -> Attribution:
    named = set(lcore_of.values())
    pollers = tuple(each for each in lcores if each.lcore in named)
    unknown = named - {each.lcore for each in pollers}
    if unknown:
        how += f"; its lcores {', '.join(map(str, sorted(unknown)))} were not found"
    queues: dict[Lcore, list[Queue]] = {}
    for queue, lcore in sorted(lcore_of.items()):
        queues.setdefault(lcore, []).append(queue)
    return Attribution(how, pollers, {lcore: tuple(each) for lcore, each in queues.items()})
