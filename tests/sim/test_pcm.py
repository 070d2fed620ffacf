"""The simulated sensor server: power, C-states and heat by the forms its docstring states."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nftop.model.missing import Missing, Reason
from nftop.model.pcm import C_STATES, PcmTable
from nftop.model.struct import replace
from nftop.sim import pcm, scenario
from nftop.sim import processor as processors
from nftop.sim.layout import build
from nftop.sim.model import Model, model_of
from nftop.sim.uncore import OF_PACKAGE_INDEX, package_counts
from nftop.sim.workloads import INDEX, QUANTITIES
from tests.sim.hosts import Frozen, S


@pytest.fixture(scope="module")
def noisy() -> Model:
    """Its neighbour starts at 60 s."""
    return model_of(scenario.load("noisy"), 88)


def reported(model: Model, t_ns: int) -> PcmTable:
    table = pcm.pcm_table(model, t_ns)
    assert isinstance(table, PcmTable), table
    return table


def test_power_is_the_stated_form_of_what_the_cores_did(noisy: Model) -> None:
    for second in (30, 61, 200):
        table = reported(noisy, second * S)
        counted = noisy.exact(second * S) - noisy.exact((second - 1) * S)
        for package in (0, 1):
            cpus = [info for info in noisy.layout.topology.cpus if info.package == package]
            first = [info.cpu for info in cpus if not info.siblings or info.siblings[0] > info.cpu]
            mine = [info.cpu for info in cpus]
            processor = noisy.scenario.processor
            joules = pcm.CYCLE_J * counted[first, INDEX["core_clocks"]].sum()
            joules += pcm.INSTRUCTION_J * counted[mine, INDEX["instructions"]].sum()
            joules = pcm.uncore_w(processor) + pcm.core_factor(processor) * joules
            assert table.of_package("package_joules_consumed")[package] == pytest.approx(joules)
            lines = (
                table.of_package("dram_reads")[package],
                table.of_package("dram_writes")[package],
            )
            memory = pcm.MEMORY_W + pcm.MEMORY_BYTE_J * sum(lines)
            assert table.of_package("dram_joules_consumed")[package] == pytest.approx(memory)


def test_power_and_heat_go_with_load_and_with_the_cube_of_the_frequency(
    noisy: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = reported(noisy, 55 * S), reported(noisy, 65 * S)
    for field in ("package_joules_consumed", "dram_joules_consumed"):
        assert after.of_package(field)[0] > 1.1 * before.of_package(field)[0]
        assert after.of_package(field)[1] == pytest.approx(before.of_package(field)[1], rel=0.01)
    cooler = before.of_cpu("thermal_headroom")
    assert (after.of_cpu("thermal_headroom") <= cooler).all()
    assert (after.of_cpu("thermal_headroom") < cooler).any()
    # Twice the frequency is twice the cycles, each at four times the energy.
    processor = noisy.scenario.processor
    factor, uncore_w = pcm.core_factor(processor), pcm.uncore_w(processor)
    monkeypatch.setattr(pcm, "core_factor", lambda _: factor)
    slow = replace(processor, base_hz=processor.base_hz // 2)
    same = replace(noisy, scenario=replace(noisy.scenario, processor=slow))
    faster = reported(same, 55 * S).of_package("package_joules_consumed") - uncore_w
    slower = before.of_package("package_joules_consumed") - uncore_w
    assert faster == pytest.approx(4 * slower)


@pytest.mark.parametrize("name", processors.names())
def test_a_package_with_every_core_busy_takes_what_it_is_specified_for(name: str) -> None:
    processor = processors.load(name)
    busy = np.zeros((4 * processor.cores, len(QUANTITIES)))
    hz = np.full(len(busy), float(processor.base_hz))
    busy[:, INDEX["core_clocks"]] = hz
    # Two threads of a core share its two instructions per cycle.
    busy[:, INDEX["instructions"]] = hz
    topology = build(scenario.load("healthy", name), len(busy)).topology
    core_of = np.array([info.core for info in topology.cpus])
    of_cores = pcm.core_joules(busy, core_of, hz, processor)
    watts = pcm.uncore_w(processor) + of_cores.sum() / len(topology.packages)
    assert watts == pytest.approx(processor.tdp_w)
    assert {"e5-2699v4": 145, "gold-6230n": 125, "gold-6252n": 150}[name] == processor.tdp_w


@settings(max_examples=12)
@given(
    cpus=st.sampled_from([2, 3, 5, 8, 88, 177]),
    t_ns=st.integers(S // 10, 300 * S),
    smt=st.booleans(),
)
def test_states_share_the_time_and_columns_are_the_hosts(cpus: int, t_ns: int, smt: bool) -> None:
    model = model_of(scenario.load("default"), max(cpus, 3), smt=smt)
    table = reported(model, t_ns)
    assert table.interval_us == min(t_ns, S) // 1000
    for of in (table.of_cpu, table.of_package):
        states = np.array([of(f"cstateresidency_{index}") for index in range(C_STATES)])
        assert ((states >= 0) & (states <= 1)).all()
        assert states.sum(axis=0) == pytest.approx(1.0)
        # A counter that runs with the TSC has no share between none and one count.
        counts = states * table.of_cpu("invariant_tsc").max()
        assert ((counts == 0) | (counts > 0.999)).all()
    locations = list(zip(table.packages.tolist(), table.cores.tolist(), strict=True))
    for info in model.layout.topology.cpus:
        together = [
            cpu for cpu, location in enumerate(locations) if location == locations[info.cpu]
        ]
        assert together == sorted((info.cpu, *info.siblings))
        assert table.packages[info.cpu] == info.package


def test_before_the_first_sample_nothing_is_reported(noisy: Model) -> None:
    for t_ns in (0, S // 10 - 1):
        why = pcm.pcm_table(noisy, t_ns)
        assert isinstance(why, Missing) and why.reason is Reason.WARMING


@pytest.mark.parametrize("tick_ns", [S, S // 4])
def test_frames_have_it_and_perf_agrees_through_a_change_of_load(tick_ns: int) -> None:
    host = Frozen("noisy")
    host.tick(50 * S)
    seen = [host.tick(tick_ns) for _ in range(25 * S // tick_ns)]
    assert not any(frame.disagreement or frame.sources["pcm"].detail for frame in seen[1:])
    last = seen[-1]
    for row in last.packages:
        for metric in ("power_w", "energy_j", "c0_ratio", "uncore_frequency_hz"):
            assert isinstance(row.readings[metric], float)
        assert row.origins.keys() >= {"uncore_frequency_hz", "thermal_headroom_c"}
        assert not row.origins.keys() & {"memory.read_bytes_per_s", "power_w"}, "perf counts it"
    polling = host.cpus_of("vpp")[0]
    assert last.cpus.columns["c0_ratio"][polling] == 1.0
    assert last.cpus.columns["c6_ratio"][polling] == 0.0
    assert last.host.simulated


def test_what_goes_out_of_links_is_more_than_data_and_comes_in_is_data() -> None:
    model = model_of(scenario.load("remote"), 88)
    t_ns = 30 * S
    table = reported(model, t_ns)
    grown = package_counts(model, t_ns) - package_counts(model, t_ns - S)
    received, sent = (
        64.0 * grown[:, OF_PACKAGE_INDEX[name]]
        for name in ("link_lines_received", "link_lines_sent")
    )
    incoming, outgoing = (
        table.of_link(field).reshape(len(table.sockets), -1).sum(axis=1)
        for field in ("incoming_data_traffic", "outgoing_data_and_non_data_traffic")
    )
    assert received.min() > 1e6
    assert incoming == pytest.approx(received)
    # A request of a flit for each line of eight that came in.
    assert outgoing == pytest.approx(sent + received / 8)
    assert (outgoing > sent).all()
