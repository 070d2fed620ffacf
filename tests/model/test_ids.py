from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.ids import format_cpu_list, parse_cpu_list


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("", []),
        ("\n", []),
        ("0", [0]),
        ("0-3,8\n", [0, 1, 2, 3, 8]),
        ("3,1,2-2", [1, 2, 3]),
        ("0-11:2/4", [0, 1, 4, 5, 8, 9]),
        ("64-66", [64, 65, 66]),
    ],
)
def test_kernel_lists(text: str, cpus: list[int]) -> None:
    assert list(parse_cpu_list(text)) == cpus


@pytest.mark.parametrize(
    "text",
    ["x", "1-", "-1", "3-1", "1,,2", "1;2", "0x3", "٣", "1-4:2", "1-4:2/0", "9" * 7, "0-1-2"],
)
def test_anything_else_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="is not a CPU list"):
        parse_cpu_list(text)


@pytest.mark.parametrize("text", ["0-999999", "0-16383,5", "0-999999:1/1000", "0-9999,0-9999"])
def test_a_list_longer_than_any_hosts_is_an_error(text: str) -> None:
    """An application's command line may name anything, and is read at every tick."""
    with pytest.raises(ValueError, match="CPU list"):
        parse_cpu_list(text)


def test_a_list_as_long_as_any_hosts_is_none() -> None:
    assert len(parse_cpu_list("0-16383")) == 16384


@given(st.sets(st.integers(0, 600)))
def test_format_and_parse_are_inverse(cpus: set[int]) -> None:
    assert set(parse_cpu_list(format_cpu_list(cpus))) == cpus


@given(st.text(max_size=30))
def test_no_text_raises_anything_else(text: str) -> None:
    with contextlib.suppress(ValueError):
        parse_cpu_list(text)
