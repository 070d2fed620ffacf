"""Settings of rules: an NF's own come before those of all, and the newest win."""

from __future__ import annotations

from nftop.model.ids import Cpu
from nftop.model.rule_settings import (
    MOST_ACKNOWLEDGED,
    NO_SETTINGS,
    RuleSetting,
    RuleSettings,
    merged,
    setting_names,
)


def test_a_setting_of_an_nf_comes_before_that_of_all() -> None:
    settings = NO_SETTINGS.with_muted("low-ipc").with_muted("low-ipc", "vpp", muted=False)
    assert settings.of("low-ipc").muted and settings.of("low-ipc", "ovs").muted
    assert not settings.of("low-ipc", "vpp").muted
    assert settings.of("drops", "vpp") == RuleSetting("drops", "vpp")


def test_limit_and_muting_are_independent_and_taken_back() -> None:
    settings = NO_SETTINGS.with_limit("drops", 10.0, "vpp").with_muted("drops", "vpp")
    assert settings.of("drops", "vpp") == RuleSetting("drops", "vpp", muted=True, limit=10.0)
    settings = settings.with_muted("drops", "vpp", muted=False)
    assert settings.of("drops", "vpp") == RuleSetting("drops", "vpp", limit=10.0)
    assert settings.with_limit("drops", None, "vpp") == NO_SETTINGS


def test_an_acknowledged_incident_is_forgotten_after_many_others() -> None:
    settings = NO_SETTINGS.with_acknowledged("a").with_acknowledged("a")
    assert settings.acknowledged == ("a",)
    assert settings.with_acknowledged("a", acknowledged=False) == NO_SETTINGS
    for number in range(MOST_ACKNOWLEDGED):
        settings = settings.with_acknowledged(f"b{number}")
    assert "a" not in settings.acknowledged and len(settings.acknowledged) == MOST_ACKNOWLEDGED


def test_rows_of_a_second_file_replace_those_of_the_first() -> None:
    first = RuleSettings((RuleSetting("drops", limit=1.0), RuleSetting("gone", muted=True)), ("a",))
    second = RuleSettings((RuleSetting("drops", limit=2.0),), ("b",))
    both = merged(first, second)
    assert (both.of("drops").limit, both.of("gone").muted) == (2.0, True)
    assert both.acknowledged == ("a", "b")


def test_settings_of_functions_with_one_name() -> None:
    names = setting_names(
        [("pmd@3-4", [Cpu(3), Cpu(4)]), ("pmd@7", [Cpu(7)]), ("vpp", [Cpu(1)]), ("idle", [])]
    )
    assert names == {
        "pmd@3-4": ("pmd@3-4",),
        "pmd@7": ("pmd@7",),
        "vpp": ("vpp@1", "vpp"),
        "idle": ("idle",),
    }
    settings = NO_SETTINGS.with_muted("drops", "pmd").with_muted("drops", "vpp@1")
    assert not settings.first_of("drops", names["pmd@7"]).muted
    assert settings.first_of("drops", names["vpp"]).muted
    # A program may call itself as nftop calls another: the name then stands for neither.
    assert setting_names([("vpp", [Cpu(1)]), ("vpp@1", [Cpu(9)])]) == {"vpp": ("vpp",), "vpp@1": ()}
