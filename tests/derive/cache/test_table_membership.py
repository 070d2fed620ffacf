"""Whose class counts on a CPU, and where reading counters disturbs."""

from __future__ import annotations

from dataclasses import replace

from syrupy.assertion import SnapshotAssertion

from nftop.derive.cache.table import (
    CacheState,
    ClassTables,
    disturbed,
    effective_classes,
    step_cache,
)
from nftop.derive.threads import ThreadRate
from nftop.model.frame import CacheClass
from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reason
from nftop.model.rdt.rdt import ROOT, Limits, ResctrlTable
from nftop.model.sample import Sample, SourceReading
from tests.derive.scene import START, forwarding, tick
from tests.frames import topology
from tests.rdt import DOMAINS, group
from tests.samples import S, fold, thread

HOST = topology(4)
IDLE = Missing(Reason.WARMING)


def classes_of(**tasks: tuple[int, ...]) -> ClassTables:
    """CPUs 1 and 2 are `vpp`'s, the others the root group's."""
    groups = [group(ROOT, 0, (0, 3)), group("vpp", 1, (1, 2)), group("vm", 2, ())]
    groups = [replace(item, tasks=tasks.get(item.name, ())) for item in groups]
    reading = SourceReading(ResctrlTable(tuple(groups), DOMAINS), 5, 0)
    return step_cache(CacheState(), reading, HOST)[1]


def poller(tid: int, cpu: int, *, polls: bool | None = True) -> ThreadRate:
    return ThreadRate(replace(thread(tid=tid), allowed=(Cpu(cpu),)), 1.0, 0.0, polls)


def test_a_cpus_own_class_counts_where_no_task_has_one() -> None:
    classes = classes_of(vm=(99,))
    result = effective_classes(classes, [poller(7, 1), poller(8, 3)], HOST)
    assert result == classes.of_cpus
    assert [item.of for item in result if isinstance(item, CacheClass)] == ["cpu"] * 4


def test_a_tasks_class_wins_over_its_cpus() -> None:
    result = effective_classes(classes_of(vm=(7,)), [poller(7, 1), poller(8, 2)], HOST)
    assert result[1:3] == (CacheClass("vm", 2, of="task"), CacheClass("vpp", 1))


def test_only_what_polls_present_decides() -> None:
    classes = classes_of(vm=(7, 8))
    roaming = replace(poller(8, 2), thread=replace(thread(tid=8), allowed=(Cpu(2), Cpu(3))))
    threads = [poller(7, 1, polls=False), poller(8, 2, polls=None), roaming, poller(7, 77)]
    assert effective_classes(classes, threads, HOST) == classes.of_cpus


def test_pollers_of_several_classes_leave_it_open(snapshot: SnapshotAssertion) -> None:
    threads = [poller(7, 1), poller(8, 1)]
    mixed = effective_classes(classes_of(vm=(7,)), threads, HOST)[1]
    assert isinstance(mixed, Missing) and mixed.reason is Reason.UNDEFINED
    assert mixed.message == snapshot
    assert effective_classes(classes_of(vm=(7, 8)), threads, HOST)[1] == CacheClass(
        "vm", 2, of="task"
    )


def test_a_class_that_is_not_known_stays_so() -> None:
    gone = Missing(Reason.STALE, "has not answered")
    state, _ = step_cache(CacheState(), SourceReading(ResctrlTable((), DOMAINS), 5, 0), HOST)
    _, classes = step_cache(state, SourceReading(gone, 5, 0), HOST)
    assert effective_classes(classes, [poller(7, 1)], HOST) == (gone,) * 4


def test_reading_counters_on_a_polling_cpu_is_reported(snapshot: SnapshotAssertion) -> None:
    read_on = tuple(replace(domain, read_on=Cpu(at)) for at, domain in enumerate(DOMAINS, start=2))
    classes = replace(classes_of(), domains=read_on)
    assert disturbed(classes, {Cpu(1)}) == ""
    assert disturbed(classes, {Cpu(1), Cpu(2), Cpu(3)}) == snapshot
    assert disturbed(classes_of(), {Cpu(0)}) == ""


def test_a_frame_shows_the_pollers_class_and_the_disturbed_cpus(
    snapshot: SnapshotAssertion,
) -> None:
    """The whole fold, on a host where testpmd's worker, thread 101, polls on CPU 1."""
    table = ResctrlTable(
        (group(ROOT, 0, (0, 1, 2, 3)), replace(group("vpp", 1, ()), tasks=(101,))),
        (replace(DOMAINS[0], read_on=Cpu(1)),),
        limits=Limits(closids=4),
    )

    def at(second: int) -> Sample:
        whole = tick(second, forwarding(second))
        reading = SourceReading(table, second * S, 0)
        return replace(whole, readings={**whole.readings, "resctrl": reading})

    frame = fold(START, at(1), at(2))[-1]
    assert frame.cpus.group[:2] == (CacheClass(ROOT, 0), CacheClass("vpp", 1, of="task"))
    assert frame.sources["resctrl"].detail == snapshot
    assert frame.limits == Limits(closids=4)
