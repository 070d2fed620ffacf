"""Cycles per packet of all who poll in a class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.derive.cache.table import cost_of
from nftop.model.frame import Frame, NfRow
from nftop.model.missing import Missing, Reading, Reason
from tests.frames import frame, with_cells

FWD, VPP = [1, 2], [3]
_RATES = st.floats(1e3, 1e8)
_COSTS = st.floats(20.0, 1e5)


def reports(base: Frame, **readings: Mapping[str, Reading]) -> Frame:
    """Network functions, by name, that show something else."""
    return replace(
        base,
        nfs=tuple(
            replace(nf, readings={**nf.readings, **readings.get(nf.name, {})}) for nf in base.nfs
        ),
    )


def named(base: Frame, name: str, **changes: object) -> Frame:
    def changed(nf: NfRow) -> NfRow:
        return replace(nf, **changes) if nf.name == name else nf  # type: ignore[arg-type]

    return replace(base, nfs=tuple(map(changed, base.nfs)))


@settings(max_examples=30)
@given(st.tuples(_COSTS, _COSTS), st.tuples(_RATES, _RATES))
def test_it_is_cycles_by_packets(cpp: tuple[float, float], packets: tuple[float, float]) -> None:
    shown = reports(
        frame(),
        **{
            name: {"cpp": cost, "rx_packets_per_s": rate}
            for name, cost, rate in zip(("fwd", "vpp"), cpp, packets, strict=True)
        },
    )
    result = cost_of(shown, FWD + VPP)
    cycles = sum(cost * rate for cost, rate in zip(cpp, packets, strict=True))
    assert result.cpp == pytest.approx(cycles / sum(packets))
    # One of them may have polled idly.
    assert (result.clock, result.saturated) == ("core", False)


def test_of_a_network_function_partly_its_cores_count(snapshot: SnapshotAssertion) -> None:
    shown = reports(frame(), vpp={"cpp": 333.3, "rx_packets_per_s": 8.4e6})
    result = cost_of(shown, [1, *VPP])
    assert result.cpp == pytest.approx((188.2 * 14.88 + 333.3 * 8.4) / (14.88 + 8.4), rel=1e-6)
    assert cost_of(frame(), [1]).saturated is True
    # Whose other core gets no packets: its polls cost all the same.
    idle = Missing(Reason.IDLE, "no packets")
    shown = with_cells(with_cells(frame(), "packets_per_s", {2: 0.0}), "cpp", {2: idle})
    shown = named(shown, "fwd", cpus=(*shown.nfs[0].cpus, shown.topology.cpus[4].cpu))
    result = cost_of(shown, FWD)
    assert isinstance(result.cpp, Missing)
    assert result.cpp.message == snapshot
    # But none has any: it is not told what they cost, and the others' is.
    shown = with_cells(with_cells(shown, "packets_per_s", {1: 0.0}), "cpp", {1: idle})
    assert cost_of(shown, FWD + VPP).cpp == shown.nfs[1].readings["cpp"]


def test_no_number_has_its_reason() -> None:
    gone = Missing(Reason.PERMISSION, "counters need CAP_PERFMON")
    assert cost_of(reports(frame(), vpp={"cpp": gone}), FWD + VPP).cpp is gone
    assert cost_of(reports(frame(), vpp={"rx_packets_per_s": gone}), FWD + VPP).cpp is gone
    mixed = cost_of(named(frame(), "vpp", cpp_clock="nf"), FWD + VPP).cpp
    assert isinstance(mixed, Missing)
    assert "different clocks" in mixed.message
    silent = cost_of(reports(frame(), vpp={"rx_packets_per_s": 0.0}), VPP).cpp
    assert isinstance(silent, Missing)
    assert silent.reason is Reason.IDLE


def test_whether_empty_polls_are_in_it_is_known_where_all_report() -> None:
    full = named(named(frame(), "fwd", saturated=True), "vpp", saturated=True)
    assert cost_of(full, FWD + VPP).saturated is True
    assert cost_of(named(full, "vpp", saturated=None), FWD + VPP).saturated is None
