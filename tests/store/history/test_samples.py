"""Samples of network functions and cache classes: what counts as new, and what is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from nftop.derive.compare.window import CLOCKS, core_values, sample_of
from nftop.model.frame import Frame, NfRow, SourceState
from nftop.model.ids import L3Domain
from nftop.model.missing import Missing, Reason
from nftop.model.rdt.rdt import ResctrlTable
from nftop.store.history.rings import TickHistory
from tests.frames import START_NS, frame, nic_drops, with_cells
from tests.rdt import MIB, frame_of, group, in_cache, table
from tests.sources.resctrl.trees import group_files, read, write
from tests.story import Story

FWD = "4242:1"
VPP = ("vpp", L3Domain(0))


def nf_sample(frame: Frame, nf: NfRow) -> list[float]:
    return sample_of(nf, *core_values(frame.cpus, (nf,)))


def read_at(base: Frame, tick: float) -> Frame:
    """The DPDK source was read at `tick`, whatever tick the frame is."""
    age_s = (base.monotonic_ns - START_NS) / 1e9 - tick
    dpdk = SourceState(Reason.PRESENT, "", age_s, 0.001)
    return replace(base, sources={**base.sources, "dpdk": dpdk})


def kept(*frames: Frame) -> TickHistory:
    history = TickHistory()
    for item in frames:
        history.append(item)
    return history


def test_a_reading_that_is_shown_again_is_not_new() -> None:
    frames = [read_at(frame(8, tick), tick // 3 * 3) for tick in range(1, 10)]
    track = kept(*frames).window(frames[-1]).nfs
    assert track.new(FWD).tolist() == [tick in (1, 3, 6, 9) for tick in range(1, 10)]
    assert not track.new("nobody").any()
    assert np.isnan(track.of("nobody", "cpp")).all()


def test_misses_counted_in_turns_are_present_once() -> None:
    frames = [
        with_cells(frame(8, tick), "llc_misses_per_packet", {1: tick // 4 + 1.0, 2: 5.0})
        for tick in range(1, 9)
    ]
    misses = kept(*frames).window(frames[-1]).nfs.of(FWD, "llc_misses_per_packet")
    assert np.isfinite(misses).tolist() == [tick in (1, 4, 8) for tick in range(1, 9)]


def test_only_what_was_before_a_frame_is_in_its_window() -> None:
    story = Story()
    frames = list(story.frames(20))
    for at in (0, 9, 19):
        window = story.history.window(frames[at])
        for track in (window.nfs, window.caches, window.classes):
            assert track.times_ns[-1] == frames[at].monotonic_ns
            assert len(track.times_ns) == at + 1


def test_counters_that_were_not_read_again_are_not_new_and_are_drawn_on() -> None:
    def of(tick: int) -> Frame:
        read_at_ns = tick // 2 * 2 * 1_000_000_000
        mine = in_cache(0, 0xF0, tick // 2 * MIB, 0, read_at_ns=read_at_ns)
        one = frame_of(table(groups=(group("vpp", 1, (1,), mine),)))
        at = frame(8, tick)
        return replace(one, monotonic_ns=at.monotonic_ns, interval_s=1.0)

    frames = [of(tick) for tick in range(2, 8)]
    history = kept(*frames)
    assert history.window(frames[-1]).caches.new(VPP).tolist() == [True, False] * 3
    drawn = history.class_series("occupancy_bytes", VPP, 6, 6.0) / MIB
    assert drawn.tolist() == [1, 1, 2, 2, 3, 3]


def test_without_classes_or_network_functions_nothing_is_kept() -> None:
    none = replace(frame(8), nfs=())
    window = kept(none).window(none)
    assert len(window.nfs.times_ns) == len(window.caches.times_ns) == 0
    assert np.isnan(kept(none).class_series("occupancy_bytes", VPP, 3, 3.0)).all()


def test_a_network_functions_sample() -> None:
    base = with_cells(frame(8), "llc_misses_per_packet", {1: 2.0, 2: 4.0})
    base = with_cells(base, "packets_per_s", {1: 3e6, 2: 1e6})
    fwd, vpp = base.nfs
    lossy = {**fwd.readings, **nic_drops(5e5)}
    packets, offered, drops, cpp, busy_cpp, ipc, misses, full, clock = nf_sample(
        base, replace(fwd, readings=lossy)
    )
    assert (packets, offered, drops) == (14.892e6, 14.892e6 + 5e5, 5e5)
    assert (cpp, busy_cpp, full, CLOCKS[int(clock)]) == (376.0, 281.5, 0.0, "core")
    assert ipc == np.median([base.cpus.columns["ipc"][1], base.cpus.columns["ipc"][2]])
    assert misses == (2.0 * 3 + 4.0 * 1) / 4
    upcalls = {**lossy, "drop_packets_per_s": 5e5 + 3900}
    assert nf_sample(base, replace(fwd, readings=upcalls))[1:3] == [14.892e6 + 5e5, 5e5 + 3900]
    partly_known = {**upcalls, "missed_packets_per_s": Missing(Reason.SOURCE)}
    sample = nf_sample(base, replace(fwd, readings=partly_known))
    assert sample[1] == 14.892e6 and np.isnan(sample[2]), "the known part alone is no series"
    sends = nf_sample(base, replace(fwd, direction="tx", readings=lossy))
    assert sends[:2] == [14.89e6, 14.89e6], "what it could not take in is not what it sends"
    unreported = nf_sample(base, replace(vpp, saturated=None, cpp_clock=None))
    assert np.isnan([unreported[7], unreported[8], unreported[6]]).all()
    partly = with_cells(base, "ipc", {2: Missing(Reason.TAKEN)})
    assert np.isnan(nf_sample(partly, fwd)[5]), "a part is not passed off as the whole"


def test_ipc_of_a_class_is_new_after_its_source_was_read_again() -> None:
    """A sensor server has a number a second, however many ticks there are in that."""
    frames = []
    for at, base in enumerate(Story().frames(9)):
        cpus = replace(base.cpus, origins={"ipc": ("pcm",) * len(base.cpus)})
        server = SourceState(Reason.PRESENT, "", float(at % 3), 0.001)
        frames.append(replace(base, cpus=cpus, sources={**base.sources, "pcm": server}))
    window = kept(*frames).window(frames[-1])
    keys = [key for key in window.classes.rows if np.isfinite(window.classes.of(key, "ipc")).any()]
    assert keys
    for key in keys:
        assert window.classes.new(key).tolist() == [at % 3 == 0 for at in range(9)]
    (nf,) = {nf.key for nf in frames[0].nfs[:1]}
    assert np.isfinite(window.nfs.of(nf, "packets_per_s")).all()
    assert np.isfinite(window.nfs.of(nf, "ipc")).tolist() == [at % 3 == 0 for at in range(9)]


def l2_only() -> Mapping[str, str]:
    """A resctrl tree with L2 CAT and nothing of the last-level cache."""
    info = {"info/L2/cbm_mask": "ff", "info/L2/min_cbm_bits": "1", "info/L2/num_closids": "8"}
    groups = {
        path: "L2:0=ff;1=ff" if path.endswith("schemata") else text
        for where in ("", "vpp/")
        for path, text in group_files(where).items()
        if "mon_" not in path
    }
    return info | groups | {"cpus_list": "0-7"}


def test_a_host_with_classes_and_no_metered_cache_has_a_history(tmp_path: Path) -> None:
    table = read(write(tmp_path, l2_only()))
    classes = frame_of(table, table)
    assert [item.caches for item in classes.groups] == [(), ()]
    history = kept(classes)
    assert len(history.window(classes).nfs.times_ns) == 1
    # Caches that come later have their ticks.
    later = replace(frame_of(*[table] * 3), groups=frame_of(*tables()).groups)
    history.append(later)
    assert len(history.window(later).caches.times_ns) == 1
    history.append(frame_of(*[table] * 4))
    assert len(history.window(later).caches.times_ns) == 1


def tables() -> tuple[ResctrlTable, ResctrlTable]:
    vpp = group("vpp", 1, (1,), in_cache(0, 0xF0, MIB))
    return table(groups=(vpp,)), table(groups=(vpp,))
