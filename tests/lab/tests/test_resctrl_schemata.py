"""Masks, limits and modes beyond what the consoles of tests/data/kernel show."""

from __future__ import annotations

import errno
import os
from dataclasses import replace

import pytest

from tests.lab.tests.hosts import (
    BOTH,
    MIB,
    ROOT,
    SMALL,
    lab,
    number,
)

FULL = 16 * MIB // 11 * 11


@BOTH
def test_nothing_of_a_refused_write_is_applied(kernel: str) -> None:
    host = lab(kernel)
    before = host.cat("/schemata")
    text = "MB:0=50;1=50\nL3:0=f;1=5"
    assert number(lambda: host.echo(text, "/schemata")) == errno.EINVAL
    assert host.cat("/schemata") == before
    assert host.status == "The mask 5 has non-consecutive 1-bits"
    host.echo("MB:0=50;1=50\nL3:0=f;1=70", "/schemata")
    zeros = "00f;1=070" if kernel == "6.1" else "f;1=70"
    assert host.cat("/schemata").split()[-1] == f"L3:0={zeros}"
    assert host.status == "ok"


@BOTH
def test_a_line_may_be_written_twice_but_not_a_domain(kernel: str) -> None:
    host = lab(kernel)
    assert number(lambda: host.echo("L3:0=f\nL3:0=f0", "/schemata")) == errno.EINVAL
    assert host.status == "Duplicate domain 0"
    host.echo("L3:0=f\nL3:1=f0;", "/schemata")
    assert number(lambda: host.echo("L3:0=f;;1=f", "/schemata")) == errno.EINVAL
    assert host.status == "Missing '=' or non-numeric domain"


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("", "Missing ':'"),
        ("L3:0=", "Non-hex character in the mask "),
        ("L3: 0=f", "Missing '=' or non-numeric domain"),
        ("L3:0=-1", "Non-hex character in the mask -1"),
        ("L3:0=10000000000000000", "Non-hex character in the mask 10000000000000000"),
        ("MB:0=101", "MB value 101 out of range [10,100]"),
        ("MB:0=0x20", "Invalid MB value 0x20"),
        ("L3CODE:0=f", "Unknown or unsupported resource name 'L3CODE'"),
    ],
)
@BOTH
def test_what_schemata_reports_of_what_it_refuses(kernel: str, text: str, status: str) -> None:
    host = lab(kernel)
    assert number(lambda: host.echo(text, "/schemata")) == errno.EINVAL
    assert host.status == status


@BOTH
def test_schemata_takes_what_the_kernel_takes(kernel: str) -> None:
    host = lab(kernel)
    host.echo(" L3 :0= 0x0f0 ;1=+f\nMB:1=41", "/schemata")
    zeros = "0f0;1=00f" if kernel == "6.1" else "f0;1=f"
    words = host.cat("/schemata").replace(" ", "").split()
    assert words == ["MB:0=100;1=50", f"L3:0={zeros}"]


@BOTH
def test_a_page_is_the_longest_write(kernel: str) -> None:
    host = lab(kernel)
    handle = host.tree.open("/schemata", os.O_WRONLY, ROOT)
    assert number(lambda: handle.write(b"x" * 4096 + b"\n", 0)) == errno.E2BIG
    assert number(lambda: handle.write(b"x" * 4095 + b"\n", 0)) == errno.EINVAL


def test_too_few_ways_are_refused_where_a_mask_needs_more() -> None:
    assert SMALL.allocation is not None
    host = lab(hardware=replace(SMALL, allocation=replace(SMALL.allocation, min_bits=2)))
    assert number(lambda: host.echo("L3:0=4", "/schemata")) == errno.EINVAL
    assert host.status == "Need at least 2 bits in the mask"


@BOTH
def test_size_counts_ways_in_whole_bytes(kernel: str) -> None:
    host = lab(kernel)
    host.echo("L3:0=3\nMB:1=20", "/schemata")
    sizes = host.cat("/size").split()
    assert sizes == ["MB:0=100;1=20", f"L3:0={16 * MIB // 11 * 2};1={FULL}"]


def test_cdp_has_two_lines_and_half_the_classes() -> None:
    host = lab("7.2", options=["cdp"])
    assert [line.split(":")[0] for line in host.cat("/schemata").splitlines()] == [
        "    MB",
        "L3DATA",
        "L3CODE",
    ]
    assert set(host.tree.names("/info")) == {
        "L3CODE",
        "L3DATA",
        "L3_MON",
        "MB",
        "last_cmd_status",
    }
    assert host.cat("/info/L3CODE/num_closids") == "8\n"
    host.echo("L3CODE:0=f\nL3DATA:0=f0", "/schemata")
    assert host.cat("/info/L3CODE/bit_usage") == "0=HH00000SSSS;1=XXSSSSSSSSS\n"
    assert host.cat("/info/L3DATA/bit_usage") == "0=HH0SSSS0000;1=XXSSSSSSSSS\n"


def test_an_exclusive_group_keeps_its_ways_from_code_and_data_of_others() -> None:
    host = lab("7.2", options=["cdp"])
    host.mkdir("/a")
    host.echo("L3CODE:0=ff;1=ff\nL3DATA:0=ff;1=ff", "/schemata")
    host.echo("L3CODE:0=100;1=100\nL3DATA:0=100;1=100", "/a/schemata")
    host.echo("exclusive", "/a/mode")
    assert number(lambda: host.echo("L3DATA:0=180", "/schemata")) == errno.EINVAL
    assert host.status == "Overlaps with exclusive group"
    assert number(lambda: host.echo("L3CODE:0=180", "/a/schemata")) == errno.EINVAL
    assert host.status == "Overlaps with other group"
    assert host.cat("/info/L3DATA/bit_usage").split(";")[0] == "0=HHESSSSSSSS"
    host.mkdir("/b")
    # New groups get what is shared or nobody's: below the exclusive way.
    assert host.cat("/b/schemata").split()[-1] == "L3CODE:0=ff;1=ff"
    assert number(lambda: host.echo("pseudo-locksetup", "/a/mode")) == errno.EINVAL
    assert host.status == "CDP enabled"


@BOTH
def test_ways_of_io_can_not_be_exclusive(kernel: str) -> None:
    host = lab(kernel)
    host.mkdir("/a")
    host.echo("L3:0=ff;1=ff", "/schemata")
    host.echo("L3:0=600;1=100", "/a/schemata")
    assert number(lambda: host.echo("exclusive", "/a/mode")) == errno.EINVAL
    assert (host.status, host.cat("/a/mode")) == ("Schemata overlaps", "shareable\n")
    host.echo("L3:0=100;1=100", "/a/schemata")
    host.echo("exclusive", "/a/mode")
    host.echo("shareable", "/a/mode")
    assert host.cat("/a/mode") == "shareable\n"


@pytest.mark.parametrize(
    ("path", "status"),
    [("/mode", "Cannot pseudo-lock default group"), ("/a/mode", "Pseudo-locking not supported")],
)
@BOTH
def test_no_cpu_of_the_lab_locks_its_cache(kernel: str, path: str, status: str) -> None:
    host = lab(kernel)
    host.mkdir("/a")
    assert number(lambda: host.echo("pseudo-locksetup", path)) == errno.EINVAL
    assert host.status == status


def test_no_group_is_created_where_exclusive_ones_have_every_way() -> None:
    assert SMALL.allocation is not None
    hardware = replace(SMALL, allocation=replace(SMALL.allocation, shareable_bits=0))
    host = lab("7.2", hardware)
    host.echo("exclusive", "/mode")
    assert number(lambda: host.mkdir("/a")) == errno.ENOSPC
    assert host.status == "No space on L3:0"
    host.echo("L3:0=ff", "/schemata")
    assert number(lambda: host.mkdir("/a")) == errno.ENOSPC
    assert host.status == "No space on L3:1"
    assert "a" not in host.tree.names("/")


@pytest.mark.parametrize(("kernel", "unlimited"), [("6.1", 4), ("7.2", 4294967295)])
def test_mbps_hold_as_soon_as_they_are_parsed(kernel: str, unlimited: int) -> None:
    host = lab(kernel, options=["mba_MBps"])
    assert host.cat("/schemata").split()[0] == "MB:0=4294967295;1=4294967295"
    assert number(lambda: host.echo("MB:0=1000;1=55\nL3:0=5", "/schemata")) == errno.EINVAL
    low = 60 if kernel == "6.1" else 55
    assert host.cat("/schemata").replace(" ", "").split()[0] == f"MB:0=1000;1={low}"
    host.echo("MB:0=4294967295", "/schemata")
    assert host.cat("/size").replace(" ", "").split()[0] == f"MB:0={unlimited};1={low}"


def test_the_event_that_mbps_are_measured_by_is_a_group_s_choice() -> None:
    host = lab("7.2", options=["mba_MBps"])
    assert host.cat("/mba_MBps_event") == "mbm_local_bytes\n"
    host.echo("mbm_total_bytes", "/mba_MBps_event")
    assert host.cat("/mba_MBps_event") == "mbm_total_bytes\n"
    assert number(lambda: host.echo("llc_occupancy", "/mba_MBps_event")) == errno.EINVAL
    assert host.status == "Unsupported event id 'llc_occupancy'"
    assert "mba_MBps_event" not in lab("7.2").tree.names("/")
    assert "mba_MBps_event" not in lab("6.1", options=["mba_MBps"]).tree.names("/")
