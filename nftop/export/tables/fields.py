"""What a table of an export is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from nftop.model.frame import Frame
from nftop.model.metrics.metric import Metric
from nftop.model.reading import Missing
from nftop.model.struct import dataclass

# `time` is a wall clock in ns; `text` may be untrusted.
Kind: TypeAlias = Literal["int", "float", "bool", "text", "time"]
# One sequence for each field of a table, all of the same length; None where there is nothing.
Columns: TypeAlias = Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Field:
    """A column; `unit` of a number, "" where it has none or its name says it."""

    name: str
    kind: Kind
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Its columns, and the rows that a frame has; `rows` None: not of frames."""

    fields: tuple[Field, ...]
    rows: Callable[[int, Frame], Columns] | None = None


def fields_of(kind: Kind, names: str) -> tuple[Field, ...]:
    return tuple(Field(name, kind) for name in names.split())


def numbers(metrics: Iterable[Metric]) -> tuple[Field, ...]:
    return tuple(Field(metric.id, "float", metric.unit.value) for metric in metrics)


TICK = (
    Field("tick", "int"),
    Field("time", "time"),
    Field("interval_s", "float", "s"),
    Field("host", "text"),
    *fields_of("bool", "simulated lab remote"),
)
MISSING = Field("missing", "text")


def of_tick(number: int, frame: Frame, rows: int) -> list[Sequence[Any]]:
    """`TICK`, the same in each row."""
    host = frame.host
    same = (number, frame.wall_ns, frame.interval_s, host.name, host.simulated, host.lab)
    return [[item] * rows for item in (*same, host.remote != "")]


def plain(value: Any) -> Any:
    return None if isinstance(value, Missing) else value


def why_not(readings: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={reading.reason.key}" for name, reading in readings.items()
                    if isinstance(reading, Missing))  # fmt: skip


def turned(fields: tuple[Field, ...], rows: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    """Rows as columns."""
    return list(zip(*rows, strict=True)) if rows else [()] * len(fields)
