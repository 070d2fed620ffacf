"""A frame for Prometheus: OpenMetrics 1.0, or its text format 0.0.4.

Families one after the other. An absent number has no sample; `nftop_missing` counts them by reason.
Numbers that this host's hardware did not provide have the label `badge`; nftop's own cost is always
real.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from nftop import __version__
from nftop.export.json.encode import picked
from nftop.export.openmetrics import writer as named
from nftop.export.openmetrics.writer import Sheet, TextFormat, labels
from nftop.model.frame import (
    CoreDetail,
    CpuTable,
    DeviceRow,
    Finding,
    Frame,
    GroupCacheRow,
    GroupRow,
    NfRow,
    PackageRow,
)
from nftop.model.ids import format_cpu_list
from nftop.model.incident import Incident
from nftop.model.metrics.flow_tables import LOOKUPS
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.struct import dataclass, field

Level: TypeAlias = Literal["nf", "cpu"]


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts since nftop started, which no frame has.

    Attributes:
        frames: number of frames. cpu_s: nftop's CPU time.
        reads, interrupts: of counters, by source.
    """

    frames: int = 0
    cpu_s: float = 0.0
    reads: Mapping[str, float] = field(default_factory=dict)
    interrupts: Mapping[str, float] = field(default_factory=dict)

    def after(self, frame: Frame, cpu_s: float) -> Tally:
        costs = frame.own.counters_by_source.items()
        reads = _added(self.reads, {name: cost.reads for name, cost in costs})
        interrupts = _added(self.interrupts, {name: cost.interrupts for name, cost in costs})
        return Tally(self.frames + 1, cpu_s, reads, interrupts)


def _added(before: Mapping[str, float], more: Mapping[str, Reading]) -> Mapping[str, float]:
    numbers = {name: item for name, item in more.items() if not isinstance(item, Missing)}
    return {name: before.get(name, 0.0) + numbers.get(name, 0.0) for name in {*before, *numbers}}


# Fields of `NfFlowTables`, by label.
_LOOKUPS = {
    **{table: f"{table}_hits_per_s" for table in LOOKUPS},
    "upcall": "upcalls_per_s",
    "lost_upcall": "lost_upcalls_per_s",
}
# The only origin of a package that is no metric.
_LINKS = {"links": (named.LINK_IN, named.LINK_OUT)}


def page(frame: Frame, tally: Tally, form: TextFormat, level: Level = "cpu") -> str:
    """A frame and nftop's own cost, each line with its end; `ending` follows.

    At level `nf` it has no samples of single CPUs.
    """
    sheet = Sheet(form, frame.host.badge)
    _host(sheet, frame)
    _sources(sheet, frame)
    if level == "cpu":
        _cpus(sheet, frame.cpus)
        _focus(sheet, frame.focus)
    _nfs(sheet, frame.nfs)
    _packages(sheet, frame.packages)
    _devices(sheet, frame.devices)
    _groups(sheet, frame)
    sheet.add(
        named.ACCELERATOR,
        (
            (labels(accelerator=accelerator.name, counter=counter), rate)
            for accelerator in frame.accelerators
            for counter, rate in accelerator.per_s.items()
        ),
    )
    sheet.add(named.SECOND_CHOICE, _second_choices(frame))
    sheet.missing()
    own = Sheet(form, "")
    _own(own, frame, tally)
    return sheet.text() + own.text()


def ending(answers: Mapping[int, int], form: TextFormat) -> str:
    """The end of a page, which changes with each scrape; `answers` by HTTP status."""
    sheet = Sheet(form, "")
    sheet.add(named.ANSWERS, ((labels(code=code), float(n)) for code, n in sorted(answers.items())))
    return sheet.text() + ("# EOF\n" if form is TextFormat.OPENMETRICS else "")


def _host(sheet: Sheet, frame: Frame) -> None:
    host = frame.host
    mine = labels(
        host=host.name, model=host.model, uarch=host.uarch, remote=host.remote, version=__version__
    )
    sheet.add(named.HOST, [(mine, 1.0)])
    sheet.add(named.TIME, [("", frame.wall_ns / 1e9)])
    passed = Missing(Reason.WARMING) if frame.interval_s is None else frame.interval_s
    sheet.add(named.INTERVAL, [("", passed)])
    sheet.add(named.NOTICE, [("", float(frame.notice != ""))])
    sheet.add(named.SOURCES_DISAGREE, [("", float(frame.disagreement != ""))])
    sheet.add(named.FINDING, ((_finding(item), 1.0) for item in frame.findings))
    _incidents(sheet, frame)


def _finding(finding: Finding) -> str:
    return labels(
        rule=finding.rule,
        where=finding.where,
        metric=finding.metric,
        muted=finding.is_muted or None,
    )


def _incidents(sheet: Sheet, frame: Frame) -> None:
    """Open incidents; muted ones too, with a label."""
    rows = {labels(id=item.id): item for item in frame.incidents}
    sheet.add(
        named.INCIDENT, ((f"{mine},{_incident_labels(item)}", 1.0) for mine, item in rows.items())
    )
    nfs = dict(_nf_labels(frame.nfs))
    sheet.add(
        named.INCIDENT_VICTIM,
        (
            (f"{mine},{nfs.get(victim.key) or labels(nf=victim.name, pid=victim.pid)}", 1.0)
            for mine, item in rows.items()
            for victim in (one.party for one in item.victims)
        ),
    )
    sheet.add(
        named.INCIDENT_SEVERITY, ((mine, float(item.severity)) for mine, item in rows.items())
    )
    sheet.add(named.INCIDENT_BEGIN, ((mine, item.since_ns / 1e9) for mine, item in rows.items()))
    sheet.add(
        named.INCIDENT_DROPS,
        (
            (mine, item.price.drops_per_s)
            for mine, item in rows.items()
            if not isinstance(item.price.drops_per_s, Missing)
        ),
    )


def _incident_labels(incident: Incident) -> str:
    culprit = incident.culprit
    return labels(
        kind=incident.kind,
        culprit="" if culprit is None else culprit.name,
        group="" if culprit is None else culprit.group,
        container="" if culprit is None else culprit.container,
        victims=", ".join(item.party.name for item in incident.victims),
        muted=str(incident.muted).lower(),
    )


def _sources(sheet: Sheet, frame: Frame) -> None:
    states = {labels(source=name): state for name, state in frame.sources.items()}
    sheet.add(
        named.SOURCE_UP,
        ((mine, float(item.reason is Reason.PRESENT)) for mine, item in states.items()),
    )
    sheet.add(
        named.SOURCE,
        ((f"{mine},{labels(state=item.reason.key)}", 1.0) for mine, item in states.items()),
    )
    timed = {mine: state for mine, state in states.items() if state.age_s is not None}
    sheet.add(named.SOURCE_AGE, ((mine, entry.age_s or 0.0) for mine, entry in timed.items()))
    sheet.add(
        named.SOURCE_TOOK,
        ((mine, entry.took_s) for mine, entry in timed.items() if entry.took_s is not None),
    )
    sheet.add(named.SOURCE_LATE, ((mine, element.late_s) for mine, element in timed.items()))


def _cpus(sheet: Sheet, table: CpuTable) -> None:
    infos = table.topology.cpus
    rows = [
        labels(cpu=info.cpu, core=info.core, package=info.package, nf=nf)
        for info, nf in zip(infos, table.nf, strict=True)
    ]
    sheet.add(named.CPU, ((_cpu(table, row), 1.0) for row in range(len(table))))
    sheet.add(
        named.ONLINE,
        ((labels(cpu=i.cpu), float(on)) for i, on in zip(infos, table.online, strict=True)),
    )
    for name, family in named.OF_CPUS.items():
        sheet.column(family, rows, table.columns[name])


def _cpu(table: CpuTable, row: int) -> str:
    info, group = table.topology.cpus[row], table.group[row]
    return labels(
        **picked(info, "cpu core package l3 node"),
        nf=table.nf[row],
        pid=table.nf_pid[row],
        thread=table.thread[row],
        group=None if isinstance(group, Missing) else group.name,
        clos=None if isinstance(group, Missing) else group.clos,
        **{name: of[row] for name, of in picked(table, "direction cpp_clock saturated").items()},
        saturated_by=" ".join(table.saturated_by.get(info.cpu, ())) or None,
    )


def _nf_labels(nfs: tuple[NfRow, ...]) -> Iterator[tuple[str, str]]:
    """Key and labels of each network function; those with equal labels are numbered."""
    seen: Counter[str] = Counter()
    for nf in nfs:
        mine = labels(nf=nf.name, kind=nf.kind, pid=nf.pid)
        seen[mine] += 1
        yield nf.key, mine if seen[mine] == 1 else f"{mine},{labels(twin=seen[mine])}"


def _nfs(sheet: Sheet, nfs: tuple[NfRow, ...]) -> None:
    rows = [(mine, nf) for (_, mine), nf in zip(_nf_labels(nfs), nfs, strict=True)]

    def more(nf: NfRow) -> str:
        facts = picked(nf, "direction cpp_clock saturated")
        group = " ".join(clos.name for clos in nf.classes)
        evidence = " ".join(nf.saturated_by) or None
        cpus = format_cpu_list(nf.cpus)
        return labels(cpus=cpus, **facts, saturated_by=evidence, group=group)

    sheet.add(named.NF, ((f"{mine},{more(nf)}", 1.0) for mine, nf in rows))
    sheet.add(named.NF_UP, ((mine, float(nf.problem is None)) for mine, nf in rows))
    for name, family in named.OF_NFS.items():
        sheet.add(family, ((mine, nf.readings[name]) for mine, nf in rows))
    sheet.add(
        named.NF_LOOKUPS,
        (
            (f"{mine},{labels(cpu=tables.cpu, table=table)}", reading)
            for mine, nf in rows
            for tables in (() if isinstance(nf.flow_tables, Missing) else nf.flow_tables)
            for table, reading in zip(
                _LOOKUPS, picked(tables, " ".join(_LOOKUPS.values())).values(), strict=True
            )
        ),
    )
    sheet.add(
        named.NF_DROPS,
        (
            (f"{mine},{labels(where=drop.where, reason=drop.reason)}", drop.packets_per_s)
            for mine, nf in rows
            for drop in (() if isinstance(nf.drops, Missing) else nf.drops)
        ),
    )


def _focus(sheet: Sheet, focus: CoreDetail | None) -> None:
    """The core counted in detail; what its CPU can't count is left out."""
    if focus is None:
        return
    mine = labels(cpu=min(focus.cpus))
    for name, family in named.OF_CORES.items():
        reading = focus.readings[name]
        if not isinstance(reading, Missing) or reading.reason is not Reason.HARDWARE:
            sheet.add(family, [(mine, reading)])
    shares = {f"tma.{node.name}": node.coverage for node in focus.tree} | dict(focus.coverage)
    sheet.add(
        named.CORE_COVERAGE,
        (
            (labels(cpu=min(focus.cpus), metric=family.sample), shares[name])
            for name, family in named.OF_CORES.items()
            if not isinstance(shares.get(name, Missing(Reason.SOURCE)), Missing)
        ),
    )


def _packages(sheet: Sheet, packages: tuple[PackageRow, ...]) -> None:
    rows = [(labels(package=package.package), package) for package in packages]
    for name, family in named.OF_PACKAGES.items():
        sheet.add(family, ((mine, row.readings[name]) for mine, row in rows))
    channels = [
        (labels(package=row.package, channel=box.number), box)
        for row in packages
        for box in row.channels
    ]
    links = [
        (labels(package=row.package, link=box.number), box) for row in packages for box in row.links
    ]
    for boxes, into, out_of in (
        (channels, named.CHANNEL_READ, named.CHANNEL_WRITE),
        (links, named.LINK_IN, named.LINK_OUT),
    ):
        sheet.add(into, ((mine, box.in_bytes_per_s) for mine, box in boxes))
        sheet.add(out_of, ((mine, box.out_bytes_per_s) for mine, box in boxes))
    estimates = (
        (labels(package=item.package, metric=named.OF_PACKAGES[name].sample), 1.0)
        for item in packages
        for name in sorted(item.estimates)
    )
    sheet.add(named.ESTIMATE, estimates)


def _devices(sheet: Sheet, devices: tuple[DeviceRow, ...]) -> None:
    rows = [(labels(device=row.name, root_port=row.port.address), row) for row in devices]
    known = (
        (
            labels(
                device=row.name,
                root_port=row.port.address,
                **row.port.location,
                addresses=" ".join(item.address for item in row.port.devices),
                drivers=" ".join(dict.fromkeys(item.driver for item in row.port.devices)).strip(),
                nfs=", ".join(row.nfs),
            ),
            1.0,
        )
        for row in devices
    )
    sheet.add(named.DEVICE, known)
    for name, family in named.OF_DEVICES.items():
        sheet.add(family, ((mine, row.readings[name]) for mine, row in rows))
    estimates = (
        (f"{mine},{labels(metric=named.OF_DEVICES[name].sample)}", 1.0)
        for mine, row in rows
        for name in sorted(row.estimates)
    )
    sheet.add(named.DEVICE_ESTIMATE, estimates)


def _groups(sheet: Sheet, frame: Frame) -> None:
    groups = frame.groups
    sheet.add(named.GROUP, ((_group(item), 1.0) for item in groups))
    cells = [
        (group, labels(group=group.name, l3=cache.l3), cache)
        for group in groups
        for cache in group.caches
    ]
    sheet.add(
        named.MAY,
        ((f"{mine},{may}", 1.0) for cell, mine, cache in cells if (may := _may(cell, cache))),
    )
    for name, family in named.OF_GROUPS.items():
        sheet.add(family, ((mine, cache.readings[name]) for _, mine, cache in cells))
    meters = [
        (labels(group=group.name, monitor=monitor.name, l3=l3), readings)
        for group in groups
        for monitor in group.monitors
        for l3, readings in monitor.readings.items()
    ]
    for name, family in named.OF_MONITORS.items():
        sheet.add(family, ((mine, readings[name]) for mine, readings in meters))
    sizes = ((labels(l3=domain.l3), domain.size_bytes) for domain in frame.domains)
    sheet.add(
        named.L3_SIZE,
        ((mine, Missing(Reason.SOURCE) if size is None else size) for mine, size in sizes),
    )


def _may(group: GroupRow, cache: GroupCacheRow) -> str:
    """Limits of a class in one cache; "" if there are none."""
    limited = not isinstance(cache.mba, Missing)
    return labels(
        cbm=None if isinstance(cache.cbm, Missing) else cache.cbm.hex,
        code=None if cache.code is None else cache.code.hex,
        mba=f"{cache.mba:.0f}" if limited else None,
        mba_unit=group.mba_unit if limited else None,
    )


def _group(group: GroupRow) -> str:
    return labels(
        group=group.name,
        clos=group.clos,
        cpus=format_cpu_list(group.cpus),
        mode=group.mode,
        owner=group.owner,
    )


def _second_choices(frame: Frame) -> Iterator[tuple[str, float]]:
    absent: Counter[tuple[str, str]] = Counter()
    for name, of in frame.cpus.origins.items():
        absent.update((named.OF_CPUS[name].sample, item) for item in of if item is not None)
    for row in frame.packages:
        absent.update(
            (family.sample, source)
            for name, source in row.origins.items()
            for family in _LINKS.get(name) or (named.OF_PACKAGES[name],)
        )
    for (metric, source), count in sorted(absent.items()):
        yield labels(metric=metric, source=source), float(count)


def _own(sheet: Sheet, frame: Frame, tally: Tally) -> None:
    own = frame.own
    sheet.add(named.OWN_CPU, [("", own.cpu_ratio)])
    sheet.add(named.OWN_SECONDS, [("", tally.cpu_s)])
    sheet.add(named.OWN_AFFINITY, [(labels(affinity=format_cpu_list(own.affinity)), 1.0)])
    sheet.add(named.OWN_DISTURBS, [("", float(own.warning != ""))])
    for family, counted in ((named.READS, tally.reads), (named.INTERRUPTS, tally.interrupts)):
        sheet.add(family, ((labels(source=name), counted[name]) for name in sorted(counted)))
    sheet.add(named.FRAMES, [("", float(tally.frames))])
