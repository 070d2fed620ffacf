"""Who may do what, and what the kernel shows of a machine."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from nftop.model.topology import Topology
from nftop.sim import scenario
from nftop.sim.layout import build
from tests.lab import machine
from tests.lab.files import topology_of
from tests.lab.resctrl import profile
from tests.lab.resctrl.hardware import hardware_of
from tests.lab.tests.hosts import (
    BOTH,
    ROOT,
    SMALL,
    USER,
    lab,
    number,
    two_groups,
)


def test_everybody_may_read_and_only_root_may_change() -> None:
    host = two_groups("7.2")
    assert host.cat("/a/schemata", USER) == host.cat("/a/schemata")
    for call in (
        lambda: host.echo("L3:0=f", "/a/schemata", USER),
        lambda: host.mkdir("/c", USER),
        lambda: host.rmdir("/a", USER),
        lambda: host.rename("/a", "/c", USER),
        lambda: host.echo("1", "/size"),
        lambda: host.echo("ok", "/info/last_cmd_status"),
        lambda: host.echo("1", "/mon_data/mon_L3_00/llc_occupancy"),
    ):
        assert number(call) == errno.EACCES
    assert number(lambda: host.cat("/info")) == errno.EISDIR
    assert {host.tree.lookup(path).mode for path in ("/size", "/info/L3/cbm_mask")} == {0o444}
    assert {host.tree.lookup(path).mode for path in ("/tasks", "/a/mode")} == {0o644}
    host.tree.mkdir("/a/mon_groups/m", 0o700, ROOT)
    modes = {
        path: host.tree.lookup(path).mode
        for path in ("/", "/info/L3", "/mon_data/mon_L3_00", "/a", "/a/mon_data", "/a/mon_groups/m")
    }
    assert list(modes.values()) == [0o555, 0o555, 0o555, 0o755, 0o755, 0o700]


def test_counters_can_not_be_assigned_on_intel() -> None:
    host = lab("7.2")
    path = "/info/L3_MON/mbm_assign_mode"
    host.echo("default", path)
    assert number(lambda: host.echo("mbm_event", path)) == errno.EINVAL
    assert host.status == "mbm_event mode is not supported"
    assert number(lambda: host.echo("x", path)) == errno.EINVAL
    assert host.status == "Unsupported assign mode"


def test_the_status_is_a_buffer_of_512_bytes() -> None:
    host = lab("6.1")
    for _ in range(40):
        assert number(lambda: host.echo("x", "/cpus_list")) == errno.EINVAL
    assert host.status == "\n".join(["Bad CPU list/mask"] * 28)
    assert len(host.status) < 512 < len(host.status) + len("\nBad CPU list/mask\n")


@BOTH
def test_options_that_nothing_here_has_are_refused(kernel: str) -> None:
    assert SMALL.allocation is not None
    for options, hardware in (
        (["cdpl2"], SMALL),
        (["cdp"], replace(SMALL, allocation=None)),
        (["cdp"], replace(SMALL, allocation=replace(SMALL.allocation, cdp=False))),
        (["mba_MBps"], replace(SMALL, monitoring=None)),
        (["mba_MBps"], replace(SMALL, bandwidth=None)),
    ):
        assert number(lambda o=options, h=hardware: lab(kernel, h, o)) == errno.EINVAL  # type: ignore[misc]
    nothing = replace(SMALL, allocation=None, bandwidth=None, monitoring=None)
    assert number(lambda: lab(kernel, nothing)) == errno.ENODEV


def topology() -> Topology:
    return build(scenario.load("default"), 16).topology


@pytest.mark.parametrize(
    ("name", "boot", "shown"),
    [
        ("skx-4", None, {"MB"}),
        ("skx-4", ["cmt", "mbmtotal", "mbmlocal", "l3cat", "mba"], {"MB", "L3", "L3_MON"}),
        ("skx-4", ["cmt"], {"MB", "L3_MON"}),
        ("skx-7", None, {"MB", "L3", "L3_MON"}),
        ("skx-7", [], {"MB", "L3_MON"}),
        ("icx", None, {"MB", "L3", "L3_MON"}),
    ],
)
def test_what_the_kernel_shows_of_a_machine(
    name: str, boot: list[str] | None, shown: set[str]
) -> None:
    hardware = hardware_of(machine.load(name).tables["resctrl"], topology(), boot=boot)
    host = lab("6.1", hardware)
    assert set(host.tree.names("/info")) == {*shown, "last_cmd_status"}
    assert ("mon_groups" in host.tree.names("/")) == ("L3_MON" in shown)
    host.mkdir("/a")
    if "L3" not in shown:
        # No room for a name that can't be there.
        assert host.cat("/schemata") == "MB:0=100;1=100\n"
        assert number(lambda: host.echo("exclusive", "/a/mode")) == errno.EINVAL
        assert host.status == "Cannot be exclusive without CAT/CDP"
    if "L3_MON" not in shown:
        assert number(lambda: host.mkdir("/a/x")) == errno.EPERM
    if boot == ["cmt"]:
        assert host.cat("/info/L3_MON/mon_features") == "llc_occupancy\n"
        assert host.tree.names("/a/mon_data/mon_L3_01") == ("llc_occupancy",)


def test_a_machine_s_clusters_divide_its_cores() -> None:
    table = machine.load("icx").tables["resctrl"]
    hardware = hardware_of(table, topology_of(machine.load("icx"), topology(), 2))
    assert hardware.node_of == (0, 1, 0, 1, 2, 3, 2, 3) * 2
    with pytest.raises(ValueError, match="rdt="):
        hardware_of(table, topology(), boot=["l2cat"])
    with pytest.raises(ValueError, match=r"Linux 5\.4"):
        profile.load("5.4")
