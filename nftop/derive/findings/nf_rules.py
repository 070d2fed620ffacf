"""Rules of findings about a network function: throughput, drops, flow tables, its end.

Throughput and hits of flow caches are compared with its own last minutes.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime

from nftop.derive.findings.inputs import FindingInputs, FindingKey, numbers
from nftop.derive.findings.rule import SI, Measured, Only, Rule, register
from nftop.derive.nf.departures import GONE_FOR_S
from nftop.derive.nf.recent import KEPT_S, LEAST_PACKETS_PER_S, USUAL_S, RecentPoint, RecentRates
from nftop.model.column import Column, from_readings
from nftop.model.frame import NfRow
from nftop.model.metrics.flow_tables import HITS_FELL_BY
from nftop.model.missing import Missing, Reading, Reason, quotient
from nftop.model.subject import Subject
from nftop.model.usual import NEW_NORMAL_AFTER_S

_SOURCE_TEXT = f"nftop's comparison of the NF with its own median of the last {USUAL_S:.0f} s"
_UNKNOWN = RecentRates()
_STATS = "OVS dpif-netdev/pmd-stats-show"
_NICS_DROPS, _KERNELS_DROPS = "no descriptor free", "by NICs or for a full backlog"
_SOURCE = Missing(Reason.SOURCE)
_ANSWERS = Missing(Reason.IDLE)


def _ratios(inputs: FindingInputs) -> tuple[Column, Column, Column]:
    """Of each NF, throughput and arriving packets by the usual ones, and the usual throughput."""
    columns: tuple[dict[int, Reading], ...] = ({}, {}, {})
    for row, nf in enumerate(inputs.frame.nfs):
        recent = inputs.recent.get(nf.key, _UNKNOWN)
        now = recent.now
        silent = nf.problem or _SOURCE
        sent_now = _reading(None if now is None else now.throughput, silent)
        columns[0][row] = quotient(sent_now, recent.usual)
        arriving_now = _reading(None if now is None else now.arriving, silent)
        columns[1][row] = quotient(arriving_now, recent.usual_arriving)
        columns[2][row] = recent.usual
    count = len(inputs.frame.nfs)
    sent, arriving, usual = (from_readings(column, count, _SOURCE) for column in columns)
    return sent, arriving, usual


def _reading(value: float | None, absent: Missing) -> Reading:
    return absent if value is None or math.isnan(value) else value


def _of_nfs(inputs: FindingInputs, values: Column, **context: Column) -> Measured:
    nfs = inputs.frame.nfs
    return Measured(inputs.nf_keys, values, context, {"nf": [nf.name for nf in nfs]})


def collapsed(inputs: FindingInputs) -> Measured:
    """Throughput of each NF by its usual one, while its usual packets arrive."""
    sent, arriving, usual = _ratios(inputs)
    usual_mpps = Column(usual.values / 1e6, usual.reasons)
    return _of_nfs(inputs, sent, arriving=arriving, usual=usual, usual_mpps=usual_mpps)


def stopped(inputs: FindingInputs) -> Measured:
    """Arriving packets of each NF by its usual ones."""
    _, arriving, usual = _ratios(inputs)
    usual_mpps = Column(usual.values / 1e6, usual.reasons)
    return _of_nfs(inputs, arriving, usual=usual, usual_mpps=usual_mpps)


_LOADED = Only(
    "usual", LEAST_PACKETS_PER_S, f"its usual throughput is {LEAST_PACKETS_PER_S:,.0f} packets/s"
)


_METRICS = ("tx_packets_per_s", "rx_packets_per_s", "drop_packets_per_s")

register(
    Rule(
        id="throughput-collapse",
        rank=15,
        title="throughput collapsed",
        metrics=_METRICS,
        scope="nf",
        measure=collapsed,
        limit=0.5,
        clear=0.7,
        text="forwarded {value} of its usual {usual_mpps:.2f} Mpps",
        detail=", {beyond} {limit}; packets still arrived",
        source=_SOURCE_TEXT,
        beyond="below",
        own="less than half is no fluctuation of a load that keeps arriving",
        only=(
            _LOADED,
            Only("arriving", 0.5, "half of its usual packets or more still arrive, drops included"),
        ),
        at_least_s=3.0,
        note=f"The usual throughput is kept for up to {NEW_NORMAL_AFTER_S / 60:.0f} minutes of a "
        "collapse. If fewer packets arrive it is traffic-stopped.",
    )
)

register(
    Rule(
        id="traffic-stopped",
        rank=185,
        title="packets stopped arriving",
        metrics=_METRICS,
        scope="nf",
        measure=stopped,
        limit=0.1,
        clear=0.2,
        beyond="below",
        text="{value} of its usual packets arrived",
        detail=", {beyond} {limit}; it had forwarded {usual_mpps:.2f} Mpps",
        source=_SOURCE_TEXT,
        own="a tenth: the traffic was stopped or goes elsewhere",
        only=(_LOADED,),
        at_least_s=3.0,
        note="Whether somebody stopped it on purpose is not known: check the sender and the link. "
        "Of an NF that does not count drops only received packets are known.",
        is_note=True,
    )
)


def drops(inputs: FindingInputs) -> Measured:
    """Packets per second that were dropped before a function had them, by function."""
    nfs = inputs.frame.nfs
    values = {row: nf.readings["missed_packets_per_s"] for row, nf in enumerate(nfs)}
    return Measured(
        inputs.nf_keys,
        from_readings(values, len(nfs), Missing(Reason.SOURCE)),
        words={"why": [_KERNELS_DROPS if nf.kind == "kernel" else _NICS_DROPS for nf in nfs]},
    )


register(
    Rule(
        id="drops",
        rank=20,
        title="packets dropped",
        metrics=("missed_packets_per_s",),
        scope="nf",
        measure=drops,
        limit=0.0,
        clear=0.0,
        form=SI,
        text="{value} packets/s dropped, {why}",
        detail="",
        source="DPDK ethdev rx_missed_errors, and of the kernel softnet_stat too; nftop explain "
        "missed_packets_per_s",
        own="any packet that is dropped is one too many",
    )
)


def left(inputs: FindingInputs) -> Measured:
    """1 for each function that ended recently, with its pid and the time of its last reading."""
    return Measured(
        [FindingKey(Subject("nf", item.key, item.name), item.key) for item in inputs.gone],
        numbers([1.0] * len(inputs.gone)),
        words={
            "pid": [str(item.pid) for item in inputs.gone],
            "until": [_clock(entry.until_ns) for entry in inputs.gone],
        },
    )


register(
    Rule(
        id="gone",
        rank=10,
        title="a network function that is gone",
        metrics=("rx_packets_per_s",),
        scope="nf",
        measure=left,
        limit=0.0,
        clear=0.0,
        text="pid {pid} was here until {until}",
        detail="",
        when="its source answers, and in three ticks has not reported it; it ends after "
        f"{GONE_FOR_S:g} s, or where it is reported again",
        source="nftop: of what has left there are no numbers, and no row is easily overlooked",
        own="a process that ends, and one that takes its statistics away and stays, look the same",
        at_least_s=0.0,
        note="Nothing is said while its source is late, fails or may not be read.",
    )
)


def hung(inputs: FindingInputs) -> Measured:
    """Largest share of time that a polling thread of each silent function ran."""
    values: dict[int, Reading] = {}
    for row, nf in enumerate(inputs.frame.nfs):
        runs = [item.run_ratio for item in nf.threads]
        missing = next((run for run in runs if isinstance(run, Missing)), None)
        if nf.problem is None:
            values[row] = _ANSWERS
        elif nf.problem.reason is Reason.STALE and runs:
            values[row] = missing or max(run for run in runs if not isinstance(run, Missing))
        elif nf.problem.reason is Reason.STALE and _forwarded(inputs, nf):
            values[row] = 0.0  # its threads were known by their polling, and none polls now
    return _of_nfs(inputs, from_readings(values, len(inputs.frame.nfs), _SOURCE))


def _forwarded(inputs: FindingInputs, nf: NfRow) -> bool:
    """Whether it had packets in the last minutes."""
    points = inputs.recent.get(nf.key, _UNKNOWN).points
    return any(point.throughput > 0 or point.arriving > 0 for point in points)


register(
    Rule(
        id="hung",
        rank=12,
        title="a network function that hangs",
        metrics=("run_ratio",),
        scope="nf",
        measure=hung,
        limit=0.01,
        clear=0.01,
        beyond="below",
        text="did not answer, and its polling threads ran {value} of the time",
        detail="",
        when="it does not answer, and each of its polling threads runs less than 1% of the time",
        source="nftop: its telemetry socket or statistics segment, and schedstat",
        own="a poller that runs and a main thread that is slow are no hang; both together are",
        at_least_s=3.0,
        note="A process that was stopped (SIGSTOP, a debugger, the freezer of a cgroup) looks so, "
        "and one that is deadlocked.",
    )
)


def _hit_ratio(point: RecentPoint) -> float:
    return point.cache_hit_ratio


def _fall(inputs: FindingInputs, nf: NfRow) -> tuple[Reading, Reading, Reading]:
    """Usual ratio minus the present one, and both."""
    now = nf.readings.get("ovs.cache_hit_ratio", _SOURCE)
    if isinstance(now, Missing):
        return now, now, now
    usual = inputs.recent.get(nf.key, _UNKNOWN).before(
        inputs.frame.monotonic_ns, _hit_ratio, KEPT_S
    )
    return usual if isinstance(usual, Missing) else usual - now, usual, now


def hits_fell(inputs: FindingInputs) -> Measured:
    """By how much the cache hit ratio of each NF fell below its median of the last minutes."""
    nfs = inputs.frame.nfs
    rows = [_fall(inputs, nf) for nf in nfs]
    received = [nf.readings["rx_packets_per_s"] for nf in nfs]

    def column_of(readings: list[Reading]) -> Column:
        return from_readings(dict(enumerate(readings)), len(nfs), _SOURCE)

    return Measured(
        inputs.nf_keys,
        column_of([row[0] for row in rows]),
        {
            "usual": column_of([row[1] for row in rows]),
            "now": column_of([row[2] for row in rows]),
            "packets": column_of(received),
        },
    )


def lost_upcalls(inputs: FindingInputs) -> Measured:
    """Packets per second that each NF dropped because their upcalls failed."""
    nfs = inputs.frame.nfs
    values = {row: nf.readings.get("ovs.lost_upcalls_per_s", _SOURCE) for row, nf in enumerate(nfs)}
    return Measured(inputs.nf_keys, from_readings(values, len(nfs), _SOURCE))


register(
    Rule(
        id="lost-upcalls",
        rank=21,
        title="upcalls lost",
        metrics=("ovs.lost_upcalls_per_s", "ovs.upcalls_per_s"),
        scope="nf",
        measure=lost_upcalls,
        limit=0.0,
        clear=0.0,
        form=SI,
        text="{value} packets/s dropped, because their upcalls failed",
        detail="",
        source=f"{_STATS} miss with failed upcall",
        own="any packet that is dropped is one too many",
        note="OVS drops a packet whose flow it can't look up: its flow tables are being changed, "
        "or their limit is reached (ovs-appctl upcall/show).",
    )
)

register(
    Rule(
        id="flow-cache-hits",
        rank=125,
        title="fewer flow cache hits",
        metrics=("ovs.cache_hit_ratio",),
        scope="nf",
        measure=hits_fell,
        limit=HITS_FELL_BY,
        clear=HITS_FELL_BY / 2,
        text="{now:.0%} of lookups hit EMC, SMC or another table before the megaflows, and "
        "{usual:.0%} in the last minutes",
        detail="",
        source=f"{_STATS}; nftop's comparison of the NF with its own median of the last "
        f"{KEPT_S:.0f} s",
        own="a tenth of all packets then takes the classifier, which costs several times as much",
        only=(Only("packets", 100_000.0, "it takes in 100,000 packets/s or more"),),
        note="It ends when the lower ratio has become the median. More flows than the caches hold, "
        "or a change of flow tables, have this effect.",
    )
)


def _clock(wall_ns: int) -> str:
    """A time in UTC: `12:41:07Z`."""
    return datetime.fromtimestamp(wall_ns / 1e9, tz=UTC).strftime("%H:%M:%SZ")
