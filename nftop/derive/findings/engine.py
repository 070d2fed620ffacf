"""Findings: which rules hold for which subjects, and since when. A stage of the fold.

Durations are sums of the time between ticks:

- A value beyond the limit counts; one within resets a candidate that has not lasted long enough. A
  finding ends when its value has been at or within the clear limit for `ENDS_AFTER_S`; between the
  two limits nothing changes. Until then its text has the last value beyond the limit and the
  current one.
- An absent value (a restarted counter, a late or unavailable source) neither confirms nor clears:
  the clock stops. After `UNKNOWN_FOR_S` the subject's state is dropped, but a finding does not end
  while its source is late or fails (STALE, ERROR). The reasons IDLE and UNDEFINED (no work, no
  poller any more) count as within.
- After a gap between ticks, candidates start over; findings remain until later values clear them.
- Another process on a CPU is another subject. Other CPUs in the rows of a topology reset all but
  the functions that departed; a clock that went back resets these too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nftop.derive.findings.inputs import FindingInputs, FindingKey
from nftop.derive.findings.registry import all_rules
from nftop.derive.findings.rule import Measured, Only, Rule
from nftop.derive.fold_stage import FoldStage, FoldTick
from nftop.derive.frame import FRAME
from nftop.derive.nf.departures import DepartureState, NfSighting, step_departures
from nftop.derive.nf.recent import RECENT, Recent
from nftop.derive.occupants import OTHER_POLLERS
from nftop.model.column import Bools, Column, Floats, has_reason
from nftop.model.frame import Finding, Frame
from nftop.model.missing import Reason
from nftop.model.rule_settings import NO_SETTINGS, RuleSettings, setting_names
from nftop.model.struct import dataclass, field, replace

# Least number of ticks beyond the limit, whatever the interval.
LEAST_TICKS = 3
ENDS_AFTER_S = 3.0
UNKNOWN_FOR_S = 10.0
# A tick that is this late follows a gap, as in `fold`.
_GAP_TICKS, _GAP_AT_LEAST_S = 2.5, 1.0
# The samples of a recording's past are up to a second apart, and the first has no rates.
_NOTED_WITHIN_NS = 2_500_000_000
_SILENT = (Reason.STALE, Reason.ERROR)
# As numbers: comparing with the enumeration is slower.
_SETTLED = (np.uint8(Reason.IDLE), np.uint8(Reason.UNDEFINED))


class FindingText(NamedTuple):
    """Texts of `Finding`: `brief` and `detail` of the last tick beyond the limit, and `current`."""

    brief: str = ""
    detail: str = ""
    current: str = ""


_NO_TEXT = FindingText()


@dataclass(frozen=True, slots=True, eq=False)
class Watched:
    """State of one rule for n subjects.

    Attributes:
        keys: the subjects.
        since_ns: int64 (n,), wall time of the first tick beyond the limit; 0 for none.
        began_ns: int64 (n,), CLOCK_MONOTONIC of it.
        held_s: float64 (n,), seconds beyond the limit since then.
        ticks: int64 (n,), ticks beyond the limit.
        away_s: float64 (n,), seconds that a finding has been within.
        unknown_s: float64 (n,), seconds without a value.
        active: bool (n,), findings.
        texts: n texts of findings.
        is_quiet: no subject is a finding, or counts towards one.
    """

    keys: tuple[FindingKey, ...] = ()
    since_ns: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    began_ns: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    held_s: Floats = field(default_factory=lambda: np.zeros(0))
    ticks: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    away_s: Floats = field(default_factory=lambda: np.zeros(0))
    unknown_s: Floats = field(default_factory=lambda: np.zeros(0))
    active: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    texts: tuple[FindingText, ...] = ()
    is_quiet: bool = True


@dataclass(frozen=True, slots=True)
class EarlierFindings:
    """When findings began that a fold meets at its begin after a jump in a recording.

    Attributes:
        from_ns, to_ns: wall time of the first sample, and the latest at which a finding that began
            before it may be met.
        until_ns: wall time up to which begins are known.
        begins: wall time and CLOCK_MONOTONIC of begins by rule and subject, as recorded, the newest
            first.
        is_whole: no earlier ones were left out.
        noted: the same of those that the recording notes as it is played.
    """

    from_ns: int = 0
    to_ns: int = 0
    until_ns: int = 0
    begins: Mapping[tuple[str, str], tuple[tuple[int, int], ...]] = field(default_factory=dict)
    is_whole: bool = True
    noted: Mapping[tuple[str, str], tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FindingState:
    """State of each rule by id, the tick it is of, functions that left, the past."""

    monotonic_ns: int = 0
    watched: Mapping[str, Watched] = field(default_factory=dict)
    gone: DepartureState = field(default_factory=DepartureState)
    earlier: EarlierFindings = field(default_factory=EarlierFindings)


@dataclass(frozen=True, slots=True)
class _Tick:
    """Times of a tick, the seconds it stands for, and whether it follows a gap."""

    wall_ns: int
    monotonic_ns: int
    seconds: float
    gap: bool


def step_findings(
    state: FindingState,
    frame: Frame,
    other_pollers: Mapping[int, Sequence[str]],
    *,
    pace_s: float,
    rules: Sequence[Rule] | None = None,
    recent: Recent | None = None,
    settings: RuleSettings = NO_SETTINGS,
) -> tuple[FindingState, tuple[Finding, ...]]:
    """Fold one frame in; its findings, by rules the most severe first, then by place.

    `other_pollers`: as `FindingInputs` has it. `pace_s`: requested seconds between samples.
    `recent`: rates of the last minutes. `settings`: the operator's limits, and muted rules.
    """
    passed_s = (frame.monotonic_ns - state.monotonic_ns) / 1e9
    if passed_s < 0:
        state, passed_s = FindingState(earlier=state.earlier), pace_s
    gap = passed_s > max(_GAP_TICKS * pace_s, _GAP_AT_LEAST_S)
    tick = _Tick(frame.wall_ns, frame.monotonic_ns, pace_s if gap else passed_s, gap)
    gone = step_departures(state.gone, frame)
    inputs = FindingInputs(frame, other_pollers, gone.gone, recent or {}, settings)
    names = setting_names((nf.name, nf.cpus) for nf in frame.nfs) if settings.rows else {}
    watched, findings = {}, []
    for rule in all_rules() if rules is None else rules:
        measured = rule.measure(inputs)
        is_set = any(row.rule == rule.id for row in settings.rows)
        nfs = _nfs_of(measured, names) if is_set else None
        limits = _limits_of(rule, nfs, settings)
        now = _step(state.watched.get(rule.id, _NOTHING), rule, limits, measured, tick)
        watched[rule.id] = now
        findings += _findings(rule, limits, now, measured, nfs=nfs or [], settings=settings)
    after = FindingState(frame.monotonic_ns, watched, gone, state.earlier)
    return after, tuple(_with_begin(item, state.earlier) for item in findings)


def _with_begin(item: Finding, earlier: EarlierFindings) -> Finding:
    """A finding with its recorded begin: without one near its first tick it had not ended."""
    since_ns, began_ns = earlier.noted.get((item.rule, item.where), (0, 0))
    if 0 <= item.since_ns - since_ns <= _NOTED_WITHIN_NS:
        from_ns = earlier.from_ns if since_ns < earlier.from_ns else 0
        return replace(item, since_ns=since_ns, began_ns=began_ns, read_from_ns=from_ns)
    if not earlier.from_ns <= item.since_ns <= max(earlier.to_ns, earlier.until_ns):
        return item
    begins = [
        one for one in earlier.begins.get((item.rule, item.where), ()) if one[0] <= item.since_ns
    ]
    if not begins:
        may_be_earlier = item.since_ns <= earlier.to_ns or not earlier.is_whole
        return replace(item, is_bound=True, read_from_ns=item.since_ns) if may_be_earlier else item
    since_ns, began_ns = begins[0]
    if len(begins) > 1 and since_ns < earlier.to_ns:
        item = replace(item, is_again=True)
    if since_ns == item.since_ns:
        return item
    from_ns = earlier.from_ns if since_ns < earlier.from_ns else 0
    return replace(item, since_ns=since_ns, began_ns=began_ns, read_from_ns=from_ns)


def begun(before: Sequence[Finding], after: Sequence[Finding]) -> tuple[Finding, ...]:
    """Findings that are new in this tick."""
    known = {(item.rule, item.subject, item.since_ns) for item in before}
    return tuple(item for item in after if (item.rule, item.subject, item.since_ns) not in known)


_NOTHING = Watched()


@dataclass(frozen=True, slots=True)
class _Limits:
    """Limit and clear limit of a rule, or float64 (n,) where NFs have their own."""

    limit: float | Floats
    clear: float | Floats

    def printed(self, rule: Rule, index: int) -> str:
        limit = self.limit
        return rule.printed(limit if isinstance(limit, float) else float(limit[index]))


# Of each NF that a subject is about the names under which its settings are.
_Nfs: TypeAlias = tuple[tuple[str, ...], ...]


def _nfs_of(measured: Measured, names: Mapping[str, tuple[str, ...]]) -> list[_Nfs]:
    """NFs that each subject is about; empty for others. `names`: of `setting_names`."""

    def nfs(text: str) -> _Nfs:
        # A name may have a comma itself.
        items = (text,) if text in names else text.split(", ")
        return tuple(names.get(item, (item,)) for item in items)

    words = measured.words.get("nf")
    if words is not None:
        return [nfs(text) for text in words]
    subjects = (key.subject for key in measured.keys)
    return [nfs(item.name) if item.kind == "nf" else () for item in subjects]


def _limits_of(rule: Rule, nfs: Sequence[_Nfs] | None, settings: RuleSettings) -> _Limits:
    """The operator's limits; clear limits keep their proportion."""
    if nfs is None or not any(
        row.rule == rule.id and row.limit is not None for row in settings.rows
    ):
        return _Limits(float(rule.limit), float(rule.clear))
    own = [limit_for(rule, names, settings) for names in nfs]
    limit = np.array(own, dtype=np.float64)
    changed = limit != rule.limit
    scaled = limit * (rule.clear / rule.limit if rule.limit else 1.0)
    return _Limits(limit, np.where(changed, scaled, rule.clear))


def limit_for(rule: Rule, nfs: Sequence[tuple[str, ...]], settings: RuleSettings) -> float:
    """The limit of the first of these NFs that has one, else that of all."""
    if not settings.rows:
        return rule.limit
    limits = (settings.first_of(rule.id, names).limit for names in (*nfs, ()))
    return next((limit for limit in limits if limit is not None), rule.limit)


def _step(before: Watched, rule: Rule, limits: _Limits, measured: Measured, tick: _Tick) -> Watched:
    old = _aligned(before, tuple(measured.keys))
    if not len(old.keys):
        return old
    far = _far(rule, limits, measured)
    if old.is_quiet and not far.any():
        return old  # the usual case
    within = _within(rule, limits, measured)
    unknown = ~far & ~within & ~_between(rule, measured)
    unknown_s = np.where(unknown, old.unknown_s + tick.seconds, 0.0)
    lost = (unknown_s > UNKNOWN_FOR_S) & ~(old.active & _silent(measured))
    # Candidates continue only while beyond the limit or unknown.
    fresh = (old.ticks == 0) | (tick.gap & ~old.active)
    ticks = np.where(far, np.where(fresh, 1, old.ticks + 1), np.where(unknown, old.ticks, 0))
    held_s = np.where(far & ~fresh, old.held_s + tick.seconds, np.where(unknown, old.held_s, 0.0))
    since_ns = np.where(far & fresh, tick.wall_ns, old.since_ns)
    began_ns = np.where(far & fresh, tick.monotonic_ns, old.began_ns)
    if tick.gap:
        ticks, held_s = (np.where(unknown & ~old.active, 0, item) for item in (ticks, held_s))
    away_s = np.where(within, old.away_s + tick.seconds, np.where(unknown, old.away_s, 0.0))
    ends = (old.active & (away_s >= ENDS_AFTER_S)) | lost
    begins = far & (held_s >= rule.at_least_s) & (ticks >= LEAST_TICKS)
    active = ((old.active & ~ends) | begins) & ~lost
    ticks = np.where(lost, 0, ticks)
    known = active | (ticks > 0)
    lasts = old.active & active
    return Watched(
        keys=old.keys,
        since_ns=np.where(known, np.where(lasts, old.since_ns, since_ns), 0),
        began_ns=np.where(known, np.where(lasts, old.began_ns, began_ns), 0),
        held_s=np.where(lost, 0.0, held_s),
        ticks=ticks,
        away_s=np.where(active, away_s, 0.0),
        unknown_s=unknown_s,
        active=active,
        texts=_texts(rule, limits, measured, old, active, far=far, within=within),
        is_quiet=not known.any(),
    )


def _far(rule: Rule, limits: _Limits, measured: Measured) -> Bools:
    """Subjects beyond the limit whose conditions are met."""
    column = measured.values
    with np.errstate(invalid="ignore"):
        above = rule.beyond == "above"
        beyond = column.values > limits.limit if above else column.values < limits.limit
    far: Bools = beyond & column.present
    for only in rule.only:
        far = far & _met(only, measured.context[only.name])
    return far


def _within(rule: Rule, limits: _Limits, measured: Measured) -> Bools:
    """Subjects within the clear limit, or with a condition that is not met."""
    column = measured.values
    with np.errstate(invalid="ignore"):
        above = rule.beyond == "above"
        clear = column.values <= limits.clear if above else column.values >= limits.clear
    within: Bools = (clear & column.present) | _settled(column)
    for only in rule.only:
        within = within | _unmet(only, measured.context[only.name])
    return within


def _between(rule: Rule, measured: Measured) -> Bools:
    """Subjects with a value whose conditions are met."""
    between: Bools = measured.values.present
    for only in rule.only:
        between = between & _met(only, measured.context[only.name])
    return between


def _met(only: Only, condition: Column) -> Bools:
    if only.unknown:
        return ~_unmet(only, condition)
    with np.errstate(invalid="ignore"):
        high: Bools = condition.present & (condition.values >= only.least)
    return high


def _unmet(only: Only, condition: Column) -> Bools:
    with np.errstate(invalid="ignore"):
        low: Bools = condition.present & (condition.values < only.least)
    return low | _settled(condition)


def _settled(column: Column) -> Bools:
    """Rows whose reason says that there is no such number now."""
    idle, undefined = _SETTLED
    settled: Bools = (column.reasons == idle) | (column.reasons == undefined)
    return settled


def _silent(measured: Measured) -> Bools:
    """Subjects with a number that is absent because its source is late or fails."""
    silent: Bools = np.zeros(len(measured.keys), np.bool_)
    for column in (measured.values, *measured.context.values()):
        silent = silent | has_reason(column.reasons, _SILENT)
    return silent


def _aligned(before: Watched, keys: tuple[FindingKey, ...]) -> Watched:
    """State for these subjects; blank for new ones."""
    if before.keys == keys:
        return before
    known = {key: index for index, key in enumerate(before.keys)}
    rows = [known.get(key, -1) for key in keys]  # -1: the blank one behind the others

    def aligned(values: NDArray[Any]) -> NDArray[Any]:
        return np.append(values, values.dtype.type(0))[rows]

    return Watched(
        keys,
        aligned(before.since_ns),
        aligned(before.began_ns),
        aligned(before.held_s),
        aligned(before.ticks),
        aligned(before.away_s),
        aligned(before.unknown_s),
        aligned(before.active),
        tuple((*before.texts, _NO_TEXT)[row] for row in rows),
        before.is_quiet,
    )


def _texts(
    rule: Rule,
    limits: _Limits,
    measured: Measured,
    old: Watched,
    active: Bools,
    *,
    far: Bools,
    within: Bools,
) -> tuple[FindingText, ...]:
    """Texts of findings; those without a value keep theirs."""
    texts = [_NO_TEXT] * len(active)
    for index in np.flatnonzero(active).tolist():
        text = old.texts[index]
        if far[index]:
            text = _text(rule, limits, measured, index)
        elif within[index]:
            text = text._replace(current=f"{_current(rule, limits, measured, index)}, ending")
        elif measured.values.present[index]:
            text = text._replace(current=_current(rule, limits, measured, index))
        texts[index] = text
    return tuple(texts)


def _text(rule: Rule, limits: _Limits, measured: Measured, index: int) -> FindingText:
    numbers: Mapping[str, float | str] = {
        **{name: float(item.values[index]) for name, item in measured.context.items()},
        **{name: word[index] for name, word in measured.words.items()},
        "value": rule.printed(float(measured.values.values[index])),
        "limit": limits.printed(rule, index),
        "beyond": rule.beyond,
    }
    return FindingText(rule.text.format_map(numbers), rule.detail.format_map(numbers))


def _current(rule: Rule, limits: _Limits, measured: Measured, index: int) -> str:
    """Current value, or that the conditions are no longer met."""
    column = measured.values
    if rule.when or not column.present[index]:
        return "; no longer so"
    number = float(column.values[index])
    limit = limits.limit if isinstance(limits.limit, float) else float(limits.limit[index])
    beyond = number > limit if rule.beyond == "above" else number < limit
    return "; its conditions are no longer met" if beyond else f"; now {rule.printed(number)}"


def _findings(
    rule: Rule,
    limits: _Limits,
    now: Watched,
    measured: Measured,
    *,
    nfs: Sequence[_Nfs],
    settings: RuleSettings,
) -> list[Finding]:
    if now.is_quiet:
        return []  # the usual case
    clear = np.broadcast_to(limits.clear, len(now.keys))
    excess = _excess(rule, limits, measured)

    def is_muted(row: int) -> bool:
        names = (nfs[row] or ((),)) if row < len(nfs) else ()
        return bool(names) and all(settings.first_of(rule.id, one).muted for one in names)

    return [
        Finding(
            rule=rule.id,
            metric=rule.metrics[0],
            subject=measured.keys[row].subject,
            text="".join(now.texts[row]),
            brief=now.texts[row].brief,
            current=now.texts[row].current,
            since_ns=int(now.since_ns[row]),
            began_ns=int(now.began_ns[row]),
            is_note=rule.is_note,
            is_ending=bool(now.away_s[row] > 0 or now.unknown_s[row] > 0 or now.texts[row].current),
            is_muted=is_muted(row),
            clear=float(clear[row]),
            excess=float(excess[row]),
        )
        for row in np.flatnonzero(now.active).tolist()
    ]


def _excess(rule: Rule, limits: _Limits, measured: Measured) -> Floats:
    """`Finding.excess` of each subject."""
    values, limit = measured.values.values, np.asarray(limits.limit)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = values / limit if rule.beyond == "above" else limit / values
    # Without a limit above 0 the number itself is as good a measure.
    return np.where(measured.values.present, np.where(limit > 0, ratio, values), 0.0)


class FindingOutput(NamedTuple):
    """Findings of a tick, and functions that left."""

    findings: tuple[Finding, ...]
    gone: tuple[NfSighting, ...]


def _run(state: FindingState, tick: FoldTick) -> tuple[FindingState, FindingOutput]:
    state, findings = step_findings(
        state,
        tick.output(FRAME),
        tick.output(OTHER_POLLERS),
        pace_s=tick.pace_s,
        recent=tick.output(RECENT),
        settings=tick.rules,
    )
    return state, FindingOutput(findings, state.gone.gone)


FINDINGS: FoldStage[FindingState, FindingOutput] = FoldStage(
    "findings", FindingState, _run, trim=lambda state: replace(state, watched={}), lasting=True
)
