"""RMIDs and what they count, whatever happens to the groups that have them."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from tests.lab.resctrl import counters
from tests.lab.tests.hosts import (
    BOTH,
    LOCAL,
    MIB,
    RATE,
    SCALE,
    SMALL,
    Lab,
    few,
    lab,
    number,
    two_groups,
)


@BOTH
def test_an_rmid_comes_back_when_the_cache_has_forgotten_it(kernel: str) -> None:
    host = lab(kernel, few(3))
    host.mkdir("/mon_groups/m")
    host.mkdir("/mon_groups/n")
    assert number(lambda: host.mkdir("/mon_groups/o")) == errno.ENOSPC
    assert host.status == "Out of RMIDs"
    host.echo("0-7", "/mon_groups/m/cpus_list")
    host.clock.forward(60.0)
    host.rmdir("/mon_groups/m")
    assert number(lambda: host.mkdir("/mon_groups/o")) == errno.EBUSY
    # 16 MiB go down to the threshold, a third of the cache, in 2.2 s at a time constant of 2 s.
    host.clock.forward(2.0)
    assert number(lambda: host.mkdir("/mon_groups/o")) == errno.EBUSY
    host.clock.forward(0.3)
    host.mkdir("/mon_groups/o")


@BOTH
def test_an_rmid_is_reused_with_more_rmids_than_cache_steps(kernel: str) -> None:
    host = lab(kernel, replace(few(8), size_bytes={0: 4 * SCALE, 1: 4 * SCALE}))
    assert host.cat("/info/L3_MON/max_threshold_occupancy") == f"{SCALE}\n"
    host.mkdir("/mon_groups/m")
    host.echo("0-7", "/mon_groups/m/cpus_list")
    host.clock.forward(60.0)
    host.rmdir("/mon_groups/m")
    pool = host.tree.state.pool
    assert pool is not None and len(pool.limbo) == 1
    host.clock.forward(60.0)
    for name in range(len(pool.free)):
        host.mkdir(f"/mon_groups/{name}")
    host.mkdir("/mon_groups/again")


@BOTH
def test_a_refused_group_costs_no_rmid(kernel: str) -> None:
    host = lab(kernel, few(6, closids=2))
    host.mkdir("/a")
    for _ in range(10):
        assert number(lambda: host.mkdir("/b")) == errno.ENOSPC
        assert host.status.splitlines()[-1] == "Out of CLOSIDs"
    for name in "abcd":
        host.mkdir(f"/mon_groups/{name}")


@pytest.mark.parametrize(("kernel", "at_once"), [("6.1", True), ("7.2", False)])
def test_an_rmid_that_held_nothing(kernel: str, at_once: bool) -> None:
    host = lab(kernel, few(2))
    host.mkdir("/mon_groups/m")
    host.rmdir("/mon_groups/m")
    if not at_once:
        assert number(lambda: host.mkdir("/mon_groups/n")) == errno.EBUSY
        host.clock.forward(1.0)
    host.mkdir("/mon_groups/n")


@BOTH
def test_a_threshold_of_nothing_never_frees_an_rmid(kernel: str) -> None:
    host = lab(kernel, few(2))
    host.mkdir("/mon_groups/m")
    host.echo("0-7", "/mon_groups/m/cpus_list")
    host.clock.forward(60.0)
    host.echo("65535", "/info/L3_MON/max_threshold_occupancy")
    assert host.cat("/info/L3_MON/max_threshold_occupancy") == "0\n"
    host.rmdir("/mon_groups/m")
    host.clock.forward(3600.0)
    assert number(lambda: host.mkdir("/mon_groups/m")) == errno.EBUSY
    path = "/info/L3_MON/max_threshold_occupancy"
    assert number(lambda: host.echo(f"{17 * MIB}", path)) == errno.EINVAL
    host.echo(f"{SCALE}", path)
    host.mkdir("/mon_groups/m")


def values(host: Lab, group: str, domain: int = 0) -> dict[str, int]:
    folder = f"{group}/mon_data/mon_L3_{domain:02d}"
    return {name: int(host.cat(f"{folder}/{name}")) for name in host.tree.names(folder)}


def steps(count: float) -> int:
    return int(count) // SCALE * SCALE


def test_traffic_follows_cpus_from_group_to_group() -> None:
    host = lab(at_s=10.0)
    host.mkdir("/a")
    host.clock.forward(1.0)
    host.echo("1", "/a/cpus_list")
    host.clock.forward(2.0)
    host.echo("1,4,6", "/a/cpus_list")
    host.clock.forward(4.0)
    host.echo("6", "/a/cpus_list")
    host.clock.forward(8.0)
    # CPUs 1 and 4 move 2 and 5 times RATE beside cache 0; CPU 6 moves 7 times beside cache 1.
    assert values(host, "/a")["mbm_total_bytes"] == steps(RATE * (2 * 6 + 5 * 4))
    assert values(host, "/a")["mbm_local_bytes"] == steps(RATE * LOCAL * (2 * 6 + 5 * 4))
    assert values(host, "/a", 1)["mbm_total_bytes"] == steps(RATE * 7 * 12)
    # The root group began at mount, and has what the others have not.
    everything = RATE * (1 + 2 + 5 + 6) * 15
    assert values(host, "")["mbm_total_bytes"] == steps(everything - RATE * (2 * 6 + 5 * 4))


def test_a_control_group_has_what_its_monitoring_groups_have_until_they_go() -> None:
    host = two_groups()
    host.mkdir("/a/mon_groups/m")
    host.echo("0", "/a/mon_groups/m/cpus_list")
    host.clock.forward(10.0)
    whole = values(host, "/a")["mbm_total_bytes"]
    component = values(host, "/a/mon_groups/m")["mbm_total_bytes"]
    assert (whole, component) == (steps(10 * RATE) + steps(10 * 2 * RATE), steps(10 * RATE))
    host.rmdir("/a/mon_groups/m")
    assert values(host, "/a")["mbm_total_bytes"] == whole - component
    host.mkdir("/a/mon_groups/m")
    assert values(host, "/a/mon_groups/m")["mbm_total_bytes"] == 0


def test_occupancy_drains_after_a_mask_shrank() -> None:
    host = two_groups()
    host.echo("0-1,4-5", "/a/cpus_list")
    host.clock.forward(100.0)
    assert values(host, "/a")["llc_occupancy"] == steps(16 * MIB)
    host.echo("L3:0=3", "/a/schemata")
    host.clock.forward(2.0)
    left = 16 * MIB * (2 / 11 + 9 / 11 / 2.718281828459045)
    assert values(host, "/a")["llc_occupancy"] == steps(left)
    host.clock.forward(100.0)
    assert values(host, "/a")["llc_occupancy"] == steps(16 * MIB * 2 / 11)


def test_counters_that_have_no_number_report_why() -> None:
    host = two_groups()
    host.mkdir("/a/mon_groups/m")
    host.echo("0", "/a/mon_groups/m/cpus_list")
    host.clock.forward(1.0)
    path = "/mon_data/mon_L3_00/mbm_total_bytes"
    counters.command(host.state, "/a/mon_groups/m 0 mbm_total_bytes Unassigned\n")
    assert host.cat(f"/a/mon_groups/m{path}") == "Unassigned\n"
    # As long as one of them has a number, their sum has.
    assert int(host.cat(f"/a{path}")) == steps(2 * RATE)
    counters.command(host.state, "/a 0 mbm_total_bytes Unavailable")
    assert host.cat(f"/a{path}") == "Unavailable\n"
    assert counters.commands(host.state).splitlines() == [
        "/a 0 mbm_total_bytes Unavailable",
        "/a/mon_groups/m 0 mbm_total_bytes Unassigned",
    ]
    counters.command(host.state, "/a 0 mbm_total_bytes number")
    counters.command(host.state, "/a/mon_groups/m 0 mbm_total_bytes number")
    assert int(host.cat(f"/a{path}")) == steps(RATE) + steps(2 * RATE)


@pytest.mark.parametrize(
    "text", ["", "/ 0 mbm_total_bytes Broken", "/ 2 mbm_total_bytes Error", "/ 0 mbm Error"]
)
def test_counters_are_reported_only_what_they_can_report(text: str) -> None:
    with pytest.raises(ValueError, match=r"never says|is not GROUP"):
        counters.command(lab().state, text)


def test_a_divided_cache_reports_its_nodes_and_their_sum() -> None:
    divided = replace(SMALL, node_of=(0, 1, 2, 3, 0, 1, 2, 3))
    host = lab("7.2", divided)
    host.clock.forward(10.0)
    assert host.cat("/info/L3_MON/num_rmids") == "88\n"
    sums = [
        int(host.cat(f"/mon_data/mon_L3_01/mon_sub_L3_{node:02d}/mbm_total_bytes"))
        for node in (2, 3)
    ]
    assert sums == [steps(RATE * 10 * (3 + 7)), steps(RATE * 10 * (4 + 8))]
    assert int(host.cat("/mon_data/mon_L3_01/mbm_total_bytes")) == sum(sums)
