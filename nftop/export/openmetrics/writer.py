"""A page for Prometheus as it grows: families, their samples and what was absent of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum

import numpy as np

from nftop.export.openmetrics.families import MISSING, Family
from nftop.model.column import Column
from nftop.model.reading import Missing, Reading, Reason
from nftop.render.base.text import printable

# Of a label's value; the backslash first.
_ESCAPED = (("\\", r"\\"), ('"', r"\""), ("\n", r"\n"))


class Form(Enum):
    """The two forms; the value is what HTTP calls it."""

    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
    TEXT = "text/plain; version=0.0.4; charset=utf-8"


def labels(**values: object) -> str:
    """Labels as they stand in braces; what is None or "" is left out, as Prometheus reads it.

    Texts are made printable: pages are looked at with curl, too.
    """
    return ",".join(
        f'{name}="{_escaped(value)}"' for name, value in values.items() if value not in (None, "")
    )


def _escaped(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = printable(str(value))
    for char, instead in _ESCAPED:
        text = text.replace(char, instead)
    return text


class Sheet:
    """A page as it grows."""

    def __init__(self, form: Form, badge: str) -> None:
        self._form = form
        self._badge = badge
        self._everywhere = labels(badge=badge)
        self._lines: list[str] = []
        self._absent: dict[str, Counter[Reason]] = {}

    def add(self, family: Family, readings: Iterable[tuple[str, Reading]]) -> None:
        """A family's readings by their labels.

        Labels that stood before, of things whose names differ in nothing that can be printed, are
        numbered: Prometheus refuses twins.
        """
        seen: Counter[str] = Counter()
        numbers = []
        for mine, reading in readings:
            seen[mine] += 1
            if isinstance(reading, Missing):
                self.absent(family, reading.reason)
                continue
            twin = "" if seen[mine] == 1 else f',twin="{seen[mine]}"'
            numbers.append((mine + twin, float(reading)))
        self._put(family, numbers)

    def column(self, family: Family, rows: list[str], column: Column) -> None:
        """A family's readings of all CPUs, whose labels are `rows`."""
        at = np.flatnonzero(column.present)
        values = column.values[at].tolist()
        self._put(
            family, [(rows[row], value) for row, value in zip(at.tolist(), values, strict=True)]
        )
        if len(at) < len(rows):
            for reason, count in enumerate(np.bincount(column.reasons).tolist()):
                if reason != Reason.PRESENT and count:
                    self.absent(family, Reason(reason), count)

    def absent(self, family: Family, reason: Reason, count: int = 1) -> None:
        self._absent.setdefault(family.sample, Counter())[reason] += count

    def missing(self) -> None:
        """How much was absent of what was added so far."""
        self.add(
            MISSING,
            (
                (labels(metric=name, reason=reason.key), float(count))
                for name, reasons in self._absent.items()
                for reason, count in sorted(reasons.items())
            ),
        )

    def _put(self, family: Family, numbers: list[tuple[str, float]]) -> None:
        if not numbers:
            return
        self._head(family)
        name, factor, everywhere = family.sample, family.factor, self._everywhere
        for mine, number in numbers:
            both = f"{mine},{everywhere}" if mine and everywhere else mine or everywhere
            value = repr(number if factor == 1.0 else number * factor)
            self._lines.append(f"{name}{{{both}}} {value}" if both else f"{name} {value}")

    def _head(self, family: Family) -> None:
        strict = self._form is Form.OPENMETRICS
        name = family.name if strict else family.sample
        kind = "gauge" if family.kind == "info" and not strict else family.kind
        said = f"{self._badge}: {family.help}" if self._badge else family.help
        said = said.replace("\\", r"\\").replace("\n", r"\n")
        said = said.replace('"', r"\"") if strict else said
        self._lines += [f"# HELP {name} {said}", f"# TYPE {name} {kind}"]
        if strict and family.unit:
            self._lines.append(f"# UNIT {name} {family.unit}")

    def text(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)
