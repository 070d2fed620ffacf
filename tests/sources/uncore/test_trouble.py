"""Boxes on a kernel that gives trouble on demand."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest

from nftop.model.missing import Missing, Reason
from nftop.sources.base import RETRY_AFTER_NS
from tests.sources.trees import put
from tests.sources.uncore.bench import SECOND, SKX, Bench, rates, reasons
from tests.sources.uncore.kernel import FakeUncore


def test_a_box_that_one_package_lacks_is_not_missed(tmp_path: Path) -> None:
    """The PMU of its number is there for the other package's sake."""

    def refuse(pmu: str, package: int) -> int:
        return errno.EINVAL if (pmu, package) == ("uncore_upi_1", 1) else 0

    bench = Bench(FakeUncore(tmp_path, SKX, refuse=refuse))
    bench.tick()
    before, after = bench.tick(), bench.tick()
    assert after.gaps == ""
    first, second = rates(bench.fake, before, after)
    assert [link.number for link in first.links] == [0, 1]
    assert [link.number for link in second.links] == [0]
    assert second.readings["upi.sent_bytes_per_s"] == second.links[0].out_bytes_per_s


def test_a_unit_that_is_refused_altogether_is(tmp_path: Path) -> None:
    fake = FakeUncore(
        tmp_path, SKX, refuse=lambda pmu, package: errno.EINVAL if "upi" in pmu else 0
    )
    read = Bench(fake).tick()
    assert reasons(read, "link_data_sent", 0) == {Reason.HARDWARE}
    assert "refuses every event" in read.details["link_data_sent"][Reason.HARDWARE]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (errno.EACCES, Reason.PERMISSION),
        (errno.EPERM, Reason.PERMISSION),
        (errno.ENOSYS, Reason.HARDWARE),
    ],
)
def test_without_the_privilege_it_is_queried_once_and_again_later(
    tmp_path: Path, code: int, reason: Reason
) -> None:
    allowed: list[bool] = []
    fake = FakeUncore(tmp_path, SKX, refuse=lambda pmu, package: 0 if allowed else code)
    bench = Bench(fake)
    read = bench.read()
    assert isinstance(read, Missing) and read.reason is reason
    assert fake.opens == 1
    assert bench.read() == read and fake.opens == 1
    allowed.append(True)
    assert bench.tick(RETRY_AFTER_NS).gaps == ""


def test_too_few_descriptors_keep_none(tmp_path: Path) -> None:
    """A sum of some boxes would be no sum, and others need descriptors too."""
    bench = Bench(FakeUncore(tmp_path, SKX, fd_limit=50))
    read = bench.read()
    assert isinstance(read, Missing) and read.reason is Reason.ERROR
    assert "ulimit -n" in read.message
    assert not bench.fake.fds
    bench.fake.fd_limit = 10_000
    assert bench.tick(RETRY_AFTER_NS).gaps == ""


def test_a_box_that_can_t_be_opened_takes_its_sums_with_it_and_is_tried_again(
    tmp_path: Path,
) -> None:
    codes = {"uncore_imc_1": errno.EBUSY}
    fake = FakeUncore(tmp_path, SKX, refuse=lambda pmu, package: codes.get(pmu, 0))
    bench = Bench(fake)
    bench.tick()
    row = rates(fake, bench.tick(), bench.tick())[0]
    lost = row.readings["memory.read_bytes_per_s"]
    assert isinstance(lost, Missing) and lost.reason is Reason.TAKEN
    assert isinstance(row.channels[0].in_bytes_per_s, float)
    assert isinstance(row.channels[1].in_bytes_per_s, Missing)
    codes.clear()
    assert bench.tick(RETRY_AFTER_NS).gaps == ""


def test_a_read_that_fails_is_reported_and_the_box_opened_again_later(tmp_path: Path) -> None:
    bench = Bench(FakeUncore(tmp_path, SKX))
    bench.tick()
    bench.fake.read_errno["uncore_cha_2"] = errno.EIO
    for read in (bench.tick(), bench.tick()):
        assert Reason.ERROR in reasons(read, "itom_hit", 0)
        assert reasons(read, "cas_read", 0) == {Reason.PRESENT}
    bench.fake.read_errno.clear()
    assert bench.tick(RETRY_AFTER_NS).gaps == ""


def test_counting_goes_on_when_the_cpu_of_the_mask_goes_offline(tmp_path: Path) -> None:
    bench = Bench(FakeUncore(tmp_path, SKX))
    before, opens = bench.tick(), bench.fake.opens
    bench.fake.online.discard(2)
    bench.fake.write_online()
    after = bench.tick()
    assert bench.fake.opens == opens and after.gaps == ""
    assert np.array_equal(before.boxes, after.boxes)
    assert {opened.box.cpu for opened in bench.counters.boxes} == {0, 3}


def test_a_package_that_goes_and_comes_back_is_followed(tmp_path: Path) -> None:
    bench = Bench(FakeUncore(tmp_path, SKX))
    whole = len(bench.tick().values)
    bench.fake.online -= {2, 3}
    bench.fake.write_online()
    half = bench.tick()
    assert set(half.packages[half.reasons == 0]) == {0}
    assert all(bench.fake.fds[fd].cpu == 0 for fd in bench.fake.fds)
    bench.fake.online |= {2, 3}
    bench.fake.write_online()
    read = bench.tick()
    assert len(read.values) == whole and read.gaps == ""


def test_events_that_left_their_group_are_a_restart(tmp_path: Path) -> None:
    """The kernel took them out before sysfs told of it."""
    bench = Bench(FakeUncore(tmp_path, SKX))
    bench.tick()
    for fd in bench.fake.fds.values():
        if fd.cpu == 2:
            fd.members.clear()
    read = bench.tick()
    assert reasons(read, "cas_read", 1) == {Reason.RESET}
    assert reasons(read, "cas_read", 0) == {Reason.PRESENT}
    assert bench.tick().gaps == ""


def test_a_quiet_cpu_s_package_is_left_alone(tmp_path: Path) -> None:
    bench = Bench(FakeUncore(tmp_path, SKX), quiet=[2])
    read = bench.tick()
    assert reasons(read, "cas_read", 1) == {Reason.SOURCE}
    assert "--quiet-cpus" in read.details["cas_read"][Reason.SOURCE]
    assert reasons(read, "cas_read", 0) == {Reason.PRESENT}
    assert {fd.cpu for fd in bench.fake.fds.values()} == {0}
    everywhere = Bench(FakeUncore(tmp_path / "other", SKX), quiet=[0, 2]).read()
    assert isinstance(everywhere, Missing) and everywhere.reason is Reason.SOURCE


def test_a_poller_on_the_counting_cpu_is_reported(tmp_path: Path) -> None:
    bench = Bench(FakeUncore(tmp_path, SKX))
    bench.counters.set_pollers([1, 2, 3])
    assert "CPU 2 polls" in bench.tick().gaps
    bench.counters.set_pollers([1, 3])
    assert bench.tick().gaps == ""


def test_dies_of_one_package_are_added_up_or_left_out_together(tmp_path: Path) -> None:
    """Two dies in package 0: each has a box of every number, counted on a CPU of its own."""

    def two_dies(root: Path) -> FakeUncore:
        fake = FakeUncore(root, SKX)
        for cpu in range(4):
            ids = {"physical_package_id": "0", "die_id": str(cpu // 2)}
            put(root / f"sys/devices/system/cpu/cpu{cpu}/topology", ids)
        return fake

    fake = two_dies(tmp_path)
    counters = Bench(fake).counters
    counters.read()
    fake.pass_ns(SECOND)
    before = counters.read()
    fake.pass_ns(SECOND)
    after = counters.read()
    (row,) = rates(fake, before, after)
    whole = 64e9 * sum(fake.expected("cas_read", box, die) for box in (0, 1) for die in (0, 1))
    assert row.readings["memory.read_bytes_per_s"] == pytest.approx(whole)
    assert [channel.number for channel in row.channels] == [0, 1]
    fake.online.discard(0)
    fake.write_online()
    opens = fake.opens
    counters.read()
    assert fake.opens == opens
    quiet = Bench(two_dies(tmp_path / "quiet"), quiet=[2]).counters.read()
    assert isinstance(quiet, Missing) and "--quiet-cpus" in quiet.message
