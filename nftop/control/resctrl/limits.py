"""The rules of a host, read from resctrl's `info` and the CPU."""

from __future__ import annotations

from pathlib import Path

from nftop.control.rules import LimitRule, MaskRule, Rules
from nftop.model.rdt.rdt import UNLIMITED_MBPS, MbaUnit
from nftop.model.reading import Missing
from nftop.sources.host.topology import read_cpuid, read_topology
from nftop.sources.resctrl.files import Mount, mba_unit, read_as
from nftop.sources.resctrl.info import Info, read_info
from nftop.sources.resctrl.tree import parse_mask, parse_number

_PERCENT_MOST, _EIGHTHS_MOST = 100, 2048  # AMD's from the kernel's own constant of Linux 6.1


def read_rules(mount: Mount, root: Path) -> Rules:
    """What a mounted resctrl takes. OSError where it can't be listed."""
    info = read_info(f"{mount.path}/info")
    topology = read_topology(root)
    io = {cache.id: info.io(cache.id, None) for cache in topology.l3}
    return Rules(
        masks={
            line: rule
            for line in info.resources - {"MB"}
            if (rule := _mask_rule(f"{mount.path}/info/{line}", root)) is not None
        },
        limit=_limit_rule(info, mba_unit(mount, root)),
        closids=info.limits.closids,
        io={
            l3: (ways.cbm.bits, ways.provenance)
            for l3, ways in io.items()
            if not isinstance(ways, Missing)
        },
        siblings={cpu.cpu: frozenset(cpu.siblings) for cpu in topology.cpus},
    )


def _mask_rule(folder: str, root: Path) -> MaskRule | None:
    whole = read_as(f"{folder}/cbm_mask", parse_mask)
    if isinstance(whole, Missing) or not whole:
        return None
    least, sparse = (
        read_as(f"{folder}/{name}", parse_number) for name in ("min_cbm_bits", "sparse_masks")
    )
    shareable = read_as(f"{folder}/shareable_bits", parse_mask)
    if isinstance(sparse, Missing):
        # Before Linux 6.7 there is no such file, and AMD's masks may have gaps all the same.
        sparse = (read_cpuid(root) or ("",))[0] == "AuthenticAMD"
    return MaskRule(
        ways=whole.bit_length(),
        min_bits=1 if isinstance(least, Missing) else max(least, 1),  # AMD's kernels say 0
        sparse=bool(sparse),
        shareable=0 if isinstance(shareable, Missing) else shareable,
    )


def _limit_rule(info: Info, unit: MbaUnit) -> LimitRule | None:
    if "MB" not in info.resources:
        return None
    step = info.limits.mba_step or 1
    if unit == "MBps":
        # Linux 6.1 rounds them as it does percentages, later kernels don't: a multiple is both's.
        return LimitRule(least=step, step=step, most=UNLIMITED_MBPS, unit=unit)
    most = {"percent": _PERCENT_MOST, "GBps/8": _EIGHTHS_MOST}[unit]
    return LimitRule(least=info.limits.mba_least or 0, step=step, most=most, unit=unit)
