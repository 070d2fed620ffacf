"""What Prometheus reads from a page: a strict reader of both text forms, for tests.

Grammar: OpenMetrics 1.0 (RFC draft, section 4.1), Prometheus' exposition formats (text 0.0.4).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_SAMPLE = re.compile(r"([a-z_][a-z0-9_]*)(?:\{(.*)\})? (-?[0-9.e+-]+)")
_LABEL = re.compile(r'([a-z_][a-z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)')
_UNESCAPED = {r"\\": "\\", r"\"": '"', r"\n": "\n"}
_SUFFIX = {"gauge": "", "counter": "_total", "info": "_info"}

Labels = frozenset[tuple[str, str]]


@dataclass
class Read:
    """One family: its samples by their labels."""

    name: str
    help: str
    kind: str = ""
    unit: str = ""
    samples: dict[Labels, float] = field(default_factory=dict)


def read(text: str, *, openmetrics: bool) -> dict[str, Read]:
    """Families by the name of their samples; AssertionError where Prometheus would refuse it."""
    lines = text.split("\n")
    assert lines.pop() == ""
    if openmetrics:
        assert lines.pop() == "# EOF"
    result: dict[str, Read] = {}
    now = Read("", "")
    for line in lines:
        if line.startswith("# "):
            _, word, name, rest = line.split(" ", 3)
            if word == "HELP":
                assert not now.name or now.samples, now
                now = Read(name, rest)
                assert now.help
            assert name == now.name, line
            if word == "TYPE":
                assert not now.kind
                now.kind = rest
                sample = name + (_SUFFIX[rest] if openmetrics else "")
                assert sample not in result
                result[sample] = now
            elif word == "UNIT":
                assert openmetrics
                assert name.endswith(f"_{rest}")
                now.unit = rest
            continue
        sampled = _SAMPLE.fullmatch(line)
        assert sampled, line
        assert result[sampled[1]] is now, line
        labels = _labels(sampled[2] or "")
        assert labels not in now.samples, line
        now.samples[labels] = float(sampled[3])
    assert now.samples
    return result


def _labels(text: str) -> Labels:
    result: dict[str, str] = {}
    at = 0
    while at < len(text):
        label = _LABEL.match(text, at)
        assert label, text[at:]
        assert label[1] not in result, text
        result[label[1]] = re.sub(r"\\.", lambda escape: _UNESCAPED[escape[0]], label[2])
        at = label.end()
    return frozenset(result.items())
