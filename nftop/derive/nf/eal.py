"""What a DPDK application's command line says about its lcores.

Grammar: DPDK Programmer's Guide, "EAL parameters" (`-c`, `-l`, `--lcores`) and the l3fwd sample
application (`--config`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from nftop.model.ids import Lcore, parse_cpu_list
from nftop.model.nf.queue_map import Queue, parse_triples


def enabled_lcores(eal_params: Sequence[str]) -> frozenset[Lcore]:
    """The lcores its EAL was told to start; empty where the command line does not say."""
    for names, parse in _LCORE_OPTIONS:
        for text in _values(eal_params, names):
            try:
                return frozenset(Lcore(lcore) for lcore in parse(text))
            except ValueError:
                return frozenset()
    return frozenset()


def config_queues(app_params: Sequence[str]) -> Mapping[Queue, Lcore]:
    """Queue to lcore from an l3fwd-like `--config`; empty where there is none."""
    for text in _values(app_params, ("--config",)):
        return parse_triples(text) or {}
    return {}


def _values(params: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    """Values of an option in any of getopt_long's spellings: `-l 1`, `-l1`, `--x=1`, `--x 1`."""
    for index, param in enumerate(params):
        for name in names:
            if param == name and index + 1 < len(params):
                yield params[index + 1]
            elif name.startswith("--") and param.startswith(name + "="):
                yield param[len(name) + 1 :]
            elif not name.startswith("--") and param.startswith(name) and len(param) > len(name):
                yield param[len(name) :]


def _from_mask(text: str) -> Iterator[int]:
    mask = int(text, 16)
    return (bit for bit in range(mask.bit_length()) if mask >> bit & 1)


def _from_lcores(text: str) -> Iterator[int]:
    """`--lcores`: sets with optional CPUs, `1,2@(5-7),(3-5)@(0,2)`; only the lcores matter here."""
    without_cpus = re.sub(r"@(\([^)]*\)|[\d-]+)", "", text)
    return iter(parse_cpu_list(without_cpus.replace("(", "").replace(")", "")))


def _from_list(text: str) -> Iterator[int]:
    # -l takes what --lcores takes since 25.03, and plain ranges before.
    return _from_lcores(text)


_LCORE_OPTIONS = ((("-l",), _from_list), (("--lcores",), _from_lcores), (("-c",), _from_mask))
