"""Texts of resctrl's files, of lists and masks of CPUs, and of /proc/mounts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from nftop.model.ids import format_cpu_list, parse_cpu_list
from nftop.model.missing import Missing
from nftop.model.rdt.rdt import EVENTS
from nftop.sources.host.sysfs import parse_cpu_mask
from nftop.sources.resctrl.files import parse_mounts
from nftop.sources.resctrl.tree import (
    monitor_domain,
    parse_bit_usage,
    parse_domains,
    parse_features,
    parse_mask,
    parse_number,
    parse_schemata,
    parse_tasks,
    parse_value,
    sub_monitor,
)
from tests.sources.resctrl.trees import group_files, plain

WORDS = (
    b"L3:", b"L3CODE:", b"L3DATA:", b"L2:", b"MB:", b"0=", b";", b"=", b"fffff", b"7ff", b"100",
    b"uninitialized", b"Unavailable", b"Unassigned", b"Error", b"llc_occupancy", b"mbm_total_bytes",
    b"mon_L3_00", b"mon_sub_L3_00", b"0-3,8", b"-", b",", b"\n", b" ", b"resctrl / resctrl cdp,",
    b"\\040", b"\\134", b"XSHE0", b"\xd9\xa3", b"\0", b"\x85", b"\xe2\x80\xa8",
)  # fmt: skip
# Each with the most that a value may be; ValueError is what a reader of these expects.
_PARSERS: tuple[Callable[[str], object], ...] = (
    parse_schemata, parse_bit_usage, parse_mask, parse_number, parse_value, parse_features,
    parse_tasks, parse_mounts, monitor_domain, sub_monitor, parse_cpu_list, parse_cpu_mask,
    lambda text: parse_domains(text, 16), lambda text: parse_domains(text, 10),
)  # fmt: skip


def seeds() -> list[bytes]:
    files = plain() | group_files("vpp/")
    texts = sorted({text.encode() for name, text in files.items() if not name.endswith("/")})
    return [
        *(text for text in texts if text),
        b"    L3:0=fffff;1=fffff\n    MB:0=100;1=100\n",
        b"0=XXSSSEEHH00;1=SSSSS\n",
        b"resctrl /sys/fs/resctrl resctrl rw,relatime,cdp,mba_MBps 0 0\n",
        b"0-3,8-9,4096",
        b"ff,ffffffff,00000000",
        b"100\n101\n200\n",
    ]


def play(data: bytes) -> None:
    """By every parser, whatever it is; what one accepts is a value of its kind."""
    text = data.decode("ascii", "replace")
    for parse in _PARSERS:
        with suppress(ValueError):
            _check(parse(text))
    with suppress(ValueError):
        cpus = parse_cpu_list(text)
        assert len(cpus) <= 1 << 17
        assert not cpus or parse_cpu_list(format_cpu_list(cpus)) == tuple(sorted(set(cpus)))


def _check(value: object) -> None:
    if isinstance(value, int):
        assert 0 <= value < 1 << 64
    elif isinstance(value, tuple) and value and value[0] in EVENTS:
        assert len(set(value)) == len(value)
    else:
        assert value is None or isinstance(value, (Missing, tuple, dict))
