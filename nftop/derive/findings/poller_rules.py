"""Rules of findings about pollers: their CPUs, cores, packets; each rule next to its measure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nftop.derive.findings.inputs import FindingInputs, FindingKey, numbers, of_packages, taken
from nftop.derive.findings.rule import (
    BUSY,
    LIMIT_AND_NF,
    LOADED,
    STABLE,
    Measured,
    Only,
    Rule,
    register,
)
from nftop.model.column import Column, column, from_readings, missing, where
from nftop.model.metrics.probes import PAPER
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.nf.kinds import POLLING_RATIO
from nftop.model.struct import replace
from nftop.model.subject import HOST, package_subject


def of_cpu(metric: str) -> Callable[[FindingInputs], Measured]:
    """A metric of each CPU on which a network function polls."""

    def measure(inputs: FindingInputs) -> Measured:
        return Measured(inputs.cpu_keys, inputs.of(metric), words={"nf": inputs.nf_names})

    return measure


register(
    Rule(
        id="poller-waits",
        rank=30,
        title="a poller that waits for its CPU",
        metrics=("wait_ratio",),
        scope="cpu",
        measure=of_cpu("wait_ratio"),
        limit=0.05,
        clear=0.03,
        form="{:.1%}",
        text="waited for its CPU {value} of the time",
        detail=LIMIT_AND_NF,
        source=f"{PAPER}, 10.1, 1.3: tune the OS for low jitter, use isolcpus when possible",
        own="the source has no number. Of a core at full load every share that something else "
        "takes is lost; nftop takes 5 %, from which the map has marked it too",
    )
)


def throttled_packages(inputs: FindingInputs) -> Measured:
    """How often per second each package began to throttle."""
    rows = inputs.frame.packages
    keys = [FindingKey(package_subject(row.package), row.package) for row in rows]
    return Measured(keys, of_packages(rows, "throttles_per_s"))


_HOT = Rule(
    id="core-throttled",
    rank=33,
    title="a poller on a core that throttles",
    metrics=("throttles_per_s",),
    scope="cpu",
    measure=of_cpu("throttles_per_s"),
    limit=0.0,
    clear=0.0,
    form="{:.1f}",
    text="began to throttle {value} times a second, too hot",
    detail=" ({nf})",
    source="thermal_throttle/core_throttle_count of sysfs (therm_throt.c)",
    own="a core that is not too hot never throttles",
    at_least_s=3.0,
)
register(_HOT)
register(
    replace(
        _HOT,
        id="package-throttled",
        rank=34,
        title="a package that throttles",
        scope="package",
        measure=throttled_packages,
        detail="",
        source="thermal_throttle/package_throttle_count of sysfs (therm_throt.c)",
        note="Information where no network function polls on the package.",
    )
)


def of_core(metric: str) -> Callable[[FindingInputs], Measured]:
    """A metric that a core's threads have the same, of each core with pollers, and its load."""

    def measure(inputs: FindingInputs) -> Measured:
        return _of_cores(inputs, _own_counts(inputs, inputs.of(metric)))

    return measure


register(
    Rule(
        id="frontend-bound",
        rank=160,
        title="a core that waits for instructions",
        metrics=("tma.frontend_bound",),
        scope="core",
        measure=of_core("tma.frontend_bound"),
        limit=0.30,
        clear=0.27,
        text="{value} of the core's issue slots got no instruction",
        detail=LIMIT_AND_NF,
        source=f"{PAPER}, 6.4: expected below 30 % for well optimized workloads",
        only=(LOADED, BUSY),
    )
)


register(
    Rule(
        id="bad-speculation",
        rank=170,
        title="a core that throws work away",
        metrics=("tma.bad_speculation",),
        scope="core",
        measure=of_core("tma.bad_speculation"),
        limit=0.05,
        clear=0.045,
        form="{:.1%}",
        text="{value} of the core's issue slots went to work thrown away",
        detail=LIMIT_AND_NF,
        source=f"{PAPER}, 6.3.1: where more than 5 % go to mispredicted branches, look for hot "
        "spots; 6.3: as low as possible; Table 11: with hyper-threading 0.4 to 4.7 %, of its "
        "network functions only OVS without hyper-threading has more, 7.4 %",
        only=(LOADED, BUSY),
        note="The paper's limit is for mispredicted branches. nftop compares all bad speculation, "
        "machine clears included (0.0 to 0.8 % in Table 11): level 1 is counted all the time, the "
        "mispredicts of level 2 are not. Screen 6 has both.",
        normal_for=("ovs",),
    )
)


def deep(node: str) -> Callable[[FindingInputs], Measured]:
    """A top-down node below level 1, of each core with pollers.

    From its metric where that is counted most of the time, else from the tree of the core in focus,
    where turns of counters make it an estimate: a finding needs several in a row.
    """

    def measure(inputs: FindingInputs) -> Measured:
        return _of_cores(inputs, _own_counts(inputs, _deep(inputs, node)))

    return measure


def _deep(inputs: FindingInputs, name: str) -> Column:
    metric, focus = f"tma.{name}", inputs.frame.focus
    why = Missing(Reason.SOURCE, "counted for the core in focus only")
    counted = metric in inputs.frame.cpus.columns
    known = inputs.of(metric) if counted else missing(len(inputs.rows), why)
    if focus is None:
        return known
    node = next((item for item in focus.tree if item.name == name), None)
    if node is None:
        return known
    infos = inputs.frame.cpus.topology.cpus
    readings: dict[int, Reading] = {
        index: node.reading
        for index, row in enumerate(inputs.rows.tolist())
        if infos[row].cpu in focus.cpus
    }
    return where(known.present, known, from_readings(readings, len(inputs.rows), why))


register(
    Rule(
        id="fetch-bandwidth",
        rank=162,
        title="a core whose decoders deliver too little",
        metrics=("tma.fetch_bandwidth",),
        scope="core",
        measure=deep("fetch_bandwidth"),
        limit=0.10,
        clear=0.09,
        form="{:.1%}",
        text="{value} of the core's issue slots lost to fetch bandwidth",
        detail=LIMIT_AND_NF,
        source=f"{PAPER}, 6.4.2: optimal code has values below or around 10 %; higher ones could "
        "be a cause of concern and call for investigation; Table 12: 0.4 to 10.0 % in its network "
        "functions",
        only=(LOADED, BUSY),
        note="Of the core in focus (screen 6), and of all cores where level 2 has counters of its "
        "own.",
    )
)


register(
    Rule(
        id="branch-mispredicts",
        rank=168,
        title="a core that mispredicts branches",
        metrics=("tma.branch_mispredicts",),
        scope="core",
        measure=deep("branch_mispredicts"),
        limit=0.05,
        clear=0.045,
        form="{:.1%}",
        text="{value} of the core's slots lost to mispredicted branches",
        detail=LIMIT_AND_NF,
        source=f"{PAPER}, 6.3.1: if it is more than 5 %, hot-spot profiling is recommended; Table "
        "11: 0.3 to 4.7 % in its network functions, but 7.1 % in OVS without hyper-threading",
        only=(LOADED, BUSY),
        note="Of the core in focus (screen 6), and of all cores where level 2 has counters of its "
        "own; bad-speculation watches the others.",
        normal_for=("ovs",),
    )
)


register(
    Rule(
        id="ports-utilization",
        rank=192,
        title="execution ports that limit a core",
        metrics=("tma.ports_utilization",),
        scope="core",
        measure=deep("ports_utilization"),
        limit=0.25,
        clear=0.23,
        form="{:.1%}",
        text="{value} of the core's cycles limited by its execution ports",
        detail=", {limit} or more ({nf})",
        source=f"{PAPER}, 6.5.2: common best practice is to investigate it if it is 25 % or "
        "higher; Table 15: 30.7 to 42.0 % in its network functions without hyper-threading, 21.2 "
        "to 25.9 % with",
        only=(LOADED, BUSY),
        note="Of the core in focus (screen 6). All of the paper's network functions are beyond it "
        "without hyper-threading, so it is information.",
        is_note=True,
    )
)


register(
    Rule(
        id="itlb-misses",
        rank=194,
        title="instructions on too many pages",
        metrics=("tma.itlb_misses",),
        scope="core",
        measure=deep("itlb_misses"),
        limit=0.0001,
        clear=0.00009,
        form="{:.3%}",
        text="{value} of the core's cycles lost to misses of the ITLB",
        detail=LIMIT_AND_NF,
        source=f"{PAPER}, 15.3: if it is more than 0.01 %, rearrange the code so that what runs "
        "often is on few pages, or use large pages (2M or 1G) for code",
        only=(LOADED, BUSY),
        note="Of the core in focus (screen 6). Every CPU's table has its own formula for it, see "
        "nftop explain itlb_misses; the paper's is for Xeon E5 v4.",
        is_note=True,
    )
)


def core_ipc(inputs: FindingInputs) -> Measured:
    """Instructions per cycle of each core with pollers; its only thread's where it has but one."""
    whole, own = inputs.of("core_ipc"), inputs.of("ipc")
    alone = whole.reasons == Reason.UNDEFINED
    return _of_cores(inputs, _own_counts(inputs, where(alone, own, whole)))


register(
    Rule(
        id="low-ipc",
        rank=120,
        title="few instructions per cycle",
        metrics=("core_ipc", "ipc"),
        scope="core",
        measure=core_ipc,
        limit=1.75,
        clear=1.85,
        beyond="below",
        form="{:.2f}",
        text="IPC {value} of the core",
        detail=LIMIT_AND_NF,
        source=f"{PAPER}, 10.2, 2.1: ensure that IPC is 1.75 or more; if not, latency of the "
        "caches or of memory constrains the core",
        only=(LOADED, BUSY),
        note="Of the physical core with all its hyper-threads, as the paper counts. testpmd and "
        "l3fwd, which do little but I/O, have 1.4 and 1.5 there without hyper-threading: see CPP "
        "and IPP before anything is changed.",
        normal_for=("testpmd", "l3fwd"),
    )
)


def _own_counts(inputs: FindingInputs, of_rows: Column) -> Column:
    """A number of every row but where other threads were counted with the network function's."""
    if not inputs.frame.cpus.shared:
        return of_rows
    why = Missing(Reason.SOURCE, "other threads ran on this core too")
    return where(inputs.on_shared_cores, missing(len(of_rows), why), of_rows)


def others_here(inputs: FindingInputs) -> Measured:
    """Number and names of other threads that never sleep on a network function's CPU."""
    others = [inputs.other_pollers.get(row, ()) for row in inputs.rows.tolist()]
    words = {"nf": inputs.nf_names, "threads": [", ".join(other) for other in others]}
    return Measured(inputs.cpu_keys, numbers([float(len(other)) for other in others]), words=words)


register(
    Rule(
        id="shared-cpu",
        rank=40,
        title="a poller's CPU on which another thread never sleeps",
        metrics=("run_ratio",),
        scope="cpu",
        measure=others_here,
        limit=0.0,
        clear=0.0,
        text="shared with {threads}",
        detail=" (polled by {nf})",
        when="a second thread that is bound to its CPU, of a network function (it polls) or of any "
        f"other program (it spins), runs or waits to run {POLLING_RATIO:.0%} of the time or more, "
        "for 5 s",
        source=f"{PAPER}, 10.1, 1.3: use isolcpus when possible",
        own="a poller never sleeps, so it and the other take turns. As many programs may share the "
        "CPU as like, as long as they sleep most of the time: see poller-waits",
    )
)


def foreign_sibling(inputs: FindingInputs) -> Measured:
    """The busiest hyper-thread sibling on which another program runs: its share of time not idle.

    The kernel's, since a poller that polls in vain takes slots all the same.
    """
    table = inputs.frame.cpus
    mine = table.topology.sibling_rows[inputs.rows]
    # A last column without siblings: argmax needs one, also without hyper-threading.
    siblings = np.full((len(mine), mine.shape[1] + 1), -1)
    siblings[:, :-1] = mine
    pids = inputs.pids
    others = (siblings >= 0) & (pids[siblings] != pids[inputs.rows][:, None])
    ran = table.columns["cpu_time_ratio"]
    values = np.where(others, ran.values[siblings], -1.0)
    reasons = np.where(others, ran.reasons[siblings], 0)
    worst = reasons.max(axis=1, initial=0).astype(np.uint8)
    worst[~others.any(axis=1)] = Reason.UNDEFINED
    busiest = np.where(np.isnan(values), -np.inf, values).argmax(axis=1)[:, None]
    known = worst == 0
    measured = np.where(known, np.take_along_axis(values, busiest, 1)[:, 0], np.nan)
    rows = np.where(known, np.take_along_axis(siblings, busiest, 1)[:, 0], -1).tolist()
    named = ["" if row < 0 else str(table.topology.cpus[row].cpu) for row in rows]
    words = {"nf": inputs.nf_names, "sibling": named}
    return Measured(inputs.cpu_keys, Column(measured, worst), words=words)


register(
    Rule(
        id="busy-sibling",
        rank=50,
        title="another program on the hyper-thread sibling",
        metrics=("cpu_time_ratio",),
        scope="cpu",
        measure=foreign_sibling,
        limit=0.5,
        clear=0.4,
        text="its sibling, cpu {sibling}, was {value} busy with another program",
        detail=" than {nf}",
        source=f"{STABLE}: l3fwd with a stress load on the other hyper-thread; {PAPER}, 4.3.3.2: "
        "both threads share the core's units",
        own="the talk's numbers are in a picture, and the paper has none of another program on the "
        "sibling; half of the time is taken, as for the mark beside SMT",
        note="A sibling that polls for the same network function is none: that is how the paper "
        "measured hyper-threading.",
    )
)


def empty_poll_ipc(inputs: FindingInputs) -> Measured:
    """As `core_ipc`, and the share of empty polls: all where no packets come, else as reported."""
    measured = core_ipc(inputs)
    busy, packets = measured.context["busy"], measured.context["packets"]
    none = packets.present & (packets.values == 0)
    busy = where(none, numbers([0.0] * len(none)), busy)
    idle = Column(1.0 - busy.values, busy.reasons)
    return Measured(measured.keys, measured.values, {"busy": busy, "idle": idle}, measured.words)


register(
    Rule(
        id="empty-polls",
        rank=190,
        title="IPC of empty polls",
        metrics=("core_ipc", "busy_ratio"),
        scope="core",
        measure=empty_poll_ipc,
        limit=2.0,
        clear=1.9,
        form="{:.2f}",
        text="IPC {value} was of empty polls: work in {busy:.0%} of the time",
        detail=" ({nf})",
        source=f"{PAPER}, 4.3.2.3: IPC goes artificially high in a tight loop that polls",
        own="the source calls below 2 low; from 2 on IPC looks good, and here it means nothing",
        only=(Only("idle", 0.95, "95 % of its time or more went to empty polls"),),
        note="Nothing is wrong: it says that IPC is not to be read as efficiency.",
        is_note=True,
    )
)


def low_priority(inputs: FindingInputs) -> Measured:
    """1 for cores that SST-BF made low-priority, 0 for high-priority ones, and base frequencies."""
    table = inputs.frame.cpus
    rows = inputs.rows[inputs.first_of_core].tolist()
    kinds: dict[int, Reading] = {}
    for at, row in enumerate(rows):
        kind = table.settings[row].priority
        kinds[at] = kind if isinstance(kind, Missing) else float(kind == "low")
    values = from_readings(kinds, len(rows), Missing(Reason.SOURCE))
    measured = _of_cores(inputs, missing(len(inputs.rows), Missing(Reason.UNDEFINED)))
    if not values.present.any():
        return Measured(measured.keys, values, measured.context, measured.words)
    base = table.columns["base_frequency_hz"].values / 1e9
    package = table.topology.package_index
    best = np.zeros(len(table.topology.packages) + 1)
    np.maximum.at(best, package, np.where(base > 0, base, 0.0))
    context = {
        **measured.context,
        "base_ghz": column(base[rows]),
        "best_ghz": column(best[package[rows]]),
    }
    return Measured(measured.keys, values, context, measured.words)


register(
    Rule(
        id="low-priority-core",
        rank=60,
        title="a poller on a low-priority core (SST-BF)",
        metrics=("base_frequency_hz",),
        scope="core",
        measure=low_priority,
        limit=0.5,
        clear=0.5,
        when="its core has one of the lower base frequencies of its package",
        text="a low-priority core: base {base_ghz:.1f} GHz, {best_ghz:.1f} GHz on others of its "
        "package",
        detail=" ({nf})",
        source=f"{STABLE}: OVS-DPDK's six PMD threads on the six high-priority cores (2.7 GHz), "
        "ovs-vswitchd and the virtual machines on low-priority ones (2.1 GHz), also the cores on "
        "which VPP forwards in those machines",
        own="a core is one or the other; which it is is fixed in silicon",
        only=(LOADED, BUSY),
        note="Which poller needs the faster cores is the operator's choice: a package has fewer of "
        "them than an SST-BF host usually has pollers, and in the talk's own setup this finding "
        "would name the cores of VPP.",
    )
)


def sources_disagree(inputs: FindingInputs) -> Measured:
    """1 if perf and a sensor server disagreed in several readings, else 0."""
    message, server = inputs.frame.disagreement, inputs.frame.sources.get("pcm")
    counts = server is not None and server.reason is Reason.PRESENT
    values = {0: float(message != "")} if counts else dict[int, Reading]()
    return Measured(
        [FindingKey(HOST, None)],
        from_readings(values, 1, Missing(Reason.SOURCE)),
        words={"message": [message if counts else ""]},
    )


register(
    Rule(
        id="sources-apart",
        rank=180,
        title="perf and a sensor server disagree",
        metrics=("ipc", "memory.read_bytes_per_s"),
        scope="host",
        measure=sources_disagree,
        limit=0.5,
        clear=0.5,
        text="{message}",
        detail="",
        when="they have differed by more than 5 % in five readings in a row",
        source="nftop: both count the same thing, so that one of the two numbers is not true",
        own="beyond what the two clocks, which are up to a second apart, explain",
        at_least_s=0.0,
    )
)


def _of_cores(inputs: FindingInputs, of_rows: Column) -> Measured:
    busy, packets = inputs.core_load
    return Measured(
        inputs.core_keys,
        taken(of_rows, inputs.first_of_core),
        {"packets": packets, "busy": busy},
        {"nf": inputs.core_nfs},
    )
