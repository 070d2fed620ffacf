"""Huge pages, memory channels and how memory is divided.

Files: the kernel's Documentation/admin-guide/mm/hugetlbpage.rst, Documentation/driver-api/edac.rst
and Documentation/ABI/testing/sysfs-devices-edac.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from nftop.model.reading import Reason
from nftop.sources.tuning.dmi import dimms
from nftop.sources.tuning.look import Found, Look, as_advised, otherwise

_NODES = "sys/devices/system/node"
_PAGES = re.compile(r"hugepages-([0-9]{1,10})kB")
_NODE = re.compile(r"node([0-9]{1,6})")
_EDAC = "sys/devices/system/edac/mc"
_CONTROLLER = re.compile(r"mc([0-9]{1,4})")
_DIMM = re.compile(r"(?:dimm|rank)[0-9]{1,4}")
_CHANNEL = re.compile(r"\bchannel ([0-9]{1,3})\b")
_IMC = re.compile(r"uncore_imc_[0-9]{1,3}")
_KB_OF_A_GB = 1 << 20


def huge_pages(look: Look) -> Iterator[Found]:
    """Whether huge pages are reserved on the nodes where network functions poll."""
    pages = {node: _pages(look, f"{_NODES}/node{node}/hugepages") for node in _nodes(look)}
    if not any(pages.values()):
        pages = {-1: _pages(look, "sys/kernel/mm/hugepages")}
    if not any(pages.values()):
        yield Found(Reason.HARDWARE, "this kernel has no huge pages")
        return
    text = "; ".join(
        (f"node {node}: " if node >= 0 else "") + _told(sizes) for node, sizes in pages.items()
    )
    of_nfs = [poller.cpu for poller in look.pollers if poller.kind]
    bare = [node for node in look.nodes_of(of_nfs) or (-1,) if not _reserved(pages.get(node))]
    if not of_nfs:
        reason = Reason.PRESENT if any(map(_reserved, pages.values())) else Reason.IDLE
        yield Found(
            reason, text if reason is Reason.PRESENT else f"{text}; no network function polls"
        )
    elif not bare:
        yield as_advised(text)
    else:
        where = f"/{_NODES}/node{bare[0]}" if bare[0] >= 0 else "/sys/kernel/mm"
        size = min(pages[bare[0]], default=2048) if bare[0] in pages else 2048
        yield otherwise(
            f"{text}; network functions poll on node {', '.join(map(str, bare))}"
            if bare[0] >= 0
            else text,
            f"echo PAGES | sudo tee {where}/hugepages/hugepages-{size}kB/nr_hugepages",
        )


def channels(look: Look) -> Iterator[Found]:
    """Whether every memory channel has as much memory as the others."""
    controllers = [_controller(look, name) for name in sorted(
        filter(_CONTROLLER.fullmatch, look.tree.names(_EDAC)), key=_number)]  # fmt: skip
    if not any(size for item in controllers for size in item.megabytes.values()):
        yield from _without_edac(look)
        return
    text = "; ".join(controller.told for controller in controllers)
    empty = [controller for controller in controllers if controller.empty]
    uneven = len({size for item in controllers for size in item.megabytes.values() if size}) > 1
    if not empty and not uneven:
        yield as_advised(text)
    else:
        yield otherwise(text, "the board's manual says which slots to fill: one DIMM in each "
                        "channel before a second in any, all of one size")  # fmt: skip


def clusters(look: Look) -> Iterator[Found]:
    """Into how many nodes each package is divided: as it is, which only its load can judge."""
    nodes: dict[int, set[int]] = {}
    for info in look.topology.cpus:
        if info.package is not None and info.node is not None:
            nodes.setdefault(info.package, set()).add(info.node)
    if not nodes:
        yield Found(Reason.SOURCE, "the kernel names no NUMA nodes")
        return
    divided = {package: sorted(mine) for package, mine in sorted(nodes.items()) if len(mine) > 1}
    if not divided:
        yield as_advised("a NUMA node each for the packages: sub-NUMA clustering is off")
        return
    text = "; ".join(
        f"package {package} is divided into nodes {', '.join(map(str, mine))}"
        for package, mine in divided.items()
    )
    yield Found(
        Reason.PRESENT,
        f"{text} (sub-NUMA clustering, Cluster-on-Die): a core has part of the channels nearby",
    )


@dataclass(frozen=True, slots=True)
class _Controller:
    """A memory controller: MB by channel, those without any included where they are known."""

    name: str
    megabytes: dict[int, int] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return any(size == 0 for size in self.megabytes.values())

    @property
    def told(self) -> str:
        sizes = ", ".join(
            f"channel {channel} {size / 1024:g} GB" if size else f"channel {channel} empty"
            for channel, size in sorted(self.megabytes.items())
        )
        return f"{self.name}: {sizes}"


def _controller(look: Look, name: str) -> _Controller:
    at = f"{_EDAC}/{name}"
    last = _CHANNEL.search(look.tree.text(f"{at}/max_location") or "")
    # Channels of which there are none to see; a controller has at most some dozen.
    sizes = dict.fromkeys(range(min(int(last[1]), 63) + 1) if last else (), 0)
    for dimm in filter(_DIMM.fullmatch, look.tree.names(at)):
        place = _CHANNEL.search(look.tree.text(f"{at}/{dimm}/dimm_location") or "")
        size = look.tree.number(f"{at}/{dimm}/size")
        if place and size:
            sizes[int(place[1])] = sizes.get(int(place[1]), 0) + size
    return _Controller(name, sizes)


def _without_edac(look: Look) -> Iterator[Found]:
    """What else tells of memory; none of it says which channel a DIMM is in."""
    counted = sum(map(bool, map(_IMC.fullmatch, look.tree.names("sys/bus/event_source/devices"))))
    units = (
        f"; the kernel has {counted} units of counters a package (uncore_imc)" if counted else ""
    )
    fix = "sudo modprobe i10nm_edac (Ice Lake and later), skx_edac, or sb_edac (Xeon E5)"
    try:
        there = dimms(look.root)
    except PermissionError:
        why = f"what is in the slots only root can read (DMI){units}"
        yield Found(Reason.PERMISSION, why, "sudo nftop doctor")
        return
    if there is None:
        # A guest has neither, nor counters of memory.
        text = f"neither EDAC nor DMI tells of memory here{units}"
        yield Found(Reason.SOURCE, text, fix if counted else "")
        return
    sizes = ", ".join(f"{count} of {size / 1024:g} GB" for size, count in there.filled.items())
    text = f"DIMMs: {sizes or 'none told'}; {there.empty} slots empty{units}"
    yield Found(Reason.SOURCE, f"{text}; which channels they are in only EDAC tells", fix)


def _nodes(look: Look) -> list[int]:
    hits = map(_NODE.fullmatch, look.tree.names(_NODES))
    nodes = sorted(int(hit[1]) for hit in hits if hit)
    return [node for node in nodes if look.tree.text(f"{_NODES}/node{node}/cpulist")]


def _pages(look: Look, folder: str) -> dict[int, tuple[int, int]]:
    """Reserved and free pages by their size in kB, the smallest first."""
    found = {}
    for hit in filter(None, map(_PAGES.fullmatch, look.tree.names(folder))):
        pages = look.tree.number(f"{folder}/{hit[0]}/nr_hugepages")
        free = look.tree.number(f"{folder}/{hit[0]}/free_hugepages")
        if pages is not None:
            found[int(hit[1])] = (pages, free or 0)
    return dict(sorted(found.items()))


def _reserved(sizes: dict[int, tuple[int, int]] | None) -> bool:
    return any(pages for pages, _ in (sizes or {}).values())


def _told(sizes: dict[int, tuple[int, int]]) -> str:
    told = [
        f"{pages} huge pages of {_size(kb)}, {free} free"
        for kb, (pages, free) in sizes.items()
        if pages
    ]
    return ", ".join(told) or "no huge pages"


def _size(kb: int) -> str:
    return f"{kb // _KB_OF_A_GB} GB" if kb >= _KB_OF_A_GB else f"{kb // 1024} MB"


def _number(name: str) -> int:
    return int(name.lstrip("mc"))
