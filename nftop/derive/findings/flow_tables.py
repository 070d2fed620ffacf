"""Rules of findings about OVS' flow tables."""

from __future__ import annotations

from nftop.derive.findings.inputs import FindingInputs
from nftop.derive.findings.rule import FindingKey, Measured, Only, Rule, register
from nftop.derive.nf.recent import KEPT_S, RecentPoint, RecentRates
from nftop.model.column import Column, from_readings
from nftop.model.frame import NfRow
from nftop.model.metrics.flow_tables import HITS_FELL_BY
from nftop.model.missing import Missing, Reading, Reason

_SOURCE = Missing(Reason.SOURCE)
_STATS = "OVS dpif-netdev/pmd-stats-show"
_UNKNOWN = RecentRates()


def _hit_ratio(point: RecentPoint) -> float:
    return point.cache_hit_ratio


def _fall(inputs: FindingInputs, nf: NfRow) -> tuple[Reading, Reading, Reading]:
    """Usual ratio minus the present one, and both."""
    now = nf.readings.get("ovs.cache_hit_ratio", _SOURCE)
    usual = inputs.recent.get(nf.key, _UNKNOWN).before(
        inputs.frame.monotonic_ns, _hit_ratio, KEPT_S
    )
    if isinstance(now, Missing):
        return now, usual, now
    return usual if isinstance(usual, Missing) else usual - now, usual, now


def hits_fell(inputs: FindingInputs) -> Measured:
    """By how much the cache hit ratio of each NF fell below its median of the last minutes."""
    nfs = inputs.frame.nfs
    rows = [_fall(inputs, nf) for nf in nfs]
    received = [nf.readings["rx_packets_per_s"] for nf in nfs]

    def column_of(readings: list[Reading]) -> Column:
        return from_readings(dict(enumerate(readings)), len(nfs), _SOURCE)

    return Measured(
        [FindingKey(f"nf {nf.name}", nf.key) for nf in nfs],
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
    keys = [FindingKey(f"nf {nf.name}", nf.key) for nf in nfs]
    return Measured(keys, from_readings(values, len(nfs), _SOURCE))


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
        form="{:,.0f}",
        text="{value} packets/s dropped, because their upcalls failed",
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
        source=f"{_STATS}; nftop's comparison of the NF with its own median of the last "
        f"{KEPT_S:.0f} s",
        own="a tenth of all packets then takes the classifier, which costs several times as much",
        only=(Only("packets", 100_000.0, "it takes in 100,000 packets/s or more"),),
        note="It ends when the lower ratio has become the median. More flows than the caches hold, "
        "or a change of flow tables, have this effect.",
    )
)
