"""Findings below the header, on their page and in words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.derive.findings.registry import all_rules, rule_called
from nftop.model.frame import Finding, Frame
from nftop.render.frame.findings import (
    finding_page_lines,
    finding_text_lines,
)
from nftop.render.pages.batch_text import frame_text
from nftop.render.pages.explain import explain_rule
from tests.frames import HOSTILE, about, frame, monotonic_of

NOW_NS = frame().wall_ns


def result(
    rule: str,
    where: str,
    age_s: int = 8,
    text: str = "IPC 1.45",
    *,
    is_note: bool = False,
    is_ending: bool = False,
) -> Finding:
    since_ns = NOW_NS - age_s * 10**9
    return Finding(
        rule,
        "ipc",
        about(where),
        text,
        since_ns,
        began_ns=monotonic_of(since_ns),
        is_note=is_note,
        is_ending=is_ending,
    )


RESULT = (
    result("drops", "nf vpp", 75, "2.94M packets/s dropped, no descriptor free"),
    result("low-ipc", "cpu 1", 130, "IPC 1.45 of the core, below 1.75 (vpp)"),
    result("low-ipc", "cpu 2", 7300, "IPC 1.50 of the core, below 1.75 (vpp)"),
    result("empty-polls", "cpu 9", 200_000, "IPC 2.20 is of empty polls", is_note=True),
)


def with_findings(*findings: Finding) -> Frame:
    return replace(frame(), findings=findings)


def test_the_page_has_all_by_rule_with_source_and_limit(snapshot: SnapshotAssertion) -> None:
    text = "\n".join(line.text for line in finding_page_lines(with_findings(*RESULT), 100))
    assert "! packets dropped (drops)" in text
    assert text == snapshot
    assert text.index("(drops)") < text.index("(low-ipc)") < text.index("(empty-polls)")
    none = "\n".join(line.text for line in finding_page_lines(with_findings(), 100))
    assert "No active findings." in none


def test_a_rule_that_this_nftop_does_not_know_is_shown_all_the_same() -> None:
    text = "\n".join(
        line.text for line in finding_page_lines(with_findings(result("x", "host y")), 80)
    )
    assert "! x\n" in text and "host y: IPC 1.45" in text


def test_untrusted_text_obeys_nobody() -> None:
    bad = with_findings(result("low-ipc", "class " + "".join(HOSTILE), text="".join(HOSTILE)))
    for lines in (
        finding_page_lines(bad, 80),
        finding_text_lines(bad, 80),
    ):
        assert all(line.text.isprintable() for line in lines)
        assert all("\x1b" not in line.text for line in lines)


def test_the_batch_output_has_all_of_them() -> None:
    text = frame_text(with_findings(*RESULT), 160, ascii_only=True)
    assert text.isascii()
    lines = text.splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith("! "))
    assert lines[first].endswith("Z]") and "[drops, since " in lines[first]
    assert [line[:2] for line in lines[first : first + 5]] == ["! ", "! ", "! ", "i ", ""]
    assert "since" not in frame_text(with_findings(), 160, ascii_only=True)


@pytest.mark.parametrize("name", [rule.id for rule in all_rules()])
def test_every_rule_states_limit_source_and_origin_of_the_limit(name: str) -> None:
    rule = rule_called(name)
    assert rule is not None
    text = explain_rule(rule)
    assert text.startswith(f"{name}, a finding: ")
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "  source: " in text and "  when: " in text
    assert ("nftop's own: " in text) == bool(rule.own)
    flat = " ".join(text.split())
    assert all(only.condition in flat for only in rule.only)
    if not rule.when:
        assert rule.printed(rule.limit) in flat and rule.printed(rule.clear) in flat
