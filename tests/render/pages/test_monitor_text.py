"""Cache and memory traffic by core, thread, process and monitoring group."""

from __future__ import annotations

from dataclasses import replace

from nftop.model.frame import Frame, MonitorRow
from nftop.model.ids import Cpu, L3Domain
from nftop.render.pages.batch_text import monitor_text
from tests.frames import frame
from tests.sim.hosts import Frozen, S

MIB = 2.0**20


def shown(frame: Frame) -> list[list[str]]:
    return [item.text.split() for item in monitor_text(frame, 240)]


def rows(frame: Frame, by: str) -> list[list[str]]:
    return [words for words in shown(frame) if words[:1] == [by]]


def test_every_polling_core_thread_and_process_has_a_line() -> None:
    host = Frozen()
    host.tick(3 * S)
    frame = host.tick(S)
    threads = [thread for nf in frame.nfs for thread in nf.threads]
    assert [int(row[1]) for row in rows(frame, "core")] == sorted(t.cpu for t in threads)
    assert {int(row[1]) for row in rows(frame, "thread")} == {thread.tid for thread in threads}
    assert {int(row[1]) for row in rows(frame, "process")} == {nf.pid for nf in frame.nfs}
    assert rows(frame, "group") == []
    assert all(row[-3:] == ["-", "-", "-"] for row in rows(frame, "core"))


def test_what_is_monitored_has_its_numbers_and_the_group_its_own_line() -> None:
    host = Frozen()
    host.tick(3 * S)
    frame = host.tick(S)
    counted = {
        "occupancy_bytes": 3 * MIB,
        "memory_local_bytes_per_s": 2e9,
        "memory_remote_bytes_per_s": 1e9,
    }
    nf = frame.nfs[0]
    first = replace(
        nf.threads[0],
        monitor="vpp/nftop.m",
        occupancy_bytes=3 * MIB,
        memory_local_bytes_per_s=2e9,
        memory_remote_bytes_per_s=1e9,
    )
    nf = replace(nf, threads=(first, *nf.threads[1:]), readings={**nf.readings, **counted})
    readings = {
        "occupancy_bytes": 3 * MIB,
        "mbm_total_bytes_per_s": 3e9,
        "mbm_local_bytes_per_s": 2e9,
    }
    monitor = MonitorRow("nftop.m", 5, (Cpu(1),), "nftop", {L3Domain(0): readings}, (4,))
    group = next(item for item in frame.groups if item.name == "vpp")
    frame = replace(frame, nfs=(nf,), groups=(replace(group, monitors=(monitor,)),))
    for by, number in (("core", first.cpu), ("thread", first.tid), ("process", nf.pid)):
        [row] = [row for row in rows(frame, by) if row[1] == str(number)]
        assert row[-3:] == ["3.0", "2.00", "1.00"], by
        assert "vpp/nftop.m" in row
    [row] = rows(frame, "group")
    assert row[-3:] == ["3.0", "2.00", "1.00"]
    assert {"RMID", "5", "vpp:nftop.m", "thread"} <= set(row)


def test_a_simulated_host_is_marked_and_another_is_not() -> None:
    simulated = frame(8, 0, simulated=True)
    assert monitor_text(simulated, 120)[0].text.strip() == simulated.host.badge != ""
    assert simulated.host.badge not in "".join(item.text for item in monitor_text(frame(8), 120))
