"""resctrl's texts: the kernel's are read exactly, all others are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.missing import Missing
from nftop.model.rdt.rdt import EVENTS, USAGE, WORDS
from nftop.sources.resctrl import files, tree

NAMES = ("L3", "L3CODE", "L3DATA", "L2", "L2CODE", "L2DATA", "MB")
domains = st.dictionaries(st.integers(0, 999_999), st.integers(0, 2**32 - 1), min_size=1)
tables = st.dictionaries(st.sampled_from(NAMES), domains)


def as_61(name: str, values: Mapping[int, int]) -> str:
    """As Linux 6.1 prints a line: numbers lined up, masks with zeros and limits with blanks."""
    form = "{}={:>5}" if name == "MB" else "{}={:05x}"
    return f"{name:>8}:" + ";".join(form.format(*value) for value in values.items())


def as_72(name: str, values: Mapping[int, int]) -> str:
    form = "{}={}" if name == "MB" else "{}={:x}"
    return f"{name:>8}:" + ";".join(form.format(*value) for value in values.items())


@pytest.mark.parametrize("form", [as_61, as_72])
@given(table=tables)
def test_schemata_is_read_as_either_kernel_prints_it(
    form: Callable[[str, Mapping[int, int]], str], table: dict[str, dict[int, int]]
) -> None:
    text = "".join(f"{form(name, values)}\n" for name, values in table.items())
    assert tree.parse_schemata(text) == table


def test_schemata_of_what_is_not_known_or_not_set_up() -> None:
    assert tree.parse_schemata("SMBA:0=2048\n  L3:0=f\n") == {"L3": {0: 15}}
    assert tree.parse_schemata("MB:uninitialized\nL3:uninitialized\n") == {"MB": {}, "L3": {}}


@pytest.mark.parametrize(
    "text",
    ["L3", "L3:", "L3:0", "L3:=f", "L3:0=", "L3:0=g", "L3:0=F", "L3:0=0xf", "L3:0=f;0=f", "L3:a=f",
     "L3:0=f;", "L3:-1=f", "MB:0=5%", "MB:0=-1", "l3:0=f", "L3:0=f\nL3:1=f", "L3:0=f,1=f",
     "L3:0=123456789", "L3:0=f\x00", "L3:0=٣", "MB:0=1_0", "MB:0=+1", "\x1b[2J:0=1"],
)  # fmt: skip
def test_what_is_no_schemata_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"schemata|DOMAIN=VALUE|number of base"):
        tree.parse_schemata(text)


PARSERS: tuple[Callable[[str], object], ...] = (
    tree.parse_schemata,
    lambda text: tree.parse_domains(text, 16),
    tree.parse_bit_usage,
    tree.parse_mask,
    tree.parse_number,
    tree.parse_value,
    tree.parse_features,
    tree.parse_tasks,
    tree.monitor_domain,
    tree.sub_monitor,
    files.parse_mounts,
)
likely = st.text(alphabet="0123456789abcfLMB3DATACODE=:;, \n\tSXHEP/_mon-")


@pytest.mark.parametrize("parser", PARSERS)
@given(text=st.text() | likely)
def test_no_text_does_worse_than_be_refused(parser: Callable[[str], object], text: str) -> None:
    try:
        parser(text)
    except ValueError as error:
        assert len(str(error)) < 600, "a long text is not repeated"


@given(
    st.dictionaries(
        st.integers(0, 99), st.text(alphabet=list(USAGE), min_size=1, max_size=32), min_size=1
    )
)
def test_bit_usage_has_a_letter_for_every_way(usage: dict[int, str]) -> None:
    text = ";".join(f"{domain}={letters}" for domain, letters in usage.items())
    assert tree.parse_bit_usage(text + "\n") == usage


@pytest.mark.parametrize("text", ["", "0", "0=", "0=SSQ", "0=ss", "0=S S", "0=S;0=S"])
def test_what_is_no_bit_usage_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"DOMAIN=VALUE|letters of bit_usage"):
        tree.parse_bit_usage(text)


@given(st.integers(0, 2**64 - 1))
def test_a_monitor_reports_a_number(count: int) -> None:
    assert tree.parse_value(f"{count}\n") == count


@pytest.mark.parametrize("word", WORDS)
def test_a_monitor_reports_why_it_has_none(word: str) -> None:
    assert tree.parse_value(f"{word}\n") == WORDS[word]


@pytest.mark.parametrize("text", ["", "\n", "-1", "1.0", "1e3", "unavailable", "0x1", str(2**64)])
def test_what_no_monitor_reports_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no number of bytes"):
        tree.parse_value(text)


def test_only_caches_have_monitors_that_are_read() -> None:
    names = ["mon_L3_00", "mon_L3_7", "mon_L3_123", "mon_PERF_PKG_00", "mon_sub_L3_00", "mon_L3_0x"]
    assert [tree.monitor_domain(name) for name in names] == [0, None, 123, None, None, None]
    assert [tree.sub_monitor(name) for name in ("mon_sub_L3_02", "mon_L3_02")] == [2, None]


def test_features_that_nftop_does_not_read_are_left_out() -> None:
    text = "mbm_local_bytes\nllc_occupancy\nmbm_local_bytes_config\ncore_energy\n"
    assert tree.parse_features(text) == ("llc_occupancy", "mbm_local_bytes")
    assert tree.parse_features("\n".join(EVENTS)) == EVENTS


@given(st.lists(st.integers(0, 2**31 - 1)))
def test_tasks_are_numbers(tids: list[int]) -> None:
    assert tree.parse_tasks("".join(f"{tid}\n" for tid in tids)) == tuple(sorted(tids))


def test_a_task_is_no_word() -> None:
    with pytest.raises(ValueError, match="no thread id"):
        tree.parse_tasks("1\nx\n")


def test_the_first_mount_and_its_options() -> None:
    text = (
        "sysfs /sys sysfs rw 0 0\n"
        "resctrl /mnt/a\\040b resctrl rw,relatime,cdp 0 0\n"
        "resctrl /sys/fs/resctrl resctrl rw 0 0\n"
    )
    assert files.parse_mounts(text) == ("/mnt/a b", frozenset({"rw", "relatime", "cdp"}))
    assert files.parse_mounts("resctrl /sys/fs/resctrl tmpfs rw 0 0\n") is None


def test_a_refused_value_is_no_missing_one() -> None:
    """A monitor that can't be read is a reason; one that makes no sense is an error."""
    assert isinstance(tree.parse_value("Error"), Missing)
