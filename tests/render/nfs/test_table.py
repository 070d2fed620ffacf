"""The NFs screen's lines: its table, what is below it, and what papers measured."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.derive.compare.baseline import keep
from nftop.derive.fold import comparing
from nftop.derive.nf.cores import MONITORED
from nftop.derive.nf.row import paper_metrics
from nftop.model.frame import Frame, NfRow
from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.nf.components import NfQueue, NfThread
from nftop.render.cores.harm import RowTrends, TrendColumns, TrendTable
from nftop.render.nfs.detail import explain_nf_lines, joined, nf_detail
from nftop.render.nfs.papers import choices, reference_lines, title_of
from nftop.render.nfs.table import NfOrder, in_order, nf_columns, nf_line, order_header
from tests.command import lines_with
from tests.frames import all_missing, frame, hostile
from tests.sim.hosts import Frozen, S


@lru_cache(maxsize=1)
def seen() -> Frame:
    """A host with VPP, OVS and DPDK, compared with a baseline."""
    host = Frozen(traffic=False)
    for _ in range(8):
        host.tick(S)
    host.state = comparing(host.state, keep(host.state.baseline))
    return host.tick(S)


def table(shown: Frame, width: int, order: NfOrder | None = None) -> list[str]:
    order = order or NfOrder()
    columns = nf_columns(width, compared=shown.baselines is not None)
    rows = in_order(shown, order)
    return [
        order_header(columns, order, width).text,
        *(nf_line(shown, nf, columns, width).text for nf in rows),
    ]


def detail(shown: Frame, nf: NfRow, width: int, workload: str | None = None) -> list[str]:
    return [item.text for item in joined(nf_detail(shown, nf, width, workload), spaced=False)]


def of(shown: Frame, kind: str) -> NfRow:
    return next(nf for nf in shown.nfs if nf.kind == kind)


def numbered(readings: list[Reading]) -> list[float]:
    return [reading for reading in readings if not isinstance(reading, Missing)]


@pytest.mark.parametrize("width", [20, 40, 80, 120, 200, 300])
@pytest.mark.parametrize("make", [seen, all_missing, hostile, lambda: frame(8)])
def test_every_line_fits_and_reports_no_zero_for_what_is_absent(width: int, make: object) -> None:
    shown: Frame = make()  # type: ignore[operator]
    lines = table(shown, width)
    for nf in shown.nfs:
        lines += detail(shown, nf, width)
        lines += [line.text for line in explain_nf_lines(shown, nf, width)]
    assert max(map(len, lines)) <= max(width, 20)
    assert all(text.isprintable() for text in lines)


def test_more_room_shows_more_and_takes_nothing_away() -> None:
    before: set[str] = set()
    for width in range(20, 260, 5):
        keys = {col.key for col in nf_columns(width, compared=True)}
        assert before <= keys
        before = keys
    assert {
        "name",
        "kind",
        "cpus",
        "rx_packets_per_s",
        "cpp",
        "cpp_vs_base",
        "tma",
        "ipc",
        "drop_packets_per_s",
        "tx_packets_per_s",
        "busy_cpp",
        "ipp",
        "imbalance_ratio",
        "usual",
        "classes",
        "llc_occupancy_bytes",
        "llc_misses_per_packet",
        "occupancy_bytes",
        "memory_local_bytes_per_s",
        "memory_remote_bytes_per_s",
        "trend",
    } == before
    narrow = {col.key for col in nf_columns(80, compared=True)}
    assert {"name", "rx_packets_per_s", "cpp", "cpp_vs_base", "ipc", "tma"} <= narrow
    assert "cpp_vs_base" not in {col.key for col in nf_columns(200, compared=False)}


def test_a_row_has_numbers_bar_class_and_owner_of_its_cache() -> None:
    lines = table(seen(), 200)
    vpp = next(line for line in lines if line.startswith("vpp "))
    shared = next(line for line in lines if line.startswith("loop/"))
    assert "■ vpp" in vpp and "R" * 8 in vpp and "*" not in vpp
    assert "* " in shared and "■ dpdk" in shared


@pytest.mark.parametrize("key", ["cpp", "llc_occupancy_bytes", "cpp_vs_base", "imbalance_ratio"])
def test_rows_sort_high_to_low_those_without_a_number_last(key: str) -> None:
    shown = seen()
    for inverted in (False, True):
        rows = in_order(shown, NfOrder(key, inverted=inverted))
        assert len(rows) == len(shown.nfs)
        readings = [nf.readings[key] for nf in rows]
        values = numbered(readings)
        assert values == sorted(values, reverse=not inverted)
        assert readings[: len(values)] == values, "what has none comes last"
    names = [nf.name for nf in in_order(shown, NfOrder("name"))]
    assert names == sorted(names)
    assert {nf.kind for nf in in_order(shown, NfOrder(search="l3fwd"))} == {"dpdk"}


def test_below_it_threads_queues_ports_and_nodes(snapshot: SnapshotAssertion) -> None:
    shown = seen()
    ovs, vpp = of(shown, "ovs"), of(shown, "vpp")
    text = detail(shown, ovs, 120)
    assert [item.split()[1] for item in text if item[:5].strip().isdecimal()] == [
        thread.name for thread in ovs.threads
    ]
    head = next(at for at, item in enumerate(text) if item.startswith("QUEUES: PORT"))
    assert text[head + 1].split()[:3] == ["dpdk0", "0", "5"]
    assert any(
        entry.startswith("0 0000:") and entry.split()[-2:] == ["64.0", "37.2"] for entry in text
    )
    text = detail(shown, vpp, 120)
    assert any(entry.startswith("eth") for entry in text)
    node = next(element for element in text if element.startswith("dpdk-input"))
    assert node.rstrip().endswith("polls")
    assert lines_with(text, "known member") == snapshot


def test_a_queue_that_is_off_or_nobodys_reports_it(snapshot: SnapshotAssertion) -> None:
    shown = seen()
    why = Missing(Reason.SOURCE, "it counts none")
    odd = replace(of(shown, "ovs"), queues=(NfQueue("p", 7, None, why, why, False, why),))
    text = detail(shown, odd, 100)
    at = next(at for at, item in enumerate(text) if item.startswith("QUEUES"))
    assert text[at + 1].split() == ["p", "7", "off", *["[s]"] * 4]
    assert text[at + 2] == snapshot


def test_a_baseline_is_shown_with_its_count_and_spread(snapshot: SnapshotAssertion) -> None:
    shown = seen()
    text = detail(shown, of(shown, "vpp"), 120)
    at = next(at for at, item in enumerate(text) if item.startswith("BASELINE "))
    assert text[at].split()[-5:] == ["then", "spread", "ticks", "now", "change"]
    assert [item.split()[0] for item in text[at + 1 : at + 7]] == [
        "Mpps",
        "CPP",
        "bCPP",
        "IPP",
        "IPC",
        "MISS/pkt",
    ]
    assert text[at + 2].split()[3] == "7", "the first tick has no rates"
    moved = replace(of(shown, "vpp"), pid=1, key="1:1")
    assert lines_with(detail(replace(shown, nfs=(moved,)), moved, 120), "pid 5000") == snapshot


def test_every_absence_has_its_sentence() -> None:
    shown = all_missing()
    text = " ".join(" ".join(detail(shown, shown.nfs[0], 100)).split())
    problem = shown.nfs[0].problem
    assert problem is not None and problem.message in text
    for reading in shown.nfs[0].readings.values():
        assert isinstance(reading, Missing)
        assert reading.message in text


# What papers measured


def test_with_one_thread_a_core_the_numbers_are_as_they_are() -> None:
    shown = seen()
    vpp = of(shown, "vpp")
    here = paper_metrics(shown, vpp)
    assert here.smt is False and here.cores == len(vpp.cpus)
    assert here.readings["cpp"] == vpp.readings["cpp"]
    assert here.readings["ipc"] == vpp.readings["ipc"]


def test_two_threads_of_a_core_are_counted_as_the_papers_do() -> None:
    shown = seen()
    duplicates = next(nf for nf in shown.nfs if nf.name.startswith("south/"))
    here = paper_metrics(shown, duplicates)
    cpp, ipc, rx = (duplicates.readings[name] for name in ("cpp", "ipc", "rx_packets_per_s"))
    assert here.smt is True and here.cores == len(duplicates.cpus) // 2
    assert not isinstance(cpp, Missing) and not isinstance(ipc, Missing)
    assert not isinstance(rx, Missing)
    assert here.readings["cpp"] == pytest.approx(cpp / 2)
    assert here.readings["ipc"] == pytest.approx(ipc * 2)
    assert here.readings["packets_per_s"] == pytest.approx(rx / 2)


def test_what_is_half_and_half_or_of_another_clock_is_not_compared() -> None:
    shown = seen()
    duplicates = next(nf for nf in shown.nfs if nf.name.startswith("south/"))
    mixed = replace(duplicates, cpus=(duplicates.cpus[0], duplicates.cpus[1], Cpu(72)))
    here = paper_metrics(shown, mixed)
    assert here.smt is None and all(
        isinstance(reading, Missing) for reading in here.readings.values()
    )
    by_tsc = paper_metrics(shown, replace(of(shown, "vpp"), cpp_clock="tsc"))
    assert isinstance(by_tsc.readings["cpp"], Missing)


def test_papers_stand_next_to_it_and_only_the_operator_reports_what_it_runs(
    snapshot: SnapshotAssertion,
) -> None:
    shown = seen()
    bdx = replace(shown, host=replace(shown.host, uarch="BDX"))
    south = next(nf for nf in shown.nfs if nf.name.startswith("south/"))
    text = [line.text for line in reference_lines(bdx, south, None, 120)]
    assert text[0].split() == ["PAPERS", "any", "workload", "CPP", "IPP", "IPC", "Mpps/core"]
    loop = next(item for item in text if "DPDK-Testpmd L2 Loop, E5-2699 v4 HT, 1 core" in item)
    assert loop.split()[-4:] == ["49.0", "97.0", "2.00", "44.9"]
    assert "no HT" not in " ".join(text)
    messages = " ".join(" ".join(text).split())
    assert messages == snapshot
    chosen = [line.text for line in reference_lines(bdx, south, "l3fwd", 120)]
    assert chosen[0] == snapshot
    assert not [item for item in chosen if "L2 Loop" in item]
    fwd = next(entry for entry in chosen if "E5-2699 v4 HT, 1 core" in entry)
    own = next(entry for entry in chosen if entry.startswith("here"))
    assert fwd.split()[-4:] == ["65.0", "140", "2.20", "34.0"]
    assert own.split()[-4].startswith(("64", "65", "<64", "<65")), own
    assert " ".join(chosen) == snapshot


def test_on_a_cpu_that_no_paper_has_that_is_reported(snapshot: SnapshotAssertion) -> None:
    shown = replace(seen(), host=replace(seen().host, uarch="SPR"))
    text = " ".join(line.text for line in reference_lines(shown, of(shown, "ovs"), None, 200))
    assert text == snapshot
    assert reference_lines(shown, replace(of(shown, "ovs"), kind="kernel"), None, 100) == []


def test_the_workloads_to_choose_are_those_of_its_kind() -> None:
    shown = seen()
    assert choices(of(shown, "dpdk")) == ("testpmd", "l3fwd")
    assert choices(of(shown, "ovs")) == ("ovs",)
    assert len(choices(of(shown, "vpp"))) == 3
    assert title_of("testpmd") == "DPDK-Testpmd L2 Loop"


def test_a_share_is_of_all_threads_or_not_reported() -> None:
    nf = next(item for item in seen().nfs if len(item.threads) > 1)
    first, second = nf.threads[:2]
    reports = replace(first, packets_per_s=3e6), replace(second, packets_per_s=1e6)
    assert _shares(nf, reports) == ["75%", "25%"]
    unreported = reports[0], replace(second, packets_per_s=Missing(Reason.SOURCE))
    assert _shares(nf, unreported) == [Reason.SOURCE.mark, Reason.SOURCE.mark]


def _shares(nf: NfRow, threads: tuple[NfThread, ...]) -> list[str]:
    lines = detail(seen(), replace(nf, threads=threads), 200)
    head = next(at for at, line in enumerate(lines) if "SHARE" in line)
    end = lines[head].index("SHARE") + len("SHARE")
    return [line[end - 7 : end].strip() for line in lines[head + 1 : head + 1 + len(threads)]]


def test_rows_are_sorted_by_the_change_against_what_is_usual() -> None:
    shown = frame(8)
    first, second = shown.nfs[:2]
    changes, graph = np.array([0.02, 0.3]), np.ones((2, 2), np.float32)
    costs = TrendColumns(lambda: graph, changes, changes, changes > 0, costs=True)
    trends = RowTrends(nf_costs=TrendTable({first.key: 0, second.key: 1}, costs))
    assert in_order(shown, NfOrder("usual"), trends)[:2] == (second, first)
    assert in_order(shown, NfOrder("usual", inverted=True), trends)[:2] == (first, second)
    # The order by harm knows them too.
    calm = tuple(
        replace(nf, readings={**nf.readings, "drop_packets_per_s": 0.0}) for nf in (first, second)
    )
    assert in_order(replace(shown, nfs=calm), NfOrder(), trends) == calm[::-1]
    columns = nf_columns(300, compared=False)
    assert "vs.10m" in order_header(columns, NfOrder("usual"), 300).text
    assert "+30%" in nf_line(shown, second, columns, 300, trends).text
    assert "+30%" not in nf_line(shown, second, columns, 300).text


@pytest.mark.parametrize("width", [80, 120, 200])
def test_what_is_monitored_is_in_the_lines_of_its_threads_at_any_width(width: int) -> None:
    shown = seen()
    vpp = of(shown, "vpp")
    threads = tuple(
        replace(
            item,
            monitor="vpp/nftop.m",
            occupancy_bytes=3 * 2.0**20,
            memory_local_bytes_per_s=2.5e8,
            memory_remote_bytes_per_s=1e8,
        )
        for item in vpp.threads
    )
    lines = detail(shown, replace(vpp, threads=threads), width)
    head = next(text for text in lines if "L3MiB" in text)
    ends = [head.index(label) + len(label) for label in ("L3MiB", "MBL", "MBR")]
    rows = lines[lines.index(head) + 1 :][: len(threads)]
    cells = [[row[:end].split()[-1] for end in ends] for row in rows]
    assert cells == [["3.0", "0.25", "0.10"]] * len(threads)
    assert {"CPU", "THREAD", "Mpps", "CPP"} <= set(head.split())
    if width == 80:
        # Without a monitor they make room for what every host has.
        heads = [text for text in detail(shown, vpp, width) if "THREAD" in text.split()]
        assert len(heads) == 1 and "L3MiB" not in heads[0] and "TOPDOWN" in heads[0]


@pytest.mark.parametrize("width", [80, 120, 200])
def test_a_monitoring_group_of_all_threads_has_a_line_and_its_threads_the_reason(
    width: int,
) -> None:
    """As `M` makes it: one for the network function."""
    shown = seen()
    ovs = of(shown, "ovs")
    why = Missing(Reason.UNDEFINED, "counts others too")
    numbers = dict(zip(MONITORED, (3 * 2.0**20, 2.5e8, 1e8), strict=True))
    absent = dict.fromkeys(MONITORED, why)
    threads = tuple(replace(item, monitor="ovs/nftop.m", **absent) for item in ovs.threads)  # type: ignore[arg-type]
    both = replace(ovs, threads=threads, readings={**ovs.readings, **numbers})
    lines = detail(shown, both, width)
    head = next(text for text in lines if "L3MiB" in text)
    ends = [head.index(label) + len(label) for label in ("L3MiB", "MBL", "MBR")]
    rows = lines[lines.index(head) + 1 :][: len(threads) + 2]
    cells = [[row[:end].split()[-1] for end in ends] for row in rows]
    assert cells[:-1] == [["-"] * 3] * len(threads) + [["3.0", "0.25", "0.10"]]
    assert rows[-1].startswith("-   L3MiB, MBL, MBR: ") and why.message in rows[-1]
    # Without numbers of all of them there is the reason alone.
    lines = detail(shown, replace(both, readings={**ovs.readings, **absent}), width)
    after = lines[lines.index(head) + 1 + len(threads)]
    assert after.startswith("-   L3MiB, MBL, MBR: ")
