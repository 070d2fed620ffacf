"""The operator's settings of rules: muted, another limit, incidents that are acknowledged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.struct import dataclass, replace

MOST_SETTINGS, MOST_ACKNOWLEDGED = 256, 64


# Between the name of an NF and its CPUs, where several have the name.
_ON = "@"


def name_on_cpus(name: str, cpus: Sequence[Cpu]) -> str:
    """Name of an NF among several with the same name: `testpmd@3-4`."""
    return f"{name}{_ON}{format_cpu_list(cpus)}"


def base_name(name: str) -> str:
    """The name without the CPUs that tell it apart."""
    return name.partition(_ON)[0]


def setting_names(nfs: Iterable[tuple[str, Sequence[Cpu]]]) -> Mapping[str, tuple[str, ...]]:
    """By name of an NF, the names under which its settings are, the most exact first.

    An NF that was among several with its name keeps their settings when it is the only one. A name
    that stands for two NFs stands for none.

    Args:
        nfs: name and CPUs of all NFs.
    """
    names = {
        name: (name,) if _ON in name or not cpus else (name_on_cpus(name, cpus), name)
        for name, cpus in nfs
    }
    count = Counter(item for items in names.values() for item in items)
    return {
        name: tuple(item for item in items if count[item] == 1) for name, items in names.items()
    }


@dataclass(frozen=True, slots=True)
class RuleSetting:
    """Setting of one rule for one NF, or for all.

    Attributes:
        rule: its id.
        nf: name of the NF (untrusted text), with its CPUs where several have the name
            (`name_on_cpus`); "" for all.
        muted: its findings are flagged and cause no incident on screen.
        limit: replaces the rule's limit, in its unit; None: the rule's own.
    """

    rule: str
    nf: str = ""
    muted: bool = False
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """All settings.

    Attributes:
        rows: at most one for each rule and NF.
        acknowledged: ids of incidents.
    """

    rows: tuple[RuleSetting, ...] = ()
    acknowledged: tuple[str, ...] = ()

    def of(self, rule: str, nf: str = "") -> RuleSetting:
        """The setting that is in effect: the NF's own before that of all."""
        known = {(row.rule, row.nf): row for row in self.rows if row.rule == rule}
        return known.get((rule, nf)) or known.get((rule, "")) or RuleSetting(rule, nf)

    def first_of(self, rule: str, names: Sequence[str]) -> RuleSetting:
        """The setting in effect of an NF with these names, see `setting_names`."""
        own = {row.nf for row in self.rows if row.rule == rule}
        return self.of(rule, next((name for name in names if name in own), ""))

    def with_muted(self, rule: str, nf: str = "", *, muted: bool = True) -> RuleSettings:
        """The settings with a rule muted, or not, for an NF or for all."""
        return self._with(replace(self.of(rule, nf), nf=nf, muted=muted))

    def with_limit(self, rule: str, limit: float | None, nf: str = "") -> RuleSettings:
        """The settings with another limit of a rule; None: its own."""
        return self._with(replace(self.of(rule, nf), nf=nf, limit=limit))

    def with_acknowledged(self, incident: str, *, acknowledged: bool = True) -> RuleSettings:
        """The settings with an incident acknowledged, or not; the newest are kept."""
        others = tuple(item for item in self.acknowledged if item != incident)
        kept = (*others, incident) if acknowledged else others
        return replace(self, acknowledged=kept[-MOST_ACKNOWLEDGED:])

    def _with(self, row: RuleSetting) -> RuleSettings:
        others = tuple(item for item in self.rows if (item.rule, item.nf) != (row.rule, row.nf))
        # A row of an NF may undo the one for all, so only a plain row for all is no setting.
        is_default = not row.muted and row.limit is None
        of_all = any(item.rule == row.rule and not item.nf for item in others)
        rows = others if is_default and not (row.nf and of_all) else (*others, row)
        return replace(self, rows=rows[-MOST_SETTINGS:])


NO_SETTINGS = RuleSettings()


def merged(first: RuleSettings, second: RuleSettings) -> RuleSettings:
    """Settings of two files; rows of the second replace those of the first."""
    rows = {(row.rule, row.nf): row for row in (*first.rows, *second.rows)}
    names = dict.fromkeys((*first.acknowledged, *second.acknowledged))
    return RuleSettings(tuple(rows.values())[-MOST_SETTINGS:], tuple(names)[-MOST_ACKNOWLEDGED:])
