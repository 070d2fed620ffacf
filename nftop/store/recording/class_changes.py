"""What is different in the cache classes between two readings, whoever has changed it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nftop.model.ids import format_cpu_list
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import ROOT, ResctrlGroup, ResctrlTable
from nftop.model.reading import Missing


def changes(before: ResctrlTable, after: ResctrlTable) -> tuple[str, ...]:
    """A sentence for each: masks, limits, CPUs, and groups that came or went. Not threads.

    Names in them are untrusted text.
    """
    old, new = ({group.name: group for group in table.groups} for table in (before, after))
    return tuple(_sentences(old, new))


def _sentences(old: Mapping[str, ResctrlGroup], new: Mapping[str, ResctrlGroup]) -> Iterator[str]:
    for name in old.keys() | new.keys():
        shown = "the root group" if name == ROOT else name
        if name not in new:
            yield f"{shown} is gone"
        elif name not in old or old[name].inode != new[name].inode:
            yield f"{shown} is new: {', '.join(_settings(new[name]).values())}"
        else:
            yield from _of_group(shown, _settings(old[name]), _settings(new[name]))


def _of_group(shown: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for key, text in new.items():
        if key in old and old[key] != text:
            yield f"{shown}: {old[key]} -> {text.removeprefix(f'{key} ')}"


def _settings(group: ResctrlGroup) -> dict[str, str]:
    """What is set in a group, by what it is."""
    found = {"CPUs": f"CPUs {format_cpu_list(group.cpus) or 'none'}"}
    for cache in group.caches:
        for word, mask in (("L3", cache.cbm), ("L3 code", cache.code)):
            if isinstance(mask, Cbm):
                key = f"{word} {cache.l3}"
                found[key] = f"{key} {mask.hex}"
        if not isinstance(cache.mba, Missing):
            key = f"MBA {cache.l3}"
            found[key] = f"{key} {cache.mba}"
    for item in group.l2:
        found[f"L2 {item.l2}"] = f"L2 {item.l2} {item.cbm.hex}"
    return found
