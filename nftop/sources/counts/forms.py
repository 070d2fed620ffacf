"""Counts of a file (`{event: count}`, `perf stat -j`, `perf stat -x`) parsed into rows."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Any, TypeAlias

from nftop.model.missing import Missing, Reading, Reason
from nftop.model.struct import dataclass

MAX_LINE = 100_000  # characters; a line of perf stat has a few hundred
_SHOWN = 60
# Written by perf stat --topdown to stderr, by default the destination of counts.
_WARNINGS = ("nmi_watchdog enabled with topdown.", "Disable with echo 0 > ")
_UNCOUNTED = {
    # Every counter was taken, or what perf watched never ran.
    "<not counted>": Missing(Reason.SOURCE, "perf stat did not count it"),
    "<not supported>": Missing(Reason.HARDWARE, "perf stat can't count it there"),
}


class BadCountsError(ValueError):
    """A file that can't be read as counts; the text names the line and the cause."""


class CountsForm(Enum):
    """Form of a file."""

    JSON = "JSON, event by event"
    PERF_JSON = "perf stat -j"
    PERF_CSV = "perf stat -x"


CountScope: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class CountRow:
    """One event's count.

    Attributes:
        event: as in the file.
        count: scaled for the time the event was not on a counter, as perf does.
        scope: what was counted and when, by kind: ("interval", "1.000"), ("cpu", "CPU0"). Empty if
            the file has one scope. Rows of different scopes add up.
        running_ns: time the event was on a counter; None if not in the file.
        share: the same as a share of the time, 0..1; None likewise.
    """

    event: str
    count: Reading
    scope: CountScope = ()
    running_ns: int | None = None
    share: float | None = None


Rows: TypeAlias = tuple[CountsForm, tuple[CountRow, ...]]


def count_of(text: str) -> Reading | None:
    """A count as perf prints it, or why it has none; None for any other text."""
    if text in _UNCOUNTED:
        return _UNCOUNTED[text]
    number = number_of(text)
    return number if number is not None and number >= 0 else None


def number_of(text: str) -> float | None:
    """A finite decimal number; None for any other text."""
    if not text.isascii() or "_" in text:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def at_line(number: int, line: str, why: str) -> BadCountsError:
    """The error of a line, counted from 1."""
    shown = line.strip()
    shown = shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."
    return BadCountsError(f"line {number}: {why}: {shown}" if shown else f"line {number}: {why}")


def is_comment(line: str) -> bool:
    """Whether a line has no data: perf writes `# started on ...` and warnings."""
    return not line.strip() or line.lstrip().startswith(("#", *_WARNINGS))


# Keys of perf about a count; all other keys are its scope.
_PERF = frozenset({"counter-value", "event-runtime", "metric-value", "metric-unit"})
_OF_THE_COUNT = _PERF | {
    "unit",
    "event",
    "variance",
    "pcnt-running",
    "metric-threshold",
    "aggregate-number",
    "counters",
}
# Characters of one document: empty arrays take some 20 times as much memory.
_MAX_DOCUMENT = 4 << 20
# perf prints metrics with C's printf, for which JSON has no word.
_NOT_JSON = re.compile(r":\s*-?(?:nan|inf)\b")


def read_json(text: str) -> Rows:
    """The rows of a file whose first character is a brace. Raises BadCountsError."""
    try:
        whole = _load(text)
    except ValueError as error:
        if _first_object(text) is None:
            line = getattr(error, "lineno", 1)
            reason = getattr(error, "msg", str(error))
            raise BadCountsError(f"line {line}: bad JSON: {reason}") from None
        return CountsForm.PERF_JSON, tuple(_perf_rows(text))
    if _PERF & set(whole):
        return CountsForm.PERF_JSON, tuple(_perf_rows(text.strip().replace("\n", " ")))
    return CountsForm.JSON, tuple(
        CountRow(event, _count(event, count)) for event, count in whole.items()
    )


def _first_object(text: str) -> Mapping[str, Any] | None:
    """The first line's object, if it is of perf."""
    first = next((line for line in text.split("\n") if not is_comment(line)), "")
    try:
        record = _load(first.rstrip().removesuffix(","))
    except ValueError:
        return None
    return record if _PERF & set(record) else None


def _perf_rows(text: str) -> Iterable[CountRow]:
    for number, line in enumerate(text.split("\n"), 1):
        if is_comment(line):
            continue
        if len(line) > MAX_LINE:
            raise at_line(number, line, "too long a line")
        try:
            record = _load(line.rstrip().removesuffix(","))
        except ValueError as error:
            raise at_line(number, line, f"bad JSON: {getattr(error, 'msg', error)}") from None
        if "counter-value" in record:
            yield _perf_row(number, line, record)
        elif "metric-unit" not in record and "metric-value" not in record:
            raise at_line(number, line, "no `counter-value`, which perf stat -j writes")


def _perf_row(number: int, line: str, record: Mapping[str, Any]) -> CountRow:
    event, given = record.get("event"), record["counter-value"]
    if not isinstance(event, str) or not event:
        raise at_line(number, line, "no `event` with a name")
    count = count_of(str(given)) if not isinstance(given, bool) else None
    if count is None:
        raise at_line(number, line, f"{given!r} is no count")
    running = number_of(str(record.get("event-runtime", "")))
    percent = number_of(str(record.get("pcnt-running", "")))
    # The number of CPUs behind a count is no part of what was counted.
    scope = tuple((key, str(value)) for key, value in record.items() if key not in _OF_THE_COUNT)
    return CountRow(
        event,
        count,
        scope,
        None if running is None or running < 0 else int(running),
        percent / 100 if percent is not None and 0 <= percent <= 100 else None,
    )


def _count(event: str, given: object) -> Reading:
    if given is None:
        return Missing(Reason.SOURCE, "it is null")
    if isinstance(given, str):
        count = count_of(given.strip())
    else:
        is_number = isinstance(given, int | float) and not isinstance(given, bool)
        count = count_of(str(given)) if is_number else None
    if count is None:
        raise BadCountsError(f"the count of {event[:100]!r} is {str(given)[:40]!r}, no number >= 0")
    return count


def _load(text: str) -> dict[str, Any]:
    """A JSON object.

    Raises ValueError: anything else; with `msg` and `lineno` as in JSONDecodeError if known.
    """
    if len(text) > _MAX_DOCUMENT:
        raise ValueError(f"longer than {_MAX_DOCUMENT >> 20} MiB")
    try:
        record = _decode(text)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(record, dict):
        raise ValueError("no object, which begins with a brace")
    return record


def _decode(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError:
        mended = _NOT_JSON.sub(": null", text)
        if mended == text:
            raise
        return json.loads(mended, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = {_writable(name): _writable(value) for name, value in pairs}
    if len(record) < len(pairs):
        twice = next(
            name for name, times in Counter(name for name, _ in pairs).items() if times > 1
        )
        raise ValueError(f"{twice[:100]!r} is a duplicate")
    return record


def _writable(value: Any) -> Any:
    """A value; a text without halves of surrogate pairs, which JSON can name and UTF-8 can't."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "replace").decode()
    return value


# `perf stat -x SEPARATOR`, perf-stat(1), "CSV FORMAT":
# [time] [CPU0 | S0-D0-C0,2 | S0,8 | comm-123] count unit event [cgroup] [variance] running share
# The output names neither its separator nor its optional columns: both are inferred from the form
# of a count and its event.
_WANTED = "no line of `perf stat -x,` or `perf stat -j` output"
_CUT = "the separator {!r} occurs in its numbers too; let perf stat write another, as with -x ';'"
# A count, unit, event, time running and share, with the same separator between them.
_LIKE_A_ROW = re.compile(
    r"(?:^|[^\w.])(?:[0-9.]+|<not counted>|<not supported>)"
    r"(?P<separator>[^\w.<>/-]{1,4}?)[A-Za-z%/]*(?P=separator)"
    r"[A-Za-z][^\s]*?(?P=separator)(?:[^\s]*?(?P=separator))?[0-9]+(?P=separator)[0-9.]+"
)
_SEPARATORS = (",", ";", "\t", "|")
# perf's aggregates, --per-...; a thread is called by its command.
_KINDS = {
    "cpu": r"CPU\d+",
    "core": r"S\d+-D\d+(-CLS\d+)?-C\d+",
    "cache": r"S\d+-D\d+-L\d+-ID\d+",
    "cluster": r"S\d+-D\d+-CLS\d+",
    "die": r"S\d+-D\d+",
    "socket": r"S\d+",
    "node": r"N-?\d+",
}
_AGGREGATE = re.compile("|".join(item for kind, item in _KINDS.items() if kind != "cpu"))
_PROBED_LINES, _PROBED_CHARACTERS = 100, 300  # of a file, to find its separator
_INSIDE = "\0"
_OF_MODIFIERS = ":"  # as a separator it is an event's too, `cycles:u`
# A value of `--topdown` or `--metric-only`, and a name in the line above the values.
_METRIC_VALUE = re.compile(r"-?\d+\.\d+|nan|inf")
_METRIC_NAME = re.compile(r"%? *[A-Za-z][\w /.()-]*")
_ONLY_METRICS = (
    "these are perf's own metrics (--topdown, --metric-only) and no counts: leave that option out, "
    "or count what `nftop tma --events` prints"
)
_METRIC_ONLY = 3  # so many empty columns on end where the count, its unit and event would be


def read_csv(text: str) -> tuple[CountRow, ...]:
    """The rows of a whole file. Raises BadCountsError."""
    lines = text.split("\n")
    separator = _separator(lines)
    rows: list[CountRow] = []
    metrics = None
    for number, line in enumerate(lines, 1):
        if is_comment(line) or not line.strip(f"{separator} \t\r"):
            continue
        if len(line) > MAX_LINE:
            raise at_line(number, line, "too long a line")
        fields = _fields(line, separator)
        start = _start(fields)
        if start is not None and _cut_number(fields[: start + 1]):
            raise at_line(number, line, _CUT.format(separator))
        if start is not None:
            rows.append(_row(number, line, fields, start, separator))
        elif _metrics(fields):
            metrics = metrics or (number, line)
        elif not _metric_only(fields):
            raise at_line(number, line, _WANTED)
    if metrics and not rows:
        raise at_line(*metrics, _ONLY_METRICS)
    return tuple(rows)


def _separator(lines: Sequence[str]) -> str:
    """The first of perf's usual separators that makes a row of some line, or one inferred."""
    some = [line for line in lines if not is_comment(line)][:_PROBED_LINES]
    some = [line[:_PROBED_CHARACTERS] for line in some]
    for separator in _SEPARATORS:
        if any(_start(_fields(line, separator)) is not None for line in some):
            return separator
    matches = (_LIKE_A_ROW.search(line) for line in some)
    return next((match["separator"] for match in matches if match), _SEPARATORS[0])


def _fields(line: str, separator: str) -> list[str]:
    """The columns; an event that contains the separator is one: `cpu/event=0x9c,umask=0x1/`."""
    marked = _terms(separator).sub(lambda event: event[0].replace(separator, _INSIDE), line)
    return [field.strip().replace(_INSIDE, separator) for field in marked.split(separator)]


@cache
def _terms(separator: str) -> re.Pattern[str]:
    # A separator must not be part of a term too: the search would take for ever.
    signs = "".join(re.escape(sign) for sign in "=.:~-" if sign not in separator)
    term = rf"[A-Za-z_][\w{signs}]*"
    return re.compile(rf"(?<![\w/])\w+/{term}(?:{re.escape(separator)}{term})+/")


def _start(fields: Sequence[str]) -> int | None:
    """Index of the count: a unit, which is no number, and an event's name follow it."""
    for index in range(len(fields) - 2):
        count, unit, event = fields[index : index + 3]
        is_count = number_of(count) is not None or count.startswith("<not ")
        is_unit = not unit.startswith("<") and number_of(unit) is None
        if is_count and is_unit and re.match(r"[A-Za-z]", event):
            return index
    return None


def _row(number: int, line: str, fields: Sequence[str], start: int, separator: str) -> CountRow:
    count = count_of(fields[start])
    if count is None:
        raise at_line(number, line, f"{fields[start]!r} is no count")
    behind = fields[start + 3 :]
    # The cgroup and the variance (`0.50%`) stand before the time running, a whole number.
    at = next((index for index, field in enumerate(behind[:3]) if field.isdecimal()), None)
    between = [field for field in behind[: at or 0] if field and not field.endswith("%")]
    event, cgroup = fields[start + 2], between
    if separator == _OF_MODIFIERS:
        event, cgroup = separator.join([event, *between]), []
    running_ns, share = None, None
    if at is not None and behind[at].isascii() and len(behind[at]) < 20:
        running_ns = int(behind[at])
        percent = number_of(behind[at + 1]) if len(behind) > at + 1 else None
        share = percent / 100 if percent is not None and 0 <= percent <= 100 else None
    scope = (*_kinds(fields[:start]), *(("cgroup", field) for field in cgroup))
    return CountRow(event, count, scope, running_ns, share)


def _kinds(fields: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Kinds of the columns before the count, without the number of CPUs."""
    for index, field in enumerate(fields):
        if index == 0 and number_of(field) is not None:
            yield "interval", field
        elif field and not field.isdecimal():
            kinds = (kind for kind, pattern in _KINDS.items() if re.fullmatch(pattern, field))
            yield next(kinds, "thread"), field


def _cut_number(fields: Sequence[str]) -> bool:
    """Whether part of a number stands before the count: digits before digits.

    An interval has decimals, and an aggregate is followed by its number of CPUs. With a decimal
    comma or thousands separators, `3,000` would pass as 0.
    """
    of = ("", *fields)
    return any(
        field.isdecimal() and number_of(after) is not None and not _AGGREGATE.fullmatch(before)
        for before, field, after in zip(of, fields, fields[1:], strict=False)
    )


def _metric_only(fields: Sequence[str]) -> bool:
    """Whether it is a further metric of the row before: columns without a count."""
    empty = 0
    for field in fields[:-1]:
        empty = 0 if field else empty + 1
        if empty >= _METRIC_ONLY:
            return True
    return False


def _metrics(fields: Sequence[str]) -> bool:
    """Whether it is a line of `--topdown` or `--metric-only`: values or their names.

    Aggregates and the number of their CPUs stand before the values.
    """
    if len(fields) < 3 or fields[-1]:
        return False
    shown = [field for field in fields if field]
    if all(_METRIC_NAME.fullmatch(field) for field in shown):
        return True
    kinds = [pattern for kind, pattern in _KINDS.items()]
    first = next((i for i, f in enumerate(shown) if _METRIC_VALUE.fullmatch(f)), len(shown))
    values = shown[first:]
    before = all(f.isdecimal() or any(re.fullmatch(k, f) for k in kinds) for f in shown[:first])
    return before and len(values) > 1 and all(_METRIC_VALUE.fullmatch(f) for f in values)
