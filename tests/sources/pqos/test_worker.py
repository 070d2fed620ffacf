"""Monitors: followed, not begun where they would fail, and never a CPU out of its class."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.sources.pqos.protocol import MsrMetered
from nftop.sources.pqos.worker import Meters
from tests.sources.pqos.fake import Fake


def read(meters: Meters, fake: Fake) -> dict[tuple[int, int], MsrMetered]:
    return {(item.clos, item.cache): item for item in meters.read(fake.read_classes())}


def test_every_class_has_a_monitor_in_every_cache_and_counts_from_its_start() -> None:
    fake = Fake(class_of={**dict.fromkeys(range(8), 0), 1: 2, 2: 2}, moved=1000)
    meters = Meters(fake)
    first = read(meters, fake)
    assert sorted(first) == [(0, 0), (0, 2), (2, 0), (2, 2)]
    assert first[2, 0].values == {
        "llc_occupancy": 65536,
        "mbm_total_bytes": 0,
        "mbm_local_bytes": 0,
    }
    second = read(meters, fake)
    third = read(meters, fake)
    assert second[0, 0].values["mbm_total_bytes"] == 1000
    assert third[0, 0].values["mbm_total_bytes"] == 2000
    assert third[0, 0].values["mbm_local_bytes"] == 1000
    assert third[0, 0].read_at_ns >= second[0, 0].read_at_ns > 0
    meters.stop()
    assert set(fake.rmid_of.values()) == {0}


def test_monitors_follow_cpus_that_change_their_class_and_sums_go_on() -> None:
    fake = Fake(moved=1000)
    meters = Meters(fake)
    read(meters, fake)
    fake.class_of[1] = 3
    after = read(meters, fake)
    assert after[0, 0].values["llc_occupancy"] == 3 * 65536
    assert after[0, 0].values["mbm_total_bytes"] == 1000  # until it was stopped
    assert after[3, 0].values["mbm_total_bytes"] == 0
    assert fake.rmid_of[1] != fake.rmid_of[0]
    assert read(meters, fake)[0, 0].values["mbm_total_bytes"] == 2000


@pytest.mark.parametrize("taken", [{1: 7}, {0: 7, 1: 7, 4: 7, 5: 7}])
def test_what_another_program_meters_is_not_begun(
    taken: dict[int, int], snapshot: SnapshotAssertion
) -> None:
    fake = Fake()
    fake.rmid_of |= taken
    before = dict(fake.class_of)
    result = read(Meters(fake), fake)
    assert result[0, 0].why is not None
    assert result[0, 0].why[0] == "TAKEN"
    assert result[0, 0].why[1] == snapshot
    assert result[0, 2].why is None
    assert fake.starts == 1
    assert fake.class_of == before
    assert {cpu: fake.rmid_of[cpu] for cpu in taken} == taken


def test_without_a_free_rmid_nothing_is_begun(snapshot: SnapshotAssertion) -> None:
    fake = Fake(class_of={**dict.fromkeys(range(8), 0), 1: 1, 4: 2}, rmids_present=3)
    result = read(Meters(fake), fake)
    whys = {key: item.why[1] for key, item in result.items() if item.why is not None}
    assert list(whys) == [(2, 0)]
    assert whys[2, 0] == snapshot
    assert fake.starts == 3


def test_what_could_not_begin_is_tried_again_with_the_next_focus_only() -> None:
    """Each try asks every CPU beside the cache."""
    fake = Fake(fails=True)
    meters, read_paths = Meters(fake), fake.read_classes()
    first = meters.read(read_paths)
    assert meters.read(read_paths) == first
    assert fake.starts == 2
    fake.fails = False
    assert meters.read(read_paths) == first
    assert [item.why for item in meters.read(fake.read_classes())] == [None, None]


def test_a_start_that_fails_leaves_every_cpu_in_its_class(snapshot: SnapshotAssertion) -> None:
    """Though the binding's fault has moved them."""
    fake = Fake(class_of={cpu: cpu % 4 for cpu in range(8)}, misplaces=True)
    before = dict(fake.class_of)
    result = read(Meters(fake), fake)
    assert fake.starts == len(result) == 4
    assert fake.class_of == before
    why = result[1, 0].why
    assert why is not None
    assert why[0] == "ERROR"
    assert "CPU 1,5" in why[1]
    assert why[1] == snapshot


def test_a_monitor_that_fails_is_begun_anew() -> None:
    fake = Fake(moved=1000)
    meters = Meters(fake)
    read(meters, fake)
    fake.fails = True
    whys = [meter.why for meter in read(meters, fake).values()]
    assert all(why is not None and why[0] == "ERROR" for why in whys)
    assert set(fake.rmid_of.values()) == {0}
    fake.fails = False
    assert [meter.why for meter in read(meters, fake).values()] == [None, None]


def test_quiet_cpus_are_not_metered() -> None:
    fake = Fake()
    Meters(fake).read(fake.read_classes(quiet=(2, 3)))
    assert [cpu for cpu, rmid in fake.rmid_of.items() if not rmid] == [2, 3]
