"""Causes of harm in a frame: findings with the same culprit, core, class, NF or socket, as one.

A cause takes the findings that show it. What they do to a network function (drops, a collapse, more
cycles per packet) belongs to the first cause in `_ORDER` that the NF is a victim of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from nftop.derive.findings.cache_rules import Neighbour, class_subject, neighbours, polled_classes
from nftop.derive.findings.registry import rule_called
from nftop.derive.findings.rule import si
from nftop.derive.incidents.cause_inputs import CauseInputs
from nftop.derive.incidents.parties import Cause, CauseKey
from nftop.derive.incidents.victims import packets_of
from nftop.derive.nf.recent import RecentPoint, arriving_of, cost_of, has_grown
from nftop.model.frame import Finding, GroupRow, NfRow, PackageRow
from nftop.model.ids import Cpu, L3Domain, Package, format_cpu_list
from nftop.model.incident import CauseKind, Party, Severity
from nftop.model.metrics.metric import cycles_text
from nftop.model.missing import Missing, Reading, Reason, number_or
from nftop.model.number_text import counted
from nftop.model.struct import replace
from nftop.model.usual import NEAR

# From this share of a package's packets on, what its devices do is most likely one NF's.
_LIKELY_SHARE = 2 / 3
# A burst of 32 packets costs two writes of registers, to receive and to send: 1 per 16 packets. The
# limit allows bursts of 20 packets.
_MAX_BATCHED_WRITES_PER_PACKET = 1 / 10
# A read takes about a microsecond: so many cost a hundredth of a core. Who asks NICs for their
# statistics has a thousand.
_FEW_READS_PER_S = 10_000.0
# An effect that began so long before a cause is not the cause's.
EFFECT_BEFORE_S = 10.0
_LOSSES = ("drops", "lost-upcalls", "throughput-collapse")
# Kinds of causes that make a clock slower, and a packet no costlier in cycles.
_SLOWER = ("clock", "throttled")
_NOT_OVS = Missing(Reason.UNDEFINED)


def losses_of(cause: Cause) -> tuple[Finding, ...]:
    """Findings of a cause, and its effects, by which packets are lost."""
    return tuple(item for item in (*cause.findings, *cause.effects) if item.rule in _LOSSES)


def causes_of(inputs: CauseInputs) -> tuple[Cause, ...]:
    """Causes of all findings of a frame; notes only explain numbers, and are none."""
    rules = inputs.by_rule
    causes = [
        cause
        for needed, find in _ORDER
        if any(rule in rules for rule in needed)
        for cause in find(inputs)
    ]
    used = {(item.rule, item.subject) for cause in causes for item in cause.findings}
    left = [
        item
        for item in inputs.tick.frame.findings
        if (item.rule, item.subject) not in used and not item.is_note
    ]
    result, own = _with_effects(inputs, causes, left)
    return (*result, *own)


def _with_effects(
    inputs: CauseInputs, causes: Sequence[Cause], left: Iterable[Finding]
) -> tuple[list[Cause], list[Cause]]:
    """Causes with the findings they explain, and causes of NFs for the others."""
    effects: dict[CauseKey, list[Finding]] = {}
    alone: dict[str, list[Finding]] = {}
    for item in left:
        keys = inputs.keys_of(item)
        normal = keys and all(_normal_for(item.rule, inputs.nfs[key].name) for key in keys)
        able = () if normal else causes
        cause = next((one for one in able if _explains(inputs, one, item, keys)), None)
        if cause is not None:
            effects.setdefault(cause.key, []).append(item)
        for key in (keys or ("",)) if cause is None else ():
            alone.setdefault(key, []).append(item)
    own = [one for key, items in alone.items() if key for one in _of_nf(inputs, key, items)]
    own += [_of_host(item) for item in alone.get("", ())]
    explained = [replace(one, effects=tuple(effects.get(one.key, ()))) for one in causes]
    priced: dict[CauseKey, tuple[str, ...]] = {}
    taken, before_ns = set[str](), inputs.tick.frame.monotonic_ns - int(EFFECT_BEFORE_S * 1e9)
    # Those by which packets are lost first: the others' victims may lose theirs to them.
    for cause in sorted((*explained, *own), key=lambda one: not losses_of(one)):
        mine = cause.nfs if cause.takes_effects and cause.floor > Severity.INFO else ()
        if cause.kind in _SLOWER:
            mine = tuple(
                key for key in mine if not inputs.recent(key).cost_grew(inputs.nfs[key], before_ns)
            )
        priced[cause.key] = tuple(key for key in mine if key not in taken)
        taken.update(priced[cause.key])
    shown = [[replace(one, priced=priced[one.key]) for one in half] for half in (explained, own)]
    return shown[0], shown[1]


def _explains(inputs: CauseInputs, cause: Cause, finding: Finding, keys: Iterable[str]) -> bool:
    """Whether a finding about these NFs is an effect of a cause: not if it began before.

    A slow clock explains losses only, unless packets came to cost more cycles.
    """
    mine = set(keys) & set(cause.nfs)
    if not cause.takes_effects or not mine:
        return False
    grew = (inputs.recent(key).cost_grew(inputs.nfs[key], finding.began_ns) for key in mine)
    if cause.kind in _SLOWER and (finding.rule not in _LOSSES or any(grew)):
        return False
    began_ns = min(item.began_ns for item in cause.findings)
    return finding.began_ns >= began_ns - EFFECT_BEFORE_S * 1e9


def _gone(inputs: CauseInputs) -> Iterator[Cause]:
    gone = {item.key: item for item in inputs.tick.gone}
    for finding in inputs.by_rule["gone"]:
        key, name = finding.subject.key, finding.subject.name
        item = gone.get(key)
        culprit = Party("nf", name, key=key, pid=item.pid if item else None)
        title = "gone: its source stopped listing it"
        if culprit.pid is not None and inputs.parties.is_unseen(culprit.pid):
            title = f"process {culprit.pid} ended or no longer polls"
        yield Cause(
            CauseKey("gone", key),
            "gone",
            title,
            culprit,
            (),
            (finding,),
            floor=Severity.BAD,
            takes_effects=False,
        )


def _hung(inputs: CauseInputs) -> Iterator[Cause]:
    for finding in inputs.by_rule["hung"]:
        for key in inputs.keys_of(finding):
            nf = inputs.nfs[key]
            threads = "threads do" if len(nf.threads) > 1 else "thread does"
            yield Cause(
                CauseKey("hung", key),
                "hung",
                f"not answering, its polling {threads} not run",
                inputs.parties.of_nf(nf),
                (key,),
                (finding,),
                floor=Severity.BAD,
                watch=nf.cpus,
            )


def _cpus_of(findings: Iterable[Finding]) -> tuple[Cpu, ...]:
    return tuple(sorted({cpu for item in findings for cpu in item.subject.cpus}))


def _shared_cpus(inputs: CauseInputs) -> Iterator[Cause]:
    for key, findings in inputs.by_nf("shared-cpu", "poller-waits").items():
        cpus = _cpus_of(findings)
        culprit, ran, basis = inputs.parties.intruder(inputs.nfs[key], cpus)
        on = f"cpu {format_cpu_list(cpus)}"
        waited = max(inputs.parties.values("wait_ratio", cpus), default=None)
        share = max(ran, waited or 0.0)
        title = f"took {'up to ' * (len(cpus) > 1)}{share:.0%} of {on}"
        if culprit is None:
            title = f"kept a poller waiting for {on}" + (f", {waited:.0%}" if waited else "")
        yield Cause(
            CauseKey("cpu", key),
            "cpu",
            title,
            culprit,
            (key,),
            tuple(findings),
            basis=basis,
            watch=cpus,
        )


def _siblings(inputs: CauseInputs) -> Iterator[Cause]:
    for key, findings in inputs.by_nf("busy-sibling").items():
        cpus = _cpus_of(findings)
        siblings = inputs.parties.siblings(cpus)
        culprit, busy, basis = inputs.parties.running(siblings)
        title = f"ran beside cpu {format_cpu_list(cpus)}, its hyper-thread {busy:.0%} busy"
        yield Cause(
            CauseKey("sibling", key),
            "sibling",
            title,
            culprit,
            (key,),
            tuple(findings),
            basis=basis,
            watch=siblings,
        )


def _neighbours(inputs: CauseInputs) -> Iterator[Cause]:
    findings = {item.subject: item for item in inputs.by_rule["noisy-neighbour"]}
    # By class, cache, and whether it is the victims' own class: CPUs that are busy there change.
    merged: dict[tuple[str, L3Domain, bool], list[tuple[GroupRow, Neighbour, Finding]]] = {}
    for group, cache, _ in polled_classes(inputs.tick):
        finding = findings.get(class_subject(group, cache))
        if finding is None:
            continue
        others = sorted(neighbours(inputs.tick, group, cache), key=_sort_traffic, reverse=True)
        noisy = [item for item in others if item.sort_traffic > finding.clear] or others[:1]
        for item in noisy:
            key = item.group, cache.l3, bool(item.cpus)
            merged.setdefault(key, []).append((group, item, finding))
    for key, rows in merged.items():
        yield _neighbour(inputs, key, rows)


def _sort_traffic(item: Neighbour) -> float:
    return item.sort_traffic


def _neighbour(
    inputs: CauseInputs,
    key: tuple[str, L3Domain, bool],
    rows: Sequence[tuple[GroupRow, Neighbour, Finding]],
) -> Cause:
    name, l3, own = key
    nfs = tuple(dict.fromkeys(key for _, _, item in rows for key in inputs.keys_of(item)))
    cpus = sorted({cpu for _, item, _ in rows for cpu in item.cpus})
    culprit = inputs.parties.of_class(name, l3, tuple(Cpu(cpu) for cpu in cpus))
    # Ways that several victims share with it count once.
    mask = 0
    for _, item, _ in rows:
        mask |= item.mask
    ways = mask.bit_count()
    traffic = rows[0][1].traffic
    speed = "" if isinstance(traffic, Missing) else f"{traffic / 1e9:.1f} GB/s "
    return Cause(
        CauseKey("neighbour", f"{name} {l3} {'own' if own else 'other'} class"),
        "neighbour",
        f"{speed}through {counted(ways, 'shared way')}",
        culprit,
        tuple(key for key in nfs if culprit.key != key),
        tuple(item for _, _, item in rows),
        group=name,
        l3=l3,
        watch=culprit.cpus[:2],
    )


def _slow_cores(inputs: CauseInputs) -> Iterator[Cause]:
    table = inputs.tick.frame.cpus
    for key, findings in inputs.by_nf("low-priority-core").items():
        cpus = _cpus_of(findings)
        rows = [table.topology.row_of[cpu] for cpu in cpus if cpu in table.topology.row_of]
        base, package = table.columns["base_frequency_hz"].values, table.topology.package_index
        # NaN where it is unknown, as of a CPU that is offline.
        low = np.fmin.reduce(base[rows], initial=np.inf) / 1e9
        best = np.fmax.reduce(base[np.isin(package, package[rows])], initial=0.0) / 1e9
        known = f": base {low:.1f} GHz, others have {best:.1f}" if low < best else ""
        culprit = Party("cpu", f"cpu {format_cpu_list(cpus)}", cpus=cpus)
        yield Cause(
            CauseKey("clock", key),
            "clock",
            f"low-priority cores{known}",
            culprit,
            (key,),
            tuple(findings),
        )


def _throttled(inputs: CauseInputs) -> Iterator[Cause]:
    """One for each package: it, or cores of it, are too hot."""
    by_package: dict[Package, list[Finding]] = {}
    rows, infos = inputs.tick.frame.topology.row_of, inputs.tick.frame.topology.cpus
    for finding in inputs.by_rule.get("core-throttled", ()):
        for package in {infos[rows[cpu]].package for cpu in finding.subject.cpus if cpu in rows}:
            by_package.setdefault(package or Package(0), []).append(finding)
    for finding in inputs.by_rule.get("package-throttled", ()):
        by_package.setdefault(finding.subject.package or Package(0), []).append(finding)
    for package, findings in by_package.items():
        nfs = tuple(dict.fromkeys(key for item in findings for key in inputs.keys_of(item)))
        yield Cause(
            CauseKey("throttled", str(package)),
            "throttled",
            findings[0].brief,
            Party("package", f"socket {package}"),
            nfs,
            tuple(findings),
            floor=Severity.WARN if nfs else Severity.INFO,
        )


def _remote(inputs: CauseInputs) -> Iterator[Cause]:
    findings = inputs.by_rule["cross-socket"]
    nfs = tuple(dict.fromkeys(key for item in findings for key in inputs.keys_of(item)))
    culprit, title, basis = inputs.parties.remote_user([inputs.nfs[key] for key in nfs])
    likely = False
    if culprit is None:
        culprit, basis, likely = _by_packets(inputs, [inputs.nfs[key] for key in nfs], "sockets")
        title = "memory and devices on different sockets"
    sockets = ", ".join(item.subject.name for item in findings)
    watch = tuple(inputs.nfs[key].cpus[0] for key in nfs if inputs.nfs[key].cpus)
    yield Cause(
        CauseKey("remote", "host"),
        "remote",
        f"{title} (sockets {sockets})",
        culprit,
        (culprit.key,) if culprit.key else nfs,
        findings,
        basis=basis,
        likely=likely,
        watch=watch,
        memory=watch,
    )


def _by_packets(inputs: CauseInputs, nfs: Sequence[NfRow], devices: str) -> tuple[Party, str, bool]:
    """The NF with most packets if it has two thirds of them, else the devices themselves."""
    total = sum(map(packets_of, nfs))
    if total > 0 and nfs:
        first = max(nfs, key=packets_of)
        share = packets_of(first) / total
        if len(nfs) == 1 or share >= _LIKELY_SHARE:
            basis = "" if len(nfs) == 1 else f"it has {share:.0%} of the packets there"
            return inputs.parties.of_nf(first), basis, len(nfs) > 1
    return Party("device", f"devices of {devices}"), "their counters do not distinguish NFs", False


def _of_packages(
    kind: CauseKind,
    rules: Sequence[str],
    title: Callable[[PackageRow, Finding], str],
    *,
    takes_effects: bool = False,
) -> Callable[[CauseInputs], Iterator[Cause]]:
    """Causes that counters of a package show."""

    def causes(inputs: CauseInputs) -> Iterator[Cause]:
        for row in inputs.tick.frame.packages:
            findings = tuple(
                item
                for rule in rules
                for item in inputs.by_rule.get(rule, ())
                if item.subject.package == row.package
            )
            if not findings:
                continue
            nfs = inputs.on_package(row.package)
            culprit, basis, likely = _by_packets(inputs, nfs, f"socket {row.package}")
            others = tuple(nf.key for nf in nfs if nf.key != culprit.key)
            normal = kind == "registers" and _is_normal(findings, nfs, row)
            yield Cause(
                CauseKey(kind, f"package {row.package}"),
                kind,
                title(row, findings[0]),
                culprit,
                others or tuple(nf.key for nf in nfs),
                findings,
                takes_effects=takes_effects,
                basis=basis,
                likely=likely,
                floor=Severity.INFO if normal else Severity.WARN,
            )

    return causes


def _is_normal(findings: Sequence[Finding], nfs: Sequence[NfRow], row: PackageRow) -> bool:
    """Few reads of registers, and writes as testpmd and l3fwd have them at full load.

    Between two samples, and after a warm-up, neither is known: the severity so far remains.
    """
    reads, writes = row.readings["mmio.read_per_s"], row.readings["mmio.write_per_s"]
    many = not isinstance(reads, Missing) and reads >= _FEW_READS_PER_S
    if any(item.rule == "mmio-reads" for item in findings) and many:
        return False
    if all(item.rule == "mmio-reads" for item in findings):
        return True
    if isinstance(writes, Missing):
        return True
    if not nfs:
        return False
    packets = sum(map(packets_of, nfs))
    return (
        _normal_for("mmio-writes", nfs[0].name)
        and writes <= packets * _MAX_BATCHED_WRITES_PER_PACKET
    )


def _normal_for(rule_id: str, name: str) -> bool:
    rule = rule_called(rule_id)
    return rule is not None and any(program in name for program in rule.normal_for)


def _count(reading: Reading, unit: str) -> str:
    """`7.10k lost`; "" if unknown."""
    return "" if isinstance(reading, Missing) else f"{si(reading)} {unit}"


def _register_title(row: PackageRow, finding: Finding) -> str:
    what = "write" if finding.rule == "mmio-writes" else "read"
    rate = _count(row.readings[f"mmio.{what}_per_s"], f"register {what}s/s")
    return f"{rate or f'register {what}s'}, socket {row.package}"


def _ddio_title(row: PackageRow, _: Finding) -> str:
    hits = row.readings["pcie.ddio_hit_ratio"]
    share = "devices' writes" if isinstance(hits, Missing) else f"{1 - hits:.0%} of device writes"
    return f"{share} missed the cache of socket {row.package}"


def _channels(inputs: CauseInputs) -> Iterator[Cause]:
    for finding in inputs.by_rule["uneven-channels"]:
        culprit = Party("device", f"memory channels of socket {finding.subject.name}")
        yield Cause(
            CauseKey("channels", finding.where),
            "channels",
            finding.brief.removeprefix("memory "),
            culprit,
            inputs.keys_of(finding),
            (finding,),
            takes_effects=False,
        )


def _flows(inputs: CauseInputs) -> Iterator[Cause]:
    """Flow tables that miss; what loses upcalls without that is not known."""
    for key, findings in inputs.by_nf("flow-cache-hits", "lost-upcalls").items():
        hits, upcalls, lost = (
            inputs.nfs[key].readings.get(f"ovs.{name}", _NOT_OVS)
            for name in ("cache_hit_ratio", "upcalls_per_s", "lost_upcalls_per_s")
        )
        fell = findings[0].rule == "flow-cache-hits"
        cached = "" if isinstance(hits, Missing) or not fell else f"{hits:.0%} of lookups cached"
        known = _count(upcalls, "upcalls/s"), _count(lost, "lost") if lost else "", cached
        title = ", ".join(filter(None, known)) or "its flow tables missed"
        yield Cause(
            CauseKey("flows", key),
            "flows",
            title,
            Party("host", "new flows") if fell else None,
            (key,),
            tuple(findings),
            basis="hits of its flow tables" * fell,
            likely=fell,
        )


def _stopped(inputs: CauseInputs) -> Iterator[Cause]:
    for finding in inputs.by_rule["traffic-stopped"]:
        keys = inputs.keys_of(finding)
        culprit = Party("host", "arriving traffic")
        yield Cause(
            CauseKey("stopped", keys[0] if keys else finding.where),
            "stopped",
            "stopped or went elsewhere",
            culprit,
            keys,
            (finding,),
            takes_effects=False,
            floor=Severity.INFO,
        )


def _host(inputs: CauseInputs) -> Iterator[Cause]:
    for finding in inputs.by_rule["sources-apart"]:
        yield _of_host(finding)


def _of_host(finding: Finding) -> Cause:
    """A finding about no NF: of the measurement, or of a rule from outside nftop."""
    apart = finding.rule == "sources-apart"
    culprit = Party("host", "perf and pcm" if apart else finding.where)
    title = "disagreed: one of the two numbers was not true" if apart else finding.text
    return Cause(
        CauseKey("host", f"{finding.rule} {finding.where}"),
        "host",
        title,
        culprit,
        (),
        (finding,),
        takes_effects=False,
        floor=Severity.INFO,
    )


def _of_nf(inputs: CauseInputs, key: str, findings: Sequence[Finding]) -> Iterator[Cause]:
    """An NF's own load, cost or loss: what is normal for it, and what began apart, by itself."""
    nf = inputs.nfs[key]
    lost = [item for item in findings if item.rule in _LOSSES]
    began_ns = min((item.began_ns for item in lost), default=0)
    groups: dict[str, list[Finding]] = {}
    for item in findings:
        if (lost and abs(item.began_ns - began_ns) <= EFFECT_BEFORE_S * 1e9) or item in lost:
            groups.setdefault("loss", []).append(item)
        else:
            normal = _normal_for(item.rule, nf.name)
            groups.setdefault("normal" if normal else "cost", []).append(item)
    for name in ("loss", "cost", "normal"):
        if name in groups:
            yield _own_cause(inputs, nf, name, tuple(groups[name]))


def _own_cause(inputs: CauseInputs, nf: NfRow, name: str, findings: tuple[Finding, ...]) -> Cause:
    party = inputs.parties.of_nf(nf)
    floor = Severity.INFO if name == "normal" else Severity.WARN
    first = next((item for item in findings if item.rule in _LOSSES), findings[0])
    title = first.brief + _memory(item for item in findings if item is not first)
    plain = Cause(
        CauseKey("nf", f"{name} {nf.key}"),
        "nf",
        title,
        None if name == "loss" else party,
        (nf.key,),
        findings,
        floor=floor,
    )
    recent = inputs.recent(nf.key)
    if name == "normal":
        return plain
    arrived, was = recent.before(first.began_ns, _arriving), recent.cost_before(first.began_ns)
    cost = cost_of(nf, was)
    grown = number_or(arriving_of(nf), 0.0) / max(number_or(arrived, math.inf), 1.0)
    # A bound has empty polls in it, more of them where fewer packets arrive.
    bound = was.is_bound or cost.is_bound
    comparable = not bound or name == "loss" or grown > 1 - NEAR
    if comparable and has_grown(was.value, cost.value):
        texts = [
            cycles_text(value, bound=item.is_bound)
            for item in (cost, was)
            if not isinstance(value := item.value, Missing)
        ]
        title = f"needed {texts[0]} cycles per packet, was {texts[1]}{_memory(findings)}"
        return replace(plain, title=title, culprit=party)
    if name == "loss" and grown > 1 + NEAR:
        title = f"{grown - 1:+.0%} packets, more than its cores took"
        return replace(plain, kind="load", title=title, culprit=Party("host", "arriving traffic"))
    return plain


def _arriving(point: RecentPoint) -> float:
    return point.arriving


def _memory(findings: Iterable[Finding]) -> str:
    """That it moves memory for each packet, where a finding says so."""
    text = next((item.brief for item in findings if item.rule == "nf-memory"), "")
    return f", {text}" if text else ""


# Rules that begin a cause, in the order in which effects are assigned.
_ORDER: tuple[tuple[tuple[str, ...], Callable[[CauseInputs], Iterator[Cause]]], ...] = (
    (("gone",), _gone),
    (("hung",), _hung),
    (("poller-waits", "shared-cpu"), _shared_cpus),
    (("noisy-neighbour",), _neighbours),
    (("flow-cache-hits", "lost-upcalls"), _flows),
    (("core-throttled", "package-throttled"), _throttled),
    (("low-priority-core",), _slow_cores),
    (("busy-sibling",), _siblings),
    (("cross-socket",), _remote),
    (("ddio-misses",), _of_packages("ddio", ("ddio-misses",), _ddio_title, takes_effects=True)),
    (("uneven-channels",), _channels),
    (
        ("mmio-writes", "mmio-reads"),
        _of_packages("registers", ("mmio-writes", "mmio-reads"), _register_title),
    ),
    (
        ("partial-writes",),
        _of_packages(
            "descriptors", ("partial-writes",), lambda _, item: item.brief.removeprefix("about ")
        ),
    ),
    (("traffic-stopped",), _stopped),
    (("sources-apart",), _host),
)
