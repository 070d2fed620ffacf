"""Settings of rules in the configuration, and in the file that nftop writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.bounded_toml import parse_toml
from nftop.model.rule_settings import MOST_SETTINGS, NO_SETTINGS, RuleSetting, RuleSettings
from nftop.store.user.rules import parse_rules, rules_file, rules_text

TEXT = """
[rules.low-ipc]
muted = true
[rules.drops]
limit = 5
[rules.drops.nf."north/l3fwd"]
limit = 1000
muted = true
"""


def read(text: str) -> RuleSettings:
    return parse_rules(parse_toml(text)["rules"])


def test_the_table_has_rules_and_network_functions() -> None:
    assert set(read(TEXT).rows) == {
        RuleSetting("low-ipc", muted=True),
        RuleSetting("drops", limit=5.0),
        RuleSetting("drops", "north/l3fwd", muted=True, limit=1000.0),
    }


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("rules = 1", "rules must be a table"),
        ("[rules.low_ipc]\nmuted = true", "'low_ipc'"),
        ("[rules]\ndrops = 5", "rules.drops must be a table"),
        ("[rules.drops]\nmute = true", "'mute'"),
        ("[rules.drops]\nmuted = 1", "muted must be true or false"),
        ("[rules.drops]\nlimit = true", "limit must be a number"),
        ("[rules.drops]\nlimit = -1", "limit must be a number"),
        ("[rules.drops]\nlimit = nan", "limit must be a number"),
        ("[rules.drops]\nlimit = 1" + 400 * "0", "limit must be a number"),
        ("[rules.drops]\nlimit = inf", "limit must be a number"),
        ("[rules.drops.nf]\nvpp = 3", "'vpp' must be a name with a table"),
        ("[rules.drops]\nnf = 3", "rules.drops.nf must be a table"),
        ("[rules]\nacknowledged = [1]", "rules.acknowledged"),
    ],
)
def test_what_is_wrong_is_named(text: str, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        read(text)


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
rows = st.builds(
    RuleSetting,
    st.sampled_from(["drops", "low-ipc", "throughput-collapse"]),
    st.one_of(st.just(""), names),
    st.booleans(),
    st.one_of(st.none(), st.floats(0, 1e12)),
)


@given(st.lists(rows, max_size=6, unique_by=lambda row: (row.rule, row.nf)), st.lists(names))
def test_what_is_written_is_read_again(given_rows: list[RuleSetting], ids: list[str]) -> None:
    settings = RuleSettings(tuple(given_rows), tuple(ids))
    again = parse_rules(parse_toml(rules_text(settings)).get("rules", {}))
    assert set(again.rows) == set(settings.rows)
    assert again.acknowledged == settings.acknowledged


def test_what_is_set_on_screen_is_kept_apart_from_the_configuration(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    config = tmp_path / "nftop/config.toml"
    config.parent.mkdir()
    config.write_text("interval_s = 2 # mine\n" + TEXT)
    kept = rules_file(environ, config)
    assert kept.settings == read(TEXT)
    kept.save(
        kept.settings.with_muted("low-ipc", muted=False)
        .with_limit("drops", 7.0, "vpp")
        .with_acknowledged("cpu-12345678")
    )
    assert config.read_text() == "interval_s = 2 # mine\n" + TEXT
    own = config.with_name("rules.toml")
    assert own.stat().st_mode & 0o777 == 0o600
    again = rules_file(environ, config).settings
    assert again == kept.settings
    assert not again.of("low-ipc").muted
    assert again.of("drops", "vpp").limit == 7.0
    assert again.of("drops", "north/l3fwd").limit == 1000.0
    assert again.acknowledged == ("cpu-12345678",)


def test_no_file_is_no_setting_and_a_wrong_one_is_named(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert rules_file(environ, tmp_path / "config.toml").settings == NO_SETTINGS
    wrong = tmp_path / "nftop/rules.toml"
    wrong.parent.mkdir()
    wrong.write_text("[rules.drops]\nlimit = 'x'\n")
    damaged = rules_file(environ)
    assert damaged.settings == NO_SETTINGS
    assert "rules.toml: rules.drops: limit" in damaged.problem
    with pytest.raises(ValueError, match="limit"):
        damaged.save(NO_SETTINGS.with_muted("drops"))
    assert wrong.read_text() == "[rules.drops]\nlimit = 'x'\n", "it stays as it is"
    with pytest.raises(ValueError, match=r"rules\.toml: rules\.drops: limit"):
        rules_file({"XDG_CONFIG_HOME": str(tmp_path / "none")}, wrong)


def test_what_the_reader_refuses_is_not_written(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    kept = rules_file(environ)
    kept.save(NO_SETTINGS.with_muted("low-ipc"))
    path = tmp_path / "nftop/rules.toml"
    before = path.read_bytes()
    many = tuple(RuleSetting("drops", f"nf{n}", muted=True) for n in range(MOST_SETTINGS + 1))
    # Written as \\u.... each, so that the file is too long though no name is.
    long = tuple(RuleSetting("drops", f"{n:03}" + "\u202e" * 190, muted=True) for n in range(100))
    for settings in (
        NO_SETTINGS.with_muted("drops", "x" * 201),
        NO_SETTINGS.with_acknowledged("x" * 201),
        RuleSettings(many),
        RuleSettings(long),
    ):
        with pytest.raises(ValueError):
            kept.save(settings)
        assert path.read_bytes() == before
        assert rules_file(environ).settings == kept.settings == NO_SETTINGS.with_muted("low-ipc")


def test_a_session_of_its_own_leaves_the_file_alone(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    rules_file(environ).save(NO_SETTINGS.with_muted("low-ipc"))
    own = rules_file(environ, for_session=True)
    assert own.settings == NO_SETTINGS and own.path is None
    with pytest.raises(ValueError, match="no file"):
        own.save(NO_SETTINGS.with_muted("drops"))
    assert rules_file(environ).settings == NO_SETTINGS.with_muted("low-ipc")
