"""How many lines each part of the Cores screen gets."""

from __future__ import annotations

from dataclasses import dataclass

LEAST_WIDTH, LEAST_HEIGHT = 40, 8
_DETAIL_FROM = 12  # lines of table and detail together from which both have their place
_DETAIL_LEAST, _TABLE_LEAST = 6, 5
_NFS_FROM, _ROOMY = 14, 30
_PACKAGES_WIDE, _PACKAGES_HIGH = 90, 34


@dataclass(frozen=True, slots=True)
class Plan:
    """Lines of each part; 0 means it is not shown."""

    header: int
    nfs: int
    table: int
    detail: int
    footer: int


def is_tiny(width: int, height: int) -> bool:
    """Too small for the screen as it is meant to be."""
    return width < LEAST_WIDTH or height < LEAST_HEIGHT


def tiny_notice(width: int, height: int) -> str:
    """What a screen that is too small says."""
    return f"terminal too small: {width}x{height}, needs {LEAST_WIDTH}x{LEAST_HEIGHT}"


def is_roomy(height: int) -> bool:
    """Blank lines between the parts cost nothing that is missed."""
    return height >= _ROOMY


def nf_limit(height: int) -> int:
    """Lines network functions may take; none where the table has no room to spare for them."""
    return 0 if height < _NFS_FROM else max(4, height // 4)


def has_package_room(width: int, height: int, lines: int) -> bool:
    """Whether memory and PCIe of the packages, in so many lines, leave the table what it needs."""
    return width >= _PACKAGES_WIDE and height >= _PACKAGES_HIGH and lines <= height // 6


def map_limit(height: int, above: int) -> int:
    """Lines the map may take below `above` lines; none where table and detail need them."""
    return max(0, min(height // 4, height - above - _DETAIL_FROM - 2)) if is_roomy(height) else 0


def plan(width: int, height: int, header: int, nfs: int, rows: int) -> Plan:
    """Share `height` lines between parts that would like `header`, `nfs` and 1 + `rows` lines.

    The table never gets more than it needs, so what is below it stays close to it.
    """
    if is_tiny(width, height):
        header = min(header, max(0, height - 2))
        return Plan(header, 0, height - header, 0, 0)
    header = min(header, max(2, height // 3))
    nfs = max(0, min(nfs, height - header - 1 - _TABLE_LEAST + 2))
    rest = height - header - nfs - 1
    if rest < _DETAIL_FROM:
        return Plan(header, nfs, rest, 0, 1)
    detail = max(_DETAIL_LEAST, rest * 2 // 5)
    table = max(_TABLE_LEAST, min(rest - detail, rows + 2))
    return Plan(header, nfs, table, rest - table, 1)
