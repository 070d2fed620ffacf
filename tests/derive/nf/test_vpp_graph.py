"""VPP's errors as rates: drops by node and reason, and all counters of its nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nftop.model.frame import NfRow
from nftop.model.missing import Missing, Reason
from nftop.model.nf.vpp import ERRORS_NOT_RECORDED, VppErrors
from nftop.model.sample import Sample
from tests.derive.nf_scene import PID, full_frames, host, instance, nodes, vpp, vpp_thread
from tests.derive.scene import START, reason
from tests.samples import S, app, fold, port, table

MISSED = "rx-miss"
CHECKSUM, ECHO = ("ip4-input", "bad_checksum"), ("ip4-icmp-input", "echo_replies_sent")


def errors(counts: dict[tuple[str, str], tuple[int, int]], epoch: int = 5) -> VppErrors:
    """Counts of the main thread and of a worker."""
    array = np.array(list(counts.values()), dtype=np.uint64).reshape(len(counts), 2).T
    return VppErrors(epoch, tuple(n for n, _ in counts), tuple(n for _, n in counts), array)


def at(second: float, counted: VppErrors | Missing, **changes: Any) -> Sample:
    one = instance(second, {1: int(1000 * second)}, errors=counted, **changes)
    missed = one.interfaces.rx_misses.copy()
    missed[0, 1] = int(4 * second)
    return vpp(second, replace(one, interfaces=replace(one.interfaces, rx_misses=missed)))


def rows(*samples: Sample) -> list[NfRow]:
    return [frame.nfs[0] for frame in fold(START, *samples)]


def dropped(nf: NfRow) -> dict[tuple[str, str], object]:
    assert not isinstance(nf.drops, Missing)
    return {(drop.where, drop.reason): drop.packets_per_s for drop in nf.drops}


def test_drops_have_node_and_reason_and_other_counters_are_none() -> None:
    first, second = (
        at(t, errors({CHECKSUM: (3 * t, 10 * t), ECHO: (0, 50 * t)})) for t in (10, 12)
    )
    nf = rows(first, second)[-1]
    ports = {("local0", MISSED): 0.0, ("eth0", MISSED): 4.0, ("eth1", MISSED): 0.0}
    assert dropped(nf) == pytest.approx({**ports, CHECKSUM: 13.0})
    assert nf.readings["error_drops_per_s"] == pytest.approx(13.0)
    assert nf.readings["drop_packets_per_s"] == pytest.approx(4.0)  # of its NICs, as before
    shown = {(item.port, item.name): (item.count, item.per_s, item.drops) for item in nf.xstats}
    assert shown == {CHECKSUM: (156, 13.0, True), ECHO: (600, 50.0, False)}


def test_the_first_packets_of_a_reason_have_a_rate_while_the_directory_stays() -> None:
    """Counters that never counted are left out of a reading."""
    nothing, some = errors({}), {CHECKSUM: (0, 30)}
    rated = rows(at(10, nothing), at(11, errors(some)))[-1]
    assert dropped(rated)[CHECKSUM] == pytest.approx(30.0)
    moved = rows(at(10, nothing), at(11, errors(some, epoch=6)), at(12, errors(some, epoch=6)))
    assert reason(dropped(moved[1])[CHECKSUM]) is Reason.WARMING  # type: ignore[arg-type]
    assert reason(moved[1].readings["error_drops_per_s"]) is Reason.WARMING
    assert dropped(moved[2])[CHECKSUM] == 0.0


def test_without_any_drops_the_sum_is_zero_from_the_second_reading_on() -> None:
    first, second = rows(at(10, errors({})), at(11, errors({ECHO: (0, 5)})))
    assert reason(first.readings["error_drops_per_s"]) is Reason.WARMING
    assert second.readings["error_drops_per_s"] == 0.0


def test_cleared_counters_give_no_rate() -> None:
    frames = rows(
        *(at(10 + n, errors({CHECKSUM: (0, count)})) for n, count in enumerate((9, 2, 5)))
    )
    assert reason(frames[1].readings["error_drops_per_s"]) is Reason.RESET
    assert frames[2].readings["error_drops_per_s"] == pytest.approx(3.0)


def test_without_errors_a_reason_is_given() -> None:
    why = Missing(Reason.SOURCE, "its stats segment has no error counters")
    nf = rows(at(10, why), at(11, why))[-1]
    assert nf.readings["error_drops_per_s"] == why
    assert dropped(nf)["eth0", MISSED] == pytest.approx(4.0)
    old = rows(at(10, ERRORS_NOT_RECORDED))[-1]
    assert old.readings["error_drops_per_s"] == ERRORS_NOT_RECORDED


def test_a_problem_takes_the_rates_away() -> None:
    why = Missing(Reason.STALE, "its stats segment stays locked")
    counted = errors({CHECKSUM: (0, 1)})
    nf = rows(at(10, counted), at(11, counted), at(11, counted, problem=why))[-1]
    assert nf.drops == why and nf.readings["error_drops_per_s"] == why
    assert {item.per_s for item in nf.xstats} == {why}


def test_rates_of_nodes_are_those_by_packet_received() -> None:
    """VPP refreshed them in 10 s of 2560 packets each; it receives 1000 packets/s."""
    before, after = (nodes(full_frames(second, 2560, 0.5)) for second in (10, 20))
    first, second = rows(
        at(10, errors({}), nodes=before, heartbeat=1), at(20, errors({}), nodes=after, heartbeat=2)
    )
    counts = {(item.port, item.name): item.count for item in first.xstats}
    assert counts["dpdk-input", "vectors"] == 25_600 and counts["dpdk-input", "calls"] == 100
    assert len(counts) == 9 and not any(item.drops for item in first.xstats)
    assert {reason(item.per_s) for item in first.xstats} == {Reason.WARMING}
    rates = {(item.port, item.name): item.per_s for item in second.xstats}
    assert rates["dpdk-input", "vectors"] == pytest.approx(1000.0)
    assert rates["dpdk-input", "calls"] == pytest.approx(1000.0 / 256)
    assert after.clocks.sum() > before.clocks.sum()
    of_nodes = (after.clocks - before.clocks).sum(axis=0) / 25_600 * 1000.0
    assert [rates[name, "clocks"] for name in after.names] == pytest.approx(of_nodes.tolist())
    assert all(item.estimate for item in second.xstats), "marked in its cell"


def test_its_dpdk_does_not_count_the_same_drops_again() -> None:
    """Whoever of both has a counter: older recordings of VPP have no failed buffers."""

    def both(second: int) -> Sample:
        one = instance(second, {1: 1000 * second}, errors=errors({CHECKSUM: (0, second)}))
        dpdk = app(
            second * S,
            port(rx=second, rx_missed=second, rx_nombuf=2 * second, xstats={"mac_err": second}),
            pid=PID,
        )
        rows = (vpp_thread(0, second, run=0.01), vpp_thread(1, second))
        tables = {"vpp": replace(vpp(second, one).readings["vpp"]).value, "dpdk": table(dpdk)}
        return host(second, *rows, **tables)

    (nf,) = fold(START, both(1), both(2))[-1].nfs
    assert nf.kind == "vpp"
    reasons = [drop.reason for drop in nf.drops] if not isinstance(nf.drops, Missing) else []
    assert "rx_missed_errors" not in reasons and MISSED in reasons
    assert dropped(nf)[CHECKSUM] == pytest.approx(1.0)
    assert nf.readings["rx_nombuf_per_s"] == pytest.approx(2.0)
    assert {item.name for item in nf.xstats} == {"bad_checksum", "mac_err"}


def test_what_its_interfaces_lose_is_theirs_and_of_all() -> None:
    def lossy(second: int) -> Sample:
        one = instance(second, {1: 1000 * second}, errors=errors({}))
        own = one.interfaces
        named = {"rx_bytes": 60_000, "rx_errors": 2, "rx_no_buffers": 3, "tx_errors": 5}
        counts: dict[str, Any] = {name: np.zeros_like(own.drops) for name in named}
        for name, per_s in named.items():
            counts[name][0, 1] = per_s * second
        return vpp(second, replace(one, interfaces=replace(own, **counts)))

    nf = rows(lossy(10), lossy(12))[-1]
    lost = {key: value for key, value in dropped(nf).items() if key[0] == "eth0"}
    assert lost == {("eth0", MISSED): 0.0, ("eth0", "rx-error"): 2.0, ("eth0", "rx-no-buf"): 3.0}
    assert [nf.readings[f"{name}_per_s"] for name in ("rx_errors", "rx_nombuf", "tx_errors")] == [
        2.0,
        3.0,
        5.0,
    ]
    assert isinstance(nf.ports, tuple)
    assert {port.name: port.frame_bytes for port in nf.ports}["eth0"] == 64.0
    older = rows(at(10, errors({})), at(11, errors({})), lossy(12), lossy(13))
    assert [reason(frame.readings["rx_errors_per_s"]) for frame in older[1:3]] == [
        Reason.UNDEFINED,
        Reason.WARMING,
    ]
    assert older[3].readings["rx_errors_per_s"] == 2.0


@pytest.mark.parametrize(
    "counts", [np.zeros((2, 2), np.uint64), np.zeros(1, np.uint64), np.zeros((0, 0), np.uint64)]
)
def test_counts_that_do_not_fit_have_a_reason(counts: Any) -> None:
    """As a recording that was changed may have them."""
    nf = rows(at(10, VppErrors(1, ("a",), ("x",), counts)))[-1]
    assert reason(nf.readings["error_drops_per_s"]) is Reason.ERROR
