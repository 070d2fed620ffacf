"""io_alloc in the lab, as `fs/resctrl/ctrlmondata.c` of Linux 6.19 to 7.2 has it."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from tests.lab.resctrl.hardware import Hardware
from tests.lab.tests.hosts import SMALL, Lab, lab, number

IO, CBM = "/info/L3/io_alloc", "/info/L3/io_alloc_cbm"


def offered(closids: int = 4, options: tuple[str, ...] = (), kernel: str = "7.2") -> Lab:
    return lab(kernel, hardware(closids), options)


def hardware(closids: int, of_bandwidth: int = 4) -> Hardware:
    assert SMALL.allocation is not None
    assert SMALL.bandwidth is not None
    return replace(
        SMALL,
        allocation=replace(SMALL.allocation, io_alloc=True, closids=closids),
        bandwidth=replace(SMALL.bandwidth, closids=of_bandwidth),
    )


def test_only_some_kernels_and_processors_have_it() -> None:
    assert number(lambda: lab("7.2").cat(IO)) == errno.ENOENT
    assert number(lambda: offered(kernel="6.1").cat(IO)) == errno.ENOENT
    host = offered()
    assert host.cat(IO) == "disabled\n"
    assert number(lambda: host.cat(CBM)) == errno.EINVAL
    assert host.status == "io_alloc is not enabled on L3"
    assert number(lambda: host.echo("0=1", CBM)) == errno.EINVAL


def test_switched_on_it_has_the_highest_class_and_every_way() -> None:
    host = offered()
    for name in ("a", "b"):
        host.mkdir(f"/{name}")
    host.echo("1", IO)
    assert (host.cat(IO), host.cat(CBM)) == ("enabled\n", "0=7ff;1=7ff\n")
    assert number(lambda: host.mkdir("/c")) == errno.ENOSPC
    assert host.status == "Out of CLOSIDs"
    host.echo("0", IO)
    host.mkdir("/c")
    assert number(lambda: host.echo("1", IO)) == errno.ENOSPC
    assert host.status == "CLOSID (ctrl_hw_id) 3 for io_alloc is used by c group"
    host.rmdir("/a")
    assert number(lambda: host.echo("on", IO)) == errno.ENOSPC, "another class is free, not that"


def test_without_as_many_classes_in_all_resources_it_can_not_be_switched_on() -> None:
    host = lab("7.2", hardware(16, of_bandwidth=8))
    assert number(lambda: host.echo("1", IO)) == errno.EINVAL
    assert host.status == "io_alloc CLOSID (ctrl_hw_id) 15 is not available"
    host.echo("0", IO)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("0=0", "Mask out of range"),
        ("0=800", "Mask out of range"),
        ("0=5", "The mask 5 has non-consecutive 1-bits"),
        ("0=x", "Non-hex character in the mask x"),
        ("2=1", "Invalid domain 2"),
        ("0=1;0=3", "Duplicate domain 0"),
        ("1", "Missing '=' or non-numeric domain"),
        ("1=30", "Overlaps with exclusive group"),
    ],
)
def test_masks_have_the_rules_of_a_class(text: str, status: str) -> None:
    host = offered()
    host.mkdir("/alone")
    for group, masks in (("/", "0=f;1=f"), ("/alone", "0=30;1=30")):
        host.echo(f"L3:{masks}", f"{group}/schemata")
    host.echo("exclusive", "/alone/mode")
    host.echo("1", IO)
    # The kernel's own choice: the lowest ways side by side that no exclusive group has.
    assert host.cat(CBM) == "0=f;1=f\n"
    assert number(lambda: host.echo(text, CBM)) == errno.EINVAL
    assert (host.status, host.cat(CBM)) == (status, "0=f;1=f\n")


def test_masks_count_as_ways_of_the_hardware() -> None:
    host = offered()
    host.echo("1", IO)
    host.echo("*=600", CBM)
    host.echo("1=3", CBM)
    assert host.cat(CBM) == "0=600;1=3\n"
    host.echo("L3:0=1ff;1=7fe", "/schemata")
    assert host.cat("/info/L3/bit_usage") == "0=HHSSSSSSSSS;1=XXSSSSSSSXH\n"
    host.mkdir("/a")
    host.echo("L3:0=1;1=1", "/a/schemata")
    assert number(lambda: host.echo("exclusive", "/a/mode")) == errno.EINVAL
    assert host.status == "Schemata overlaps"


def test_with_cdp_both_folders_show_and_set_the_same() -> None:
    host = offered(8, ("cdp",))
    host.echo("1", "/info/L3CODE/io_alloc")
    host.echo("0=3", "/info/L3DATA/io_alloc_cbm")
    assert host.cat("/info/L3CODE/io_alloc_cbm") == "0=3;1=7ff\n"
    for name in ("a", "b"):
        host.mkdir(f"/{name}")
    assert number(lambda: host.mkdir("/c")) == errno.ENOSPC
