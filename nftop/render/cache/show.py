"""Cache classes as text: owner, ways, CPUs and limits."""

from __future__ import annotations

from collections.abc import Iterator

from nftop.model.ids import format_cpu_list
from nftop.model.missing import Missing
from nftop.model.rdt.rdt import CacheDomain, ResctrlGroup, ResctrlTable
from nftop.render.base.text import cells, fit, printable
from nftop.render.editor.change import drawn, limit, named


def classes(table: ResctrlTable) -> list[str]:
    """A block per group, the ways of I/O, and what could not be read."""
    lines = [line for group in table.groups for line in (*_group(group, table), "")]
    lines += [line for domain in table.domains for line in _domain(domain)]
    lines += [f"note: {printable(table.gaps)}"] if table.gaps else []
    return lines


def _group(group: ResctrlGroup, table: ResctrlTable) -> Iterator[str]:
    about = [f"COS{group.clos}"] if group.clos is not None else []
    about += [f"{group.owner}'s by its name"] if group.owner else []
    about += [printable(group.mode)] if group.mode not in ("", "shareable") else []
    about += [f"{len(group.tasks)} thread{'s' * (len(group.tasks) != 1)}"] if group.tasks else []
    yield named(group.name) + (f"  ({', '.join(about)})" if about else "")
    yield f"  CPU   {format_cpu_list(group.cpus) or 'none'}"
    rows: list[tuple[str, str, str]] = []
    for cache in group.caches:
        bandwidth = (
            "" if isinstance(cache.mba, Missing) else f"MB {limit(cache.mba, table.mba_unit)}"
        )
        if isinstance(cache.cbm, Missing):
            if bandwidth:
                rows.append((f"L3 {cache.l3}", "", bandwidth))
            continue
        data = "L3DATA" if cache.code is not None else "L3"
        rows.append((f"{data} {cache.l3}", drawn(cache.cbm.bits, cache.cbm.width), bandwidth))
        if cache.code is not None:
            rows.append((f"L3CODE {cache.l3}", drawn(cache.code.bits, cache.code.width), ""))
    for item in group.l2:
        data = "L2DATA" if item.code is not None else "L2"
        rows.append((f"{data} {item.l2}", drawn(item.cbm.bits, item.cbm.width), ""))
        if item.code is not None:
            rows.append((f"L2CODE {item.l2}", drawn(item.code.bits, item.code.width), ""))
    width = max((cells(head) for head, _, _ in rows), default=0)
    for head, mask, bandwidth in rows:
        yield f"  {fit(head, max(width, 4))}  {mask}{'  ' * bool(mask and bandwidth)}{bandwidth}"
    for monitor in group.monitors:
        metered = format_cpu_list(monitor.cpus) or "none"
        yield f"  metered as {printable(monitor.name)}: CPU {metered}"


def _domain(domain: CacheDomain) -> Iterator[str]:
    if isinstance(domain.io, Missing):
        yield f"I/O   L3 {domain.l3}  {printable(domain.io.message)}"
    else:
        picture = drawn(domain.io.cbm.bits, domain.io.cbm.width).replace("#", "I")
        yield f"I/O   L3 {domain.l3}  {picture}  {domain.io.provenance}"
