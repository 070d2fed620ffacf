"""A file of counts of any form, reduced to one count per event of a table."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from nftop.model.missing import Missing, Reading, Reason
from nftop.model.struct import dataclass
from nftop.sources.counts.forms import (
    BadCountsError,
    CountRow,
    CountScope,
    CountsForm,
    Rows,
    is_comment,
    read_csv,
    read_json,
)
from nftop.uarch.event_names import EventNames
from nftop.uarch.table import Uarch

# Clocks for the proportion of counts of multiplexed groups.
_CLOCKS = ("cycles", "ref_cycles")
_PLURALS = {"cpu": "CPUs"}
_CODE = {"u": "user mode", "k": "the kernel", "h": "the hypervisor", "G": "guests", "H": "the host"}


@dataclass(frozen=True, slots=True)
class EventCounts:
    """Counts of a file, added up."""

    form: CountsForm  # of the file
    events: Mapping[str, Reading]  # by name of the table, if in the file
    unknown: tuple[str, ...]  # names in the file that are no event of the table
    notes: tuple[str, ...]  # sentences on how the counts were combined


@dataclass(frozen=True, slots=True)
class _Known:
    """A row whose event is in the table."""

    event: str
    row: CountRow


def read_rows(text: str) -> Rows:
    """Form of the text, and its rows. Raises BadCountsError."""
    text = text.removeprefix("\ufeff")
    first = next((line for line in text.split("\n") if not is_comment(line)), None)
    if first is None:
        raise BadCountsError("it is empty")
    if first.lstrip().startswith("{"):
        return read_json(text)
    return CountsForm.PERF_CSV, read_csv(text)


def read_counts(text: str, uarch: Uarch) -> EventCounts:
    """The counts of a file for the formulas of a table.

    Counts of different scopes (CPUs, sockets, cgroups, intervals) are added up; a scope without
    counts is left out. Within a scope an event may occur several times, in multiplexed groups. Then
    each count is put in proportion to the clock that its own group counted, and the event has the
    mean: sum of its counts / sum of those clocks x mean of all clocks. Counts without a clock in
    their group are used as they are. Raises BadCountsError: no file of counts, or no event of the
    table.
    """
    form, rows = read_rows(text)
    known, unknown, code = _known(rows, uarch)
    if not rows:
        raise BadCountsError("it has no counts")
    if not known:
        some = ", ".join(dict.fromkeys(unknown))[:200]
        raise BadCountsError(f"no event of it is one of {uarch.name}'s table: {some}")
    if form is CountsForm.JSON:
        _agree(known)
    scopes: dict[CountScope, list[_Known]] = defaultdict(list)
    for item in known:
        scopes[item.row.scope].append(item)
    clock = _clock(scopes.values())
    totals = [_scope_totals(total, clock, uarch.of_core) for total in scopes.values()]
    counted = [total for total in totals if not all(isinstance(c, Missing) for c in total.values())]
    events = _added(counted or totals)
    notes = _notes(scopes, len(counted), clock, known)
    if code:
        notes.insert(
            0, f"only what ran in {' and '.join(_CODE[entry] for entry in code)} was counted"
        )
    return EventCounts(form, events, tuple(dict.fromkeys(unknown)), tuple(notes))


def _known(rows: Iterable[CountRow], uarch: Uarch) -> tuple[list[_Known], list[str], str]:
    """Rows of the table with the same code, unknown names, and the code.

    All code if some row has it: `instructions:k` is then another event than `instructions`.
    """
    names = EventNames(uarch)
    by_code: dict[str, list[_Known]] = defaultdict(list)
    unknown = []
    for row in rows:
        named = names.find(row.event)
        if named is None:
            unknown.append(row.event)
        else:
            by_code[named.code].append(_Known(named.event, row))
    if len(by_code) > 1 and "" not in by_code:
        kinds = ", ".join(f":{code}" for code in sorted(by_code))
        raise BadCountsError(f"its events count different code ({kinds}) and can't be compared")
    code = "" if "" in by_code else next(iter(by_code), "")
    others = [e.row.event for key, rest in by_code.items() if key != code for e in rest]
    return by_code.get(code, []), unknown + others, code


def _agree(known: Iterable[_Known]) -> None:
    """Raises BadCountsError if one event has two names with different counts."""
    first: dict[str, CountRow] = {}
    for item in known:
        row = first.setdefault(item.event, item.row)
        if row.count != item.row.count:
            raise BadCountsError(
                f"{row.event} and {item.row.event} are the same event with different counts"
            )


def _clock(scopes: Iterable[Sequence[_Known]]) -> str | None:
    """The clock that most groups of some scope counted; None if none counted one twice."""
    most: Counter[str] = Counter()
    for rows in scopes:
        most |= Counter(item.event for item in rows if item.event in _CLOCKS)
    clock = max(_CLOCKS, key=lambda item: most[item])
    return clock if most[clock] > 1 else None


def _scope_totals(
    rows: Sequence[_Known], clock: str | None, of_core: frozenset[str]
) -> dict[str, Reading]:
    """One scope's count of each event."""
    clocks = [row.row.count for row in rows if row.event == clock]
    ticks = [count for count in clocks if not isinstance(count, Missing)]
    mean_ticks = sum(ticks) / len(ticks) if ticks else 0.0
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    absent: dict[str, Reading] = {}
    for _, group in groupby(rows, key=lambda row: (row.row.running_ns, row.row.share)):
        together = list(group)
        own = _own_ticks(together, clock)
        for item in together:
            count = item.row.count
            if isinstance(count, Missing):
                absent[item.event] = Missing(count.reason, f"{count.message}: {item.row.event}")
            else:
                # What counts for both threads of a core goes on while this one's clock halts.
                reference = own if item.event not in of_core else None
                spans[item.event].append((count, reference or mean_ticks))
    return absent | {event: _mean(counts, mean_ticks) for event, counts in spans.items()}


def _own_ticks(group: Sequence[_Known], clock: str | None) -> float | None:
    """The clock that was counted with a group; None if there is not exactly one."""
    ticks = [
        e.row.count for e in group if e.event == clock and not isinstance(e.row.count, Missing)
    ]
    return ticks[0] if len(ticks) == 1 and ticks[0] > 0 else None


def _mean(counts: Sequence[tuple[float, float]], mean_ticks: float) -> float:
    """Mean of counts in proportion to their clocks."""
    ticks = sum(own for _, own in counts)
    total = sum(count for count, _ in counts)
    return total / ticks * mean_ticks if ticks > 0 else total / len(counts)


def _added(scopes: Sequence[Mapping[str, Reading]]) -> dict[str, Reading]:
    """The scopes' counts added up; an event that some scope lacks has no total."""
    totals: dict[str, Reading] = {}
    for event in dict.fromkeys(event for total in scopes for event in total):
        counts = [total.get(event) for total in scopes]
        numbers = [count for count in counts if isinstance(count, float)]
        why = next((count for count in counts if isinstance(count, Missing)), None)
        if len(numbers) == len(scopes):
            totals[event] = sum(numbers)
        elif numbers:
            of = f"{event} was counted in {len(numbers)} of {len(scopes)} parts of the file"
            totals[event] = Missing(Reason.SOURCE, f"{of}, so their sum is not comparable")
        else:
            totals[event] = why or Missing(Reason.SOURCE)
    return totals


def _notes(
    scopes: Mapping[CountScope, object], counted: int, clock: str | None, known: Sequence[_Known]
) -> list[str]:
    notes = []
    if len(scopes) > 1:
        kinds: dict[str, set[str]] = defaultdict(set)
        for total in scopes:
            for kind, name in total:
                kinds[kind].add(name)
        several = [
            f"{len(item)} {_PLURALS.get(kind, f'{kind}s')}"
            for kind, item in kinds.items()
            if len(item) > 1
        ]
        notes.append(f"added up: {', '.join(several)}")
        if 0 < counted < len(scopes):
            left = len(scopes) - counted
            notes.append(f"left out: {left} of these {len(scopes)} parts, without a count in them")
    if clock is not None:
        notes.append(
            f"events were counted in turns: each is in proportion to the {clock} of its own turn"
        )
    shares = [item.row.share for item in known if item.row.share is not None]
    counts = [share for share in shares if share > 0]
    if counts and min(counts) < 0.995:
        notes.append(
            f"an estimate: the least counted event was counted {min(counts):.0%} of the time"
        )
    return notes
