"""A TOML table as it is read: each value of the type and size that is wanted, or a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nftop.model.struct import dataclass

_NUMBER = (int, float)


@dataclass(frozen=True, slots=True)
class Table:
    """A TOML table and where it is, for the sentence when something is wrong with it.

    What is wrong raises ValueError.
    """

    where: str
    values: Mapping[str, Any]

    def known(self, allowed: set[str]) -> None:
        for key in self.values.keys() - allowed:
            raise ValueError(f"{self.where}: {key!r} is not known here")

    def text(self, key: str) -> str:
        value = self.values.get(key)
        if not isinstance(value, str) or not value:
            raise ValueError(f"{self.where}: {key} must be a text")
        return value

    def number(self, key: str, low: float, high: float, default: float | None = None) -> float:
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, _NUMBER) or not low <= value <= high:
            raise ValueError(f"{self.where}: {key} must be a number from {low:g} to {high:g}")
        return float(value)

    def whole(self, key: str, low: int, high: int) -> int:
        value = self.number(key, low, high)
        if value != int(value):
            raise ValueError(f"{self.where}: {key} must be a whole number")
        return int(value)

    def choice(self, key: str, allowed: tuple[str, ...]) -> str:
        value = self.text(key)
        if value not in allowed:
            raise ValueError(f"{self.where}: {key} must be one of {', '.join(allowed)}")
        return value

    def rows(self, key: str) -> list[tuple[int, Any]]:
        value = self.values.get(key, [])
        if not isinstance(value, list):
            raise ValueError(f"{self.where}: {key} must be written as [[{key}]]")
        return list(enumerate(value))

    def row_table(self, key: str, index: int, value: Any) -> Table:
        if not isinstance(value, dict):
            raise ValueError(f"{self.where}: {key} must be written as [[{key}]]")
        return Table(f"{self.where}, {key} {value.get('name', index + 1)}", value)

    def table(self, key: str) -> Table | None:
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise ValueError(f"{self.where}: {key} must be a table")
        return Table(f"{self.where}, {key}", value)
