from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.nf.queue_map import parse_queue_map, parse_triples


def test_l3fwd_config() -> None:
    assert parse_triples("(0,0,1),(1,0,1)") == {(0, 0): 1, (1, 0): 1}
    assert parse_triples("(0, 1, 2)") == {(0, 1): 2}


@pytest.mark.parametrize("text", ["", "(0,0)", "(0,0,1", "(0,0,1)(1,0,1)", "(0,0,1),", "(a,0,1)"])
def test_other_configs_are_not_guessed_at(text: str) -> None:
    assert parse_triples(text) is None


def test_queue_map_of_two_applications() -> None:
    parsed = parse_queue_map(["a:(0,0,1),(0,1,2)", "b:c:(0,0,3)", "a:(1,0,1)"])
    assert parsed == {"a": {(0, 0): 1, (0, 1): 2, (1, 0): 1}, "b:c": {(0, 0): 3}}


@pytest.mark.parametrize("text", ["(0,0,1)", ":(0,0,1)", "a", "a:", "a:0,0,1"])
def test_a_queue_map_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="PREFIX"):
        parse_queue_map([text])


def test_a_queue_mapped_twice() -> None:
    with pytest.raises(ValueError, match="twice"):
        parse_queue_map(["a:(0,0,1)", "a:(0,0,2)"])


@given(st.text(alphabet="(),0123456789 ", max_size=40))
def test_no_text_raises(text: str) -> None:
    parse_triples(text)
