"""Counts in JSON: `{event: count}`, or `perf stat -j`, which writes an object a line."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from nftop.model.reading import Missing, Reading, Reason
from nftop.sources.counts.rows import (
    MAX_LINE,
    BadCountsError,
    Form,
    Row,
    Rows,
    at_line,
    count_of,
    is_comment,
    number_of,
)

# What perf says of a count; all other keys say whose it is and when.
_PERF = frozenset({"counter-value", "event-runtime", "metric-value", "metric-unit"})
_OF_THE_COUNT = _PERF | {
    "unit", "event", "variance", "pcnt-running", "metric-threshold", "aggregate-number", "counters",
}  # fmt: skip
# Characters of one document: empty arrays take some 20 times as much memory.
_MAX_DOCUMENT = 4 << 20
# perf prints metrics with C's printf, for which JSON has no word.
_NOT_JSON = re.compile(r":\s*-?(?:nan|inf)\b")


def read_json(text: str) -> Rows:
    """The rows of a file whose first character is a brace.

    Raises:
        BadCountsError: it is no JSON, or a count is none.
    """
    try:
        whole = _load(text)
    except ValueError as error:
        if _first_object(text) is None:
            line = getattr(error, "lineno", 1)
            reason = getattr(error, "msg", str(error))
            raise BadCountsError(f"line {line}: bad JSON: {reason}") from None
        return Form.PERF_JSON, tuple(_perf_rows(text))
    if _PERF & set(whole):
        return Form.PERF_JSON, tuple(_perf_rows(text.strip().replace("\n", " ")))
    return Form.JSON, tuple(Row(event, _count(event, count)) for event, count in whole.items())


def _first_object(text: str) -> Mapping[str, Any] | None:
    """The first line's object, which makes it a file of perf's."""
    first = next((line for line in text.split("\n") if not is_comment(line)), "")
    try:
        found = _load(first.rstrip().removesuffix(","))
    except ValueError:
        return None
    return found if _PERF & set(found) else None


def _perf_rows(text: str) -> Iterable[Row]:
    for number, line in enumerate(text.split("\n"), 1):
        if is_comment(line):
            continue
        if len(line) > MAX_LINE:
            raise at_line(number, line, "too long a line")
        try:
            found = _load(line.rstrip().removesuffix(","))
        except ValueError as error:
            raise at_line(number, line, f"bad JSON: {getattr(error, 'msg', error)}") from None
        if "counter-value" in found:
            yield _perf_row(number, line, found)
        elif "metric-unit" not in found and "metric-value" not in found:
            raise at_line(number, line, "no `counter-value`, which perf stat -j writes")


def _perf_row(number: int, line: str, found: Mapping[str, Any]) -> Row:
    event, given = found.get("event"), found["counter-value"]
    if not isinstance(event, str) or not event:
        raise at_line(number, line, "no `event` with a name")
    count = count_of(str(given)) if not isinstance(given, bool) else None
    if count is None:
        raise at_line(number, line, f"{given!r} is no count")
    running = number_of(str(found.get("event-runtime", "")))
    percent = number_of(str(found.get("pcnt-running", "")))
    # The number of CPUs behind a count is no part of what was counted.
    part = tuple((key, str(value)) for key, value in found.items() if key not in _OF_THE_COUNT)
    return Row(
        event,
        count,
        part,
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

    Raises:
        ValueError: anything else; `msg` and `lineno` as in JSONDecodeError where they are known.
    """
    if len(text) > _MAX_DOCUMENT:
        raise ValueError(f"longer than {_MAX_DOCUMENT >> 20} MiB")
    try:
        found = _decode(text)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(found, dict):
        raise ValueError("no object, which begins with a brace")
    return found


def _decode(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError:
        mended = _NOT_JSON.sub(": null", text)
        if mended == text:
            raise
        return json.loads(mended, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(
            name for name, times in Counter(name for name, _ in pairs).items() if times > 1
        )
        raise ValueError(f"{twice[:100]!r} is there twice")
    return found
