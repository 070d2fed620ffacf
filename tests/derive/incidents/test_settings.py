"""Muted rules, other limits and acknowledged incidents, in the fold."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.frame import Frame
from nftop.model.rule_settings import NO_SETTINGS, RuleSettings
from nftop.model.sample import DpdkTable
from nftop.model.struct import replace
from tests.sim.hosts import Frozen, S


def frame_of(settings: RuleSettings, scenario: str = "default") -> Frame:
    host = Frozen(scenario, traffic=None)
    host.state = replace(host.state, rules=settings)
    host.tick(0)
    return [host.tick(S) for _ in range(9)][-1]


def test_a_muted_rule_is_flagged_for_its_nf_only() -> None:
    frame = frame_of(NO_SETTINGS.with_muted("low-ipc", "loop/testpmd"))
    muted = {item.where: item.is_muted for item in frame.findings if item.rule == "low-ipc"}
    assert muted == {"cpu 23": True, "cpu 24": False, "cpu 26": False, "cpu 27": False}
    flagged = [item for item in frame.incidents if item.muted]
    assert [item.victims[0].party.name for item in flagged] == ["loop/testpmd"]


def test_an_incident_is_muted_only_with_all_that_shows_it() -> None:
    frame = frame_of(NO_SETTINGS.with_muted("poller-waits").with_muted("drops"))
    assert [item.muted for item in frame.incidents if item.kind == "cpu"] == [True]
    for rule in ("drops", "poller-waits"):  # a loss is not hidden with its cause
        frame = frame_of(NO_SETTINGS.with_muted(rule))
        assert [item.muted for item in frame.incidents if item.kind == "cpu"] == [False]


def test_another_limit_holds_for_its_nf(snapshot: SnapshotAssertion) -> None:
    nf = "north/l3fwd"
    frame = frame_of(NO_SETTINGS.with_limit("poller-waits", 0.2, nf))
    assert "poller-waits" not in {item.rule for item in frame.findings}
    frame = frame_of(NO_SETTINGS.with_limit("poller-waits", 0.2).with_limit("low-ipc", 1.3))
    assert {"poller-waits", "low-ipc"}.isdisjoint(item.rule for item in frame.findings)
    frame = frame_of(NO_SETTINGS.with_limit("poller-waits", 0.1))
    texts = [item.text for item in frame.findings if item.rule == "poller-waits"]
    assert texts == snapshot


def test_an_acknowledged_incident_is_marked() -> None:
    plain = frame_of(NO_SETTINGS)
    first = plain.incidents[0]
    frame = frame_of(NO_SETTINGS.with_acknowledged(first.id))
    assert [item.acknowledged for item in frame.incidents] == [
        item.id == first.id for item in plain.incidents
    ]


def same_names(host: Frozen, monkeypatch: pytest.MonkeyPatch) -> None:
    """All DPDK applications have one name and prefix, as in containers."""
    kind = type(next(item for item in host.simulated.sources if item.name == "dpdk"))
    read = kind.read

    def renamed(source: object) -> object:
        table = read(source)  # type: ignore[arg-type]
        if not isinstance(table, DpdkTable):
            return table
        apps = [replace(app, name="dpdk-testpmd", prefix="rte") for app in table.apps]
        return replace(table, apps=tuple(apps))

    monkeypatch.setattr(kind, "read", renamed)


def waits(settings: RuleSettings, monkeypatch: pytest.MonkeyPatch, *, same: bool) -> dict[str, str]:
    """Texts of the default scenario's rule low-ipc by CPU, of those that are not muted."""
    host = Frozen("default", traffic=None)
    host.state = replace(host.state, rules=settings)
    if same:
        same_names(host, monkeypatch)
    host.tick(0)
    frame = [host.tick(S) for _ in range(9)][-1]
    assert len({nf.name for nf in frame.nfs}) == len(frame.nfs)
    return {
        item.where: item.text
        for item in frame.findings
        if item.rule == "low-ipc" and not item.is_muted
    }


def test_functions_with_one_name_have_settings_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rule, name = "low-ipc", "testpmd"
    every = waits(NO_SETTINGS, monkeypatch, same=True)
    assert set(every) == {"cpu 23", "cpu 24", "cpu 26", "cpu 27"}
    # The plain name of an older configuration stands for several: it is for none of them.
    assert waits(NO_SETTINGS.with_muted(rule, name), monkeypatch, same=True) == every
    own = NO_SETTINGS.with_muted(rule, f"{name}@23")
    assert set(waits(own, monkeypatch, same=True)) == {"cpu 24", "cpu 26", "cpu 27"}
    limit = NO_SETTINGS.with_limit(rule, 0.5, f"{name}@23")
    assert set(waits(limit, monkeypatch, same=True)) == {"cpu 24", "cpu 26", "cpu 27"}


def test_a_function_keeps_its_settings_when_it_is_the_only_one_with_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = NO_SETTINGS.with_muted("low-ipc", "loop/testpmd@23")
    assert "cpu 23" not in waits(own, monkeypatch, same=False)
    other = NO_SETTINGS.with_muted("low-ipc", "loop/testpmd@22")
    assert "cpu 23" in waits(other, monkeypatch, same=False)
