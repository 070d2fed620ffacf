"""The live source on trees in a folder: what it gives, and the reason for what it does not."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.missing import Missing, Reason
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import ROOT, WORDS, IoWays, Limits, ResctrlTable
from nftop.session.live import BlockingSources
from nftop.sources.resctrl import monitor
from nftop.sources.resctrl import source as module
from nftop.sources.resctrl.files import read_as as read_as_it_is
from nftop.sources.resctrl.files import shared_lock
from nftop.sources.resctrl.tree import read_tasks
from tests.command import wording
from tests.sources.resctrl.trees import (
    HOST,
    MOUNT,
    cache,
    captured,
    group,
    group_files,
    make_anew,
    plain,
    read,
    sentence,
    source,
    write,
)


def test_groups_masks_limits_and_counters(tmp_path: Path) -> None:
    table = read(write(tmp_path, plain()))
    assert [item.name for item in table.groups] == [ROOT, "vpp"]
    vpp = group(table, "vpp")
    assert (vpp.cpus, vpp.mode, vpp.clos, vpp.rmid) == ((1, 2), "shareable", None, None)
    assert vpp.inode == (tmp_path / MOUNT / "vpp").stat().st_ino
    first, second = vpp.caches
    assert (first.cbm, first.code, first.mba) == (Cbm(0x0F0, 12), None, 50)
    assert (second.cbm, second.mba) == (Cbm(0xFFF, 12), 100)
    assert first.values == {
        "llc_occupancy": 2 << 20,
        "mbm_total_bytes": 2000,
        "mbm_local_bytes": 1000,
    }
    root = group(table, ROOT)
    assert (root.clos, root.rmid, root.cpus) == (0, 0, (0, 3, 4, 5, 6, 7))
    assert table.limits == Limits(8, 224, 1, None, False, 10, 10)
    assert (table.mba_unit, table.gaps) == ("percent", "")
    for domain in table.domains:
        assert (domain.ways, domain.size_bytes) == (12, 48 << 20)
        assert domain.io == IoWays(Cbm(0xC00, 12), "cpuid")
        assert domain.usage == "XXSSSSSSSSSS"


def test_the_mount_option_debug_shows_the_hardwares_numbers(tmp_path: Path) -> None:
    own = {"vpp/ctrl_hw_id": "3", "vpp/mon_hw_id": "17", "vpp/mon_groups/a/mon_hw_id": "18"}
    files = plain() | group_files("vpp/mon_groups/a/") | own
    vpp = group(read(write(tmp_path, files, "rw,debug")), "vpp")
    assert (vpp.clos, vpp.rmid, vpp.monitors[0].rmid) == (3, 17, 18)


def test_monitoring_groups_and_tasks(tmp_path: Path) -> None:
    files = plain() | group_files("vpp/mon_groups/rx/", used=7, moved=9)
    files |= {"vpp/mon_groups/rx/cpus_list": "2", "vpp/tasks": "12\n7", "tasks": "1\n2"}
    table = read(write(tmp_path, files))
    vpp = group(table, "vpp")
    [rx] = vpp.monitors
    assert (rx.name, rx.cpus) == ("rx", (2,))
    assert [item.l3 for item in rx.caches] == [0, 1]
    assert rx.caches[0].values["mbm_total_bytes"] == 9
    # Nobody looks at every thread there is for the root group, which has all the others.
    assert (vpp.tasks, group(table, ROOT).tasks) == ((7, 12), ())


def test_code_and_data_apart(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    table = read(write(tmp_path, captured("nomb.cdp"), "rw,cdp"))
    assert table.limits.cdp and table.limits.closids == 8
    mask = cache(table, ROOT, 3)
    assert mask.cbm == mask.code == Cbm(0x1FF, 20)
    assert sentence(mask.mba) == snapshot
    assert table.domains[0].usage == "HH000000000SSSSSSSSS"
    assert table.domains[0].io == IoWays(Cbm(0xC0000, 20), "cpuid")


def test_a_host_of_four_caches_with_kubernetes_groups(tmp_path: Path) -> None:
    table = read(write(tmp_path, captured("full")))
    assert [item.name for item in table.groups] == [ROOT, "Guaranteed", "goresctrl.Guaranteed"]
    assert [domain.l3 for domain in table.domains] == [0, 1, 2, 3]
    [empty, live] = group(table, "goresctrl.Guaranteed").monitors
    assert empty.name == "goresctrl.predefined_group_empty"
    assert live.name == "goresctrl.predefined_group_live"
    assert len(group(table, ROOT).cpus) == 192
    assert table.limits == Limits(8, 192, 1, None, False, 10, 10)
    assert cache(table, ROOT).values["llc_occupancy"] == 32440320
    assert live.caches[3].values["llc_occupancy"] == 0


def test_second_level_caches(tmp_path: Path) -> None:
    table = read(write(tmp_path, captured("l2l3mb")))
    [root] = table.groups
    assert len(root.l2) == 40
    assert (root.l2[39].l2, root.l2[39].cbm, root.l2[39].code) == (39, Cbm(0xFFFF, 16), None)
    assert table.limits == Limits(8, 512, 1, False, False, 10, 10)
    split = read(write(tmp_path / "cdp", captured("l2cdp"), "rw,cdpl2"))
    assert not split.limits.cdp, "that is the second level's"
    assert split.groups[0].l2[0].cbm == split.groups[0].l2[0].code == Cbm(0xFFFFF, 20)
    assert split.groups[0].caches[0].cbm == Cbm(0xFFF, 12)


def test_limits_in_mbps_and_a_host_without_allocation(tmp_path: Path) -> None:
    table = read(write(tmp_path, captured("nol3.mbps"), "rw,mba_MBps"))
    assert table.mba_unit == "MBps"
    free = cache(table, ROOT)
    assert sentence(free.mba) == "undefined: not limited"
    assert sentence(free.cbm).startswith("hardware: ")
    assert free.values["llc_occupancy"] == 32440320
    assert table.domains[0].ways is None
    assert isinstance(table.domains[0].io, Missing)


def test_amds_limits_are_eighths_of_gigabytes(tmp_path: Path) -> None:
    files = plain() | {"schemata": "MB:0=2048;1=2048\nL3:0=fff;1=fff"}
    root = write(tmp_path, files)
    cpuinfo = root / "proc/cpuinfo"
    cpuinfo.write_text(cpuinfo.read_text().replace("GenuineIntel", "AuthenticAMD"))
    table = read(root)
    assert (table.mba_unit, cache(table, ROOT).mba) == ("GBps/8", 2048)


def test_the_cpu_is_identified_once_and_not_at_every_tick(tmp_path: Path) -> None:
    """Linux 5.x interrupts CPUs when /proc/cpuinfo is opened."""
    root = write(tmp_path, plain() | {"schemata": "MB:0=2048;1=2048\nL3:0=fff;1=fff"})
    cpuinfo = root / "proc/cpuinfo"
    text = cpuinfo.read_text().replace("GenuineIntel", "AuthenticAMD")
    units = []
    reader = source(root)
    for present in (False, True, False):
        if present:
            cpuinfo.write_text(text)
        else:
            cpuinfo.unlink(missing_ok=True)
        table = reader.read()
        assert isinstance(table, ResctrlTable)
        units.append(table.mba_unit)
    assert units == ["percent", "GBps/8", "GBps/8"]  # what was not readable is read again


@pytest.mark.parametrize("word", WORDS)
def test_a_word_instead_of_a_number_is_its_reason(tmp_path: Path, word: str) -> None:
    file = "vpp/mon_data/mon_L3_01/mbm_total_bytes"
    values = cache(read(write(tmp_path, plain() | {file: word})), "vpp", 1).values
    assert values["mbm_total_bytes"] == WORDS[word]
    assert values["mbm_local_bytes"] == 1000


def test_one_monitor_that_fails_takes_no_other_with_it(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    root = write(tmp_path, plain())
    path = root / MOUNT / "vpp/mon_data/mon_L3_01/mbm_total_bytes"
    path.unlink()
    path.mkdir()  # reading it is an error
    (path.parent / "llc_occupancy").write_text("many\n")
    values = cache(read(root), "vpp", 1).values
    assert "error: " in sentence(values["mbm_total_bytes"])
    assert wording(sentence(values["llc_occupancy"]), tmp_path) == snapshot
    assert values["mbm_local_bytes"] == 1000


def test_events_that_are_not_metered_are_not_requested(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    files = plain() | {"info/L3_MON/mon_features": "llc_occupancy"}
    root = write(tmp_path, files)
    table = read(root)
    assert cache(table, "vpp").values["llc_occupancy"] == 2 << 20
    assert table.gaps == snapshot


def test_a_class_that_has_no_line_for_a_cache(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    files = plain() | {"vpp/schemata": "L3:1=f0", "vpp/mode": "pseudo-locked"}
    table = read(write(tmp_path, files))
    assert sentence(cache(table, "vpp").cbm) == snapshot
    assert sentence(cache(table, "vpp").mba) == snapshot
    assert (cache(table, "vpp", 1).cbm, group(table, "vpp").mode) == (
        Cbm(0xF0, 12),
        "pseudo-locked",
    )


def test_schemata_that_makes_no_sense_is_an_error_of_that_group_only(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    table = read(write(tmp_path, plain() | {"vpp/schemata": "L3:0=1f0f0;1=zz"}))
    assert sentence(cache(table, "vpp").cbm).startswith("error: ")
    assert cache(table, ROOT).cbm == Cbm(0xFFF, 12)
    wide = read(write(tmp_path, plain() | {"vpp/schemata": "L3:0=1f0f0;1=1"}))
    assert sentence(cache(wide, "vpp").cbm) == snapshot


def test_what_info_reports_wrong_is_noted(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    table = read(write(tmp_path, plain() | {"info/L3/bit_usage": "0=??"}))
    assert wording(table.gaps, tmp_path) == snapshot
    assert table.domains[0].usage == ""


def test_ways_of_io(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    none = read(write(tmp_path / "a", plain() | {"info/L3/shareable_bits": "0"}))
    assert sentence(none.domains[0].io) == snapshot
    files = plain() | {"info/L3/io_alloc": "enabled", "info/L3/io_alloc_cbm": "0=00f;1=0f0"}
    on = read(write(tmp_path / "b", files))
    assert [domain.io for domain in on.domains] == [
        IoWays(Cbm(0x00F, 12), "io_alloc"),
        IoWays(Cbm(0x0F0, 12), "io_alloc"),
    ]
    assert (none.limits.closids, on.limits.closids) == (8, 7), "I/O has a class of its own"
    off = read(write(tmp_path / "c", files | {"info/L3/io_alloc": "disabled"}))
    assert off.domains[0].io == IoWays(Cbm(0xC00, 12), "cpuid")
    assert [table.limits.io_alloc for table in (none, on, off)] == [None, True, False]


def test_the_register_is_queried_on_a_cpu_nftop_runs_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5, 6, 7})
    root = write(tmp_path, plain())
    for cpu, bits in ((5, 0x600), (2, 0x030), (6, 0x1000)):
        msr = root / f"dev/cpu/{cpu}/msr"
        msr.parent.mkdir(parents=True)
        msr.write_bytes(bytes(0xC8B) + bits.to_bytes(8, "little"))
    for table in (read(root, io_register=True, quiet_cpus=(5,)), read(root)):
        assert table.domains[0].io == IoWays(Cbm(0xC00, 12), "cpuid")
    table = read(root, io_register=True)
    assert table.domains[0].io == IoWays(Cbm(0x600, 12), "register")
    # 0x1000 is no way of this cache, and CPU 2, where nftop does not run, is left alone.
    assert table.domains[1].io == IoWays(Cbm(0xC00, 12), "cpuid")
    (root / "dev/cpu/6/msr").write_bytes(bytes(0xC8B + 4))
    assert read(root, io_register=True).domains[1].io == IoWays(Cbm(0xC00, 12), "cpuid")
    (root / "dev/cpu/5/msr").unlink()
    (root / "dev/cpu/5/msr").mkdir()  # it opens, and reading it is an error
    assert read(root, io_register=True).domains[0].io == IoWays(Cbm(0xC00, 12), "cpuid")


def test_nodes_of_a_divided_cache(tmp_path: Path) -> None:
    nodes = {
        f"mon_data/mon_L3_0{l3}/mon_sub_L3_0{node}/llc_occupancy": "1"
        for l3, node in ((0, 0), (0, 1), (1, 2), (1, 3))
    }
    table = read(write(tmp_path, plain() | nodes))
    assert [domain.parts for domain in table.domains] == [(0, 1), (2, 3)]
    assert cache(table, ROOT).values["llc_occupancy"] == 1 << 20, "of all nodes, in one read"


def test_a_group_recreated_while_it_is_read_has_no_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    root = write(tmp_path, plain())
    plain_read = read_as_it_is
    done: list[str] = []

    def read_as(path: str, parse: object) -> object:
        if "/vpp/" in path and not done:
            done.append(path)
            make_anew(root / MOUNT / "vpp", plain())
        return plain_read(path, parse)  # type: ignore[arg-type]

    monkeypatch.setattr(monitor, "read_as", read_as)
    table = read(root)
    assert done
    for l3 in (0, 1):
        (gone,) = set(cache(table, "vpp", l3).values.values())
        assert isinstance(gone, Missing) and gone.reason is Reason.RESET
        assert gone.message == snapshot
    assert cache(table, ROOT).values["mbm_total_bytes"] == 1000


def test_a_group_that_comes_and_goes(tmp_path: Path) -> None:
    root = write(tmp_path, plain())
    reader = source(root)
    first = reader.read()
    assert isinstance(first, ResctrlTable)
    make_anew(root / MOUNT / "vpp", plain())
    second = reader.read()
    assert isinstance(second, ResctrlTable)
    assert group(first, "vpp").inode != group(second, "vpp").inode
    (root / MOUNT / "vpp").rename(root / "away")
    third = reader.read()
    assert isinstance(third, ResctrlTable) and len(third.groups) == 1


def test_a_group_name_is_untrusted_text(tmp_path: Path) -> None:
    evil = "\x1b[2J\n[red]\udcff"
    root = write(tmp_path, plain())
    (root / MOUNT / "vpp").rename(root / MOUNT / evil)
    table = read(root)
    assert table.groups[1].name == "\x1b[2J\n[red]\\xff"
    assert table.groups[1].caches[0].values["mbm_total_bytes"] == 2000


def test_quiet_cpus_are_not_disturbed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 4})
    root = write(tmp_path, plain())
    table = read(root, quiet_cpus=(2, 0))
    assert [domain.read_on for domain in table.domains] == [4, None]
    assert cache(table, "vpp").values["mbm_total_bytes"] == 2000
    assert sentence(cache(table, "vpp", 1).values["llc_occupancy"]) == snapshot
    assert cache(table, "vpp", 1).cbm == Cbm(0xFFF, 12), "which costs nobody anything"


def test_tasks_are_read_as_seldom_as_they_are_dear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write(tmp_path, plain())
    at_ns, requests = [0], []
    plain_tasks = read_tasks

    def slow(tree: object) -> object:
        requests.append(at_ns[0])
        at_ns[0] += 10_000_000
        return plain_tasks(tree)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "read_tasks", slow)
    reader = source(root, clock=lambda: at_ns[0])
    for second in range(4):
        at_ns[0] = round(second * 0.2e9)
        assert isinstance(reader.read(), ResctrlTable)
    assert requests == [0, 600_000_000], "at most 2 % of the time"


def test_tasks_that_may_be_old_are_reported_as(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, at_ns = write(tmp_path, plain()), [0]

    def slow(tree: object) -> object:
        at_ns[0] += 90_000_000
        return read_tasks(tree)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "read_tasks", slow)
    reader = source(root, clock=lambda: at_ns[0])
    seen = []
    for second in (0, 2, 3, 5):
        at_ns[0] = second * 10**9 + 1
        table = reader.read()
        assert isinstance(table, ResctrlTable)
        seen.append(table.gaps)
    message = "which thread is in which class is {} s old: read every 4 s, as it is expensive"
    assert seen == ["", "", message.format(3), ""]


def test_counters_are_read_once_a_second_however_fast_the_ticks_are(tmp_path: Path) -> None:
    root = write(tmp_path, plain() | group_files("vpp/mon_groups/rx/"))
    at_ns = [0]
    reader = source(root, clock=lambda: at_ns[0])
    seen = []
    for tick in range(6):
        at_ns[0] = tick * 400_000_000 + 1
        (root / MOUNT / "vpp/mon_data/mon_L3_00/mbm_total_bytes").write_text(f"{tick}\n")
        (root / MOUNT / "vpp/cpus_list").write_text(f"{tick}\n")
        table = reader.read()
        assert isinstance(table, ResctrlTable)
        vpp = group(table, "vpp")
        seen.append((vpp.cpus, vpp.caches[0].values["mbm_total_bytes"], vpp.caches[0].read_at_ns))
    assert seen == [
        ((tick,), counted, counted * 400_000_000 + 1)
        for tick, counted in enumerate((0, 0, 2, 2, 4, 4))
    ]


def test_cpus_disturbed_by_counter_reads_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[str] = []

    def noting(path: str, parse: Callable[[str], int]) -> int | Missing:
        requests.append(path)
        return read_as_it_is(path, parse)

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 4})
    monkeypatch.setattr(monitor, "read_as", noting)
    reader = source(write(tmp_path, plain()))
    for _ in range(2):
        assert isinstance(reader.read(), ResctrlTable)
        assert reader.counter_reads == len(requests) > 0
        # This thread runs beside cache 0 anyway.
        assert reader.counter_interrupts == sum("mon_L3_01" in path for path in requests) > 0


def test_a_group_that_is_new_between_two_reads_of_the_counters_has_to_wait(tmp_path: Path) -> None:
    root = write(tmp_path, plain() | group_files("vpp/mon_groups/rx/"))
    reader = source(root, clock=lambda: 1)
    reader.read()
    make_anew(root / MOUNT / "vpp", plain())
    write(root, group_files("new/"))
    table = reader.read()
    assert isinstance(table, ResctrlTable)
    for name in ("vpp", "new"):
        why = "warming: a new group: counters are read once a second at most"
        assert sentence(cache(table, name, 1).values["mbm_total_bytes"]) == why
    assert cache(table, ROOT).values["mbm_total_bytes"] == 1000
    reader.close()
    again = reader.read()
    assert isinstance(again, ResctrlTable)
    assert cache(again, "new").values["mbm_total_bytes"] == 0


def test_counters_have_their_own_time(tmp_path: Path) -> None:
    root = write(tmp_path, plain())
    ticking = iter(range(1, 1_000_000))
    table = read(root, clock=lambda: next(ticking))
    times = [item.read_at_ns for name in (ROOT, "vpp") for item in group(table, name).caches]
    assert len(set(times)) == 4 and all(times)


def test_a_kernel_that_knows_nothing_of_clusters_is_reported_on(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    cpus = tuple(replace(info, node=info.cpu % 2) for info in HOST.cpus)
    table = read(write(tmp_path, plain()), replace(HOST, cpus=cpus))
    assert table.gaps == snapshot


def test_not_mounted_absent_not_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    root = write(tmp_path, plain())
    reader = source(root)
    (root / "proc/mounts").write_text("proc /proc proc rw 0 0\n")
    assert sentence(reader.read()) == snapshot
    (root / "proc/filesystems").write_text("nodev\tproc\n")
    assert sentence(reader.read()) == snapshot
    (root / "proc/filesystems").write_text("nodev\tresctrl\n")
    assert sentence(reader.read()).startswith("hardware:")  # of a moment ago
    reader.close()
    write(root, {})
    (root / MOUNT).rename(root / "unmounted")
    assert sentence(reader.read()) == snapshot
    (root / "unmounted").rename(root / MOUNT)

    def refuse(_: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("nftop.sources.resctrl.files.shared_lock", refuse)
    assert sentence(reader.read()) == snapshot


def test_a_counter_that_hangs_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    """As where the kernel's worker has to wait for a poller of real-time priority."""
    root = write(tmp_path, plain())
    go_on = threading.Event()

    def hang(path: str, parse: Callable[[str], object]) -> object:
        go_on.wait()
        return read_as_it_is(path, parse)

    monkeypatch.setattr(monitor, "read_as", hang)
    worker = BlockingSources([source(root)])
    try:
        worker.request()
        worker.wait(0.0)
        assert sentence(worker.latest["resctrl"].value) == snapshot
        with shared_lock(str(root / MOUNT)) as lock:
            assert lock.held
        go_on.set()
        worker.wait(60.0)
        assert isinstance(worker.latest["resctrl"].value, ResctrlTable)
    finally:
        go_on.set()
        worker.close()


def test_reading_changes_nothing(tmp_path: Path) -> None:
    root = write(tmp_path, plain() | group_files("vpp/mon_groups/a/"))
    reader = source(root)

    def picture() -> dict[str, tuple[str, int]]:
        return {
            str(path): (path.read_text() if path.is_file() else "", path.stat().st_mtime_ns)
            for path in (root / MOUNT).rglob("*")
        }

    before = picture()
    for _ in range(3):
        assert isinstance(reader.read(), ResctrlTable)
        reader.check()
    reader.close()
    reader.close()
    assert picture() == before
