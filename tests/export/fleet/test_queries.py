"""Queries: the job's name is one PromQL text, whatever it is."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlencode

import pytest

from nftop.export.fleet.queries import fleet_queries, selector


@pytest.mark.parametrize("job", ["nftop", 'a"b', "a\\", "\u00e4", "\U0001f600", "a\nb", "\x1b"])
def test_a_job_is_one_text(job: str) -> None:
    text = selector("up", job, 'nf="vpp"')
    quoted = text.removeprefix("up{job=").removesuffix(',nf="vpp"}')
    assert json.loads(quoted) == job
    # Go's texts have no escapes of halves of a character.
    assert "\\ud" not in text
    assert quoted.isprintable()
    for query in fleet_queries(job):
        assert parse_qs(urlencode({"query": query.text}))["query"] == [query.text]
