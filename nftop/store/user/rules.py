"""The operator's settings of rules in files: `[rules]` of the configuration, and nftop's own file.

    [rules.low-ipc]
    muted = true                  # for all network functions
    [rules.drops.nf."north/l3fwd"]
    limit = 1000                  # for this one, in the rule's unit

`config.toml` is the operator's and never written; what is set on screen is in `rules.toml` beside
it, with the same `[rules]` table, and overrides it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nftop.derive.findings.registry import rule_called
from nftop.model.bounded_toml import parse_toml
from nftop.model.rule_settings import (
    MOST_ACKNOWLEDGED,
    MOST_SETTINGS,
    NO_SETTINGS,
    RuleSetting,
    RuleSettings,
    merged,
)
from nftop.model.struct import dataclass
from nftop.store.folders import Person, caller
from nftop.store.user.config_dir import (
    MOST_CONFIG_BYTES,
    config_folder,
    read_text,
    replace_file,
    toml_text,
)

MOST_BYTES = 1 << 16
_MOST_NAME = 200
_MOST_LIMIT = 1e18
_HEAD = "# Written by nftop: muted rules and limits that were set on screen.\n"


def parse_rules(table: object) -> RuleSettings:
    """Settings of a `[rules]` table.

    Raises:
        ValueError: it has an unknown rule or key, or a value of another type.
    """
    if not isinstance(table, dict):
        raise ValueError("rules must be a table: [rules.NAME]")
    rows: list[RuleSetting] = []
    acknowledged: tuple[str, ...] = ()
    for name, value in table.items():
        if name == "acknowledged":
            acknowledged = _names(value)
        else:
            rows += _rows(name, value)
    if len(rows) > MOST_SETTINGS:
        raise ValueError(f"rules: more than {MOST_SETTINGS} settings")
    return RuleSettings(tuple(rows), acknowledged[-MOST_ACKNOWLEDGED:])


def _rows(name: str, value: object) -> Iterator[RuleSetting]:
    rule = rule_called(name)
    if rule is None:
        raise ValueError(f"rules: there is no rule {name!r}; `nftop explain` lists them")
    if not isinstance(value, dict):
        raise ValueError(f"rules.{name} must be a table")
    own = {key: item for key, item in value.items() if key != "nf"}
    if own:
        yield _setting(rule.id, "", own)
    nfs = value.get("nf", {})
    if not isinstance(nfs, dict):
        raise ValueError(f"rules.{name}.nf must be a table of network functions by name")
    for nf, item in nfs.items():
        if not nf or len(nf) > _MOST_NAME or not isinstance(item, dict):
            raise ValueError(f"rules.{name}.nf: {nf[:20]!r} must be a name with a table")
        yield _setting(rule.id, nf, item)


def _setting(rule: str, nf: str, values: Mapping[str, Any]) -> RuleSetting:
    for key in values.keys() - {"muted", "limit"}:
        raise ValueError(f"rules.{rule}: there is no {key!r}; there are muted, limit, nf")
    muted, limit = values.get("muted", False), values.get("limit")
    if not isinstance(muted, bool):
        raise ValueError(f"rules.{rule}: muted must be true or false")
    if limit is not None:
        number = isinstance(limit, (int, float)) and not isinstance(limit, bool)
        if not number or not 0 <= limit <= _MOST_LIMIT:
            raise ValueError(f"rules.{rule}: limit must be a number from 0 to {_MOST_LIMIT:g}")
    return RuleSetting(rule, nf, muted, None if limit is None else float(limit))


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("rules.acknowledged must be an array of ids")
    return tuple(item for item in value if item and len(item) <= _MOST_NAME)


def rules_text(settings: RuleSettings, *, head: str = _HEAD) -> str:
    """Settings as TOML that `parse_rules` reads."""
    lines = []
    if settings.acknowledged:
        names = ", ".join(map(toml_text, settings.acknowledged))
        lines += ["[rules]", f"acknowledged = [{names}]"]
    for row in settings.rows:
        own = f".nf.{toml_text(row.nf)}" if row.nf else ""
        lines.append(f"[rules.{toml_text(row.rule)}{own}]")
        lines.append(f"muted = {str(row.muted).lower()}")
        lines += [] if row.limit is None else [f"limit = {row.limit!r}"]
    return head + "\n".join(lines) + "\n"


@dataclass(slots=True)
class RulesFile:
    """Settings in effect, and the file in which those made on screen are kept.

    Attributes:
        path: nftop's own file; None: what is set on screen is for the session.
        owner: of a new file, under sudo; None: the process' user.
        base: settings of the configuration. own: of nftop's file.
        problem: why nftop's file has no settings and is not written; "" if it is sound.
    """

    path: Path | None
    owner: Person | None = None
    base: RuleSettings = NO_SETTINGS
    own: RuleSettings = NO_SETTINGS
    problem: str = ""

    @property
    def settings(self) -> RuleSettings:
        return merged(self.base, self.own)

    def save(self, settings: RuleSettings) -> None:
        """Keep the difference to the configuration; these are then in effect.

        Raises:
            OSError: it can't be written; the old file stays.
            ValueError: there is no file, it is damaged, or it could not be read again.
        """
        if self.path is None or self.problem:
            raise ValueError(self.problem or "there is no file")
        known = set(self.base.rows)
        rows = [row for row in settings.rows if row not in known]
        keys = {(row.rule, row.nf) for row in settings.rows}
        # What the configuration has and the operator removed needs a row of its own.
        rows += [RuleSetting(r.rule, r.nf) for r in self.base.rows if (r.rule, r.nf) not in keys]
        own = RuleSettings(tuple(rows), settings.acknowledged)
        replace_file(self.path, _readable(own), self.owner)
        self.own = own


def _readable(settings: RuleSettings) -> bytes:
    """The text of nftop's file. Raises ValueError: it could not be read again."""
    text = rules_text(settings)
    data = text.encode()
    if len(data) > MOST_BYTES:
        raise ValueError(f"the settings are longer than {MOST_BYTES >> 10} KiB")
    again = parse_rules(parse_toml(text).get("rules", {}))
    if set(again.rows) != set(settings.rows) or again.acknowledged != settings.acknowledged:
        raise ValueError("a name is too long")
    return data


def rules_file(environ: Mapping[str, str], *configs: Path, for_session: bool = False) -> RulesFile:
    """The settings of the configuration files, the later overriding, and of nftop's own file.

    `for_session`: nftop's own file is neither read nor written. If it is damaged, the result has
    a `problem`.

    Raises:
        ValueError: a configuration file has something else; the text names it.
    """
    base = NO_SETTINGS
    for path in configs:
        base = merged(base, _read(path))
    if for_session:
        return RulesFile(None, base=base)
    path = config_folder(environ) / "rules.toml"
    try:
        return RulesFile(path, caller(environ), base, _read(path))
    except ValueError as error:
        return RulesFile(path, caller(environ), base, problem=str(error))


def _read(path: Path) -> RuleSettings:
    """Settings of a file; none if it is missing or not readable."""
    try:
        table = parse_toml(read_text(path, MOST_CONFIG_BYTES))
        return parse_rules(table["rules"]) if "rules" in table else NO_SETTINGS
    except OSError:
        return NO_SETTINGS
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
