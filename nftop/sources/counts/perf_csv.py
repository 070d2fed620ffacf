"""`perf stat -x SEPARATOR`, as perf-stat(1) has it under "CSV FORMAT".

    [time] [CPU0 | S0-D0-C0,2 | S0,8 | comm-123] count unit event [cgroup] [variance] running share

Which of the optional columns there are, perf does not say, nor its separator; both are found by
what a count with its event looks like.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from nftop.sources.counts.rows import MAX_LINE, Row, at_line, count_of, is_comment, number_of

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
_LOOKED_AT, _LOOKED_AT_CHARACTERS = 100, 300  # of a file, to find its separator
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


def read_csv(text: str) -> tuple[Row, ...]:
    """The rows of a whole file.

    Raises:
        BadCountsError: a line is none of perf's.
    """
    lines = text.split("\n")
    separator = _separator(lines)
    rows: list[Row] = []
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
            raise at_line(number, line, _why(fields))
    if metrics and not rows:
        raise at_line(*metrics, _ONLY_METRICS)
    return tuple(rows)


def _separator(lines: Sequence[str]) -> str:
    """The first of perf's usual ones that makes a row of some line, or what stands in one."""
    some = [line for line in lines if not is_comment(line)][:_LOOKED_AT]
    some = [line[:_LOOKED_AT_CHARACTERS] for line in some]
    for separator in _SEPARATORS:
        if any(_start(_fields(line, separator)) is not None for line in some):
            return separator
    found = (_LIKE_A_ROW.search(line) for line in some)
    return next((match["separator"] for match in found if match), _SEPARATORS[0])


def _fields(line: str, separator: str) -> list[str]:
    """The columns; an event that holds the separator is one: `cpu/event=0x9c,umask=0x1/`."""
    marked = _terms(separator).sub(lambda event: event[0].replace(separator, _INSIDE), line)
    return [field.strip().replace(_INSIDE, separator) for field in marked.split(separator)]


@cache
def _terms(separator: str) -> re.Pattern[str]:
    # What may be a separator must not be of a term too: to try all ways to cut takes for ever.
    signs = "".join(re.escape(sign) for sign in "=.:~-" if sign not in separator)
    term = rf"[A-Za-z_][\w{signs}]*"
    return re.compile(rf"(?<![\w/])\w+/{term}(?:{re.escape(separator)}{term})+/")


def _start(fields: Sequence[str]) -> int | None:
    """Where the count stands: a unit, which is no number, and an event's name are behind it."""
    for index in range(len(fields) - 2):
        count, unit, event = fields[index : index + 3]
        is_count = number_of(count) is not None or count.startswith("<not ")
        is_unit = not unit.startswith("<") and number_of(unit) is None
        if is_count and is_unit and re.match(r"[A-Za-z]", event):
            return index
    return None


def _row(number: int, line: str, fields: Sequence[str], start: int, separator: str) -> Row:
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
    part = (*_kinds(fields[:start]), *(("cgroup", field) for field in cgroup))
    return Row(event, count, part, running_ns, share)


def _kinds(fields: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What stands before the count; the number of CPUs behind it is no part of what was counted."""
    for index, field in enumerate(fields):
        if index == 0 and number_of(field) is not None:
            yield "interval", field
        elif field and not field.isdecimal():
            kinds = (kind for kind, pattern in _KINDS.items() if re.fullmatch(pattern, field))
            yield next(kinds, "thread"), field


def _cut_number(fields: Sequence[str]) -> bool:
    """Whether part of a number stands before the count, the last field: digits and digits on end.

    An interval has decimals, and behind an aggregate stands how many CPUs it has. With a comma for
    the decimal point, or one for thousands, `3,000` would pass as 0.
    """
    of = ("", *fields)
    return any(
        field.isdecimal() and number_of(after) is not None and not _is_aggregate(before)
        for before, field, after in zip(of, fields, fields[1:], strict=False)
    )


def _is_aggregate(field: str) -> bool:
    kinds = (pattern for kind, pattern in _KINDS.items() if kind != "cpu")
    return any(re.fullmatch(pattern, field) for pattern in kinds)


def _metric_only(fields: Sequence[str]) -> bool:
    """A further metric that perf made of the row before: columns without a count."""
    empty = 0
    for field in fields[:-1]:
        empty = 0 if field else empty + 1
        if empty >= _METRIC_ONLY:
            return True
    return False


def _metrics(fields: Sequence[str]) -> bool:
    """A line of `--topdown` or `--metric-only`: values or their names, each with a separator.

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


def _why(fields: Sequence[str]) -> str:
    return _WANTED if len(fields) < 3 else f"{_WANTED}: no count with a unit and an event behind it"
