"""Metrics of OVS' flow tables, over all PMD threads of a switch; `NfFlowTables` has each thread's.

A packet makes a pass for each recirculation, and every pass is one lookup. The tables are tried in
the order below (dpif-netdev.c, dfc_processing and fast_path_processing).
"""

from __future__ import annotations

from nftop.model.metrics.metric import Metric, Unit

_STATS = "OVS dpif-netdev/pmd-stats-show, pmd-perf-show"
# Key of `OvsPmd.hits`, OVS' own name, meaning.
_TABLES = (
    ("phwol", "PHWOL hits", "Passes whose flow the NIC had matched (partial hardware offload)."),
    ("simple", "simple match hits", "Passes that the table of simple matches answered."),
    ("emc", "EMC hits", "Passes that the exact match cache answered."),
    ("smc", "SMC hits", "Passes that the signature match cache answered."),
    ("megaflow", "megaflow hits", "Passes that the megaflow classifier answered, after all these."),
)

# Tables before the classifier: keys of `OvsPmd.hits`.
CACHES = ("phwol", "simple", "emc", "smc")
LOOKUPS = (*CACHES, "megaflow")
# How much a hit ratio falls below its own last minutes to be a finding.
HITS_FELL_BY = 0.1

FLOW_TABLE_METRICS: tuple[Metric, ...] = (
    Metric(
        id="ovs.cache_hit_ratio",
        label="CACHED",
        unit=Unit.RATIO,
        scope="nf",
        meaning="Share of lookups that a table before the megaflow classifier answered: hardware "
        "offload, simple matches, EMC or SMC. It falls when there are more flows than the caches "
        "hold.",
        formula=f"({' + '.join(f'{name}_hits_per_s' for name in CACHES)}) / (these + "
        "megaflow_hits_per_s + upcalls_per_s)",
        origin=_STATS,
        good="high",
    ),
    *(
        Metric(
            id=f"ovs.{name}_hits_per_s",
            label={"megaflow": "MEGAFLOW"}.get(name, name.upper()),
            unit=Unit.REQUESTS_PER_S,
            scope="nf",
            meaning=meaning,
            formula=f"delta({counter}) / delta(the NF's clock), summed over its PMD threads",
            origin=_STATS,
        )
        for name, counter, meaning in _TABLES
    ),
    Metric(
        id="ovs.upcalls_per_s",
        label="UPCALL/s",
        unit=Unit.PER_S,
        scope="nf",
        meaning="Passes that no flow table answered: OVS asks its OpenFlow tables, which takes as "
        "long as hundreds of packets. Lost ones are among them.",
        formula="delta(miss with success upcall + miss with failed upcall) / delta(the NF's clock)",
        origin=_STATS,
        good="low",
    ),
    Metric(
        id="ovs.lost_upcalls_per_s",
        label="LOST/s",
        unit=Unit.PER_S,
        scope="nf",
        meaning="Packets dropped because their upcall failed: OVS was changing its flow tables, or "
        "could not install a flow.",
        formula="delta(miss with failed upcall) / delta(the NF's clock)",
        origin=f"{_STATS}; coverage/show datapath_drop_upcall_error",
        good="low",
        bad_above=0.0,
    ),
    Metric(
        id="ovs.packets_per_batch",
        label="PKT/bat",
        unit=Unit.PACKETS,
        scope="nf",
        meaning="Packets that OVS sends at a time: 32 are the most that it receives at a time. "
        "Small batches cost more per packet.",
        formula="delta(Tx packets) / delta(Tx batches)",
        origin="OVS dpif-netdev/pmd-perf-show, 2.10 and later",
        good="high",
    ),
)
