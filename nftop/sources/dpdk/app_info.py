"""What an application says of itself that changes slowly: its ports, lcores and command lines.

From values of replies to facts; a value that can't be is a `ReplyError`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from nftop.model.ids import Cpu, Lcore
from nftop.model.sample import DpdkLcore
from nftop.sources.dpdk.replies import (
    ReplyError,
    mapping,
    maybe_number,
    number,
    numbers,
    text,
    texts,
)

PORT_END = 1 << 16
_QUEUE_END = 1024 + 1  # RTE_MAX_QUEUES_PER_PORT, and there may be so many
LCORE_END = 1 << 16
_FLAGS_END = 1 << 32
_BOND_MEMBER = 0x4  # in dev_flags: RTE_ETH_DEV_BONDING_MEMBER, BONDED_SLAVE before 23.11
_CPU_END = 1 << 16
MAX_PORTS = 1024
MAX_LCORES = 2048
_ARGUMENT_LIMIT = 4096  # characters of one command line argument


@dataclass(frozen=True, slots=True)
class PortFacts:
    """A port and how to ask for its counters.

    Attributes:
        cut: replies leave out counters that are wanted.
        nonzero_only: ask without counters that are 0, because replies would be cut otherwise.
        basic: ask `/ethdev/stats` too, because its xstats lack the totals.
    """

    port: int
    name: str
    rx_queues: int | None
    bond_member: bool | None = None
    cut: bool = False
    nonzero_only: bool = False
    basic: bool = False

    @property
    def xstats(self) -> str:
        return f"/ethdev/xstats,{self.port}" + (",hide_zero=true" if self.nonzero_only else "")

    @property
    def stats(self) -> str:
        return f"/ethdev/stats,{self.port}"

    @property
    def questions(self) -> tuple[str, ...]:
        return (self.xstats, self.stats) if self.basic else (self.xstats,)


@dataclass(frozen=True, slots=True)
class Facts:
    """What changes slowly.

    Attributes:
        lcores: without cycles.
        hides_zero: whether the application can leave out counters that are 0; None: not asked.
    """

    ports: tuple[PortFacts, ...]
    lcores: tuple[DpdkLcore, ...]
    lcores_told: bool
    eal_params: tuple[str, ...]
    app_params: tuple[str, ...]
    hides_zero: bool | None = None


def few(value: object, what: str, end: int, most: int) -> tuple[int, ...]:
    """A list of numbers below `end`, at most `most`; each once, and none where it is absent."""
    if value is None:
        return ()
    found = numbers(value, what, end)
    if len(found) > most:
        raise ReplyError(f"{what} has {len(found)} items")
    return tuple(dict.fromkeys(found))


def arguments(value: object, what: str) -> tuple[str, ...]:
    """A command line; none where it is absent."""
    return () if value is None else texts(value, what, _ARGUMENT_LIMIT)


def port_facts(port: int, info: object) -> PortFacts:
    """From /ethdev/info."""
    if info is None:  # unplugged between the two questions
        return PortFacts(port, "", None)
    what = f"the description of port {port}"
    fields = mapping(info, what)
    queues = fields.get("nb_rx_queues")
    rx_queues = None if queues is None else number(queues, f"nb_rx_queues in {what}", _QUEUE_END)
    name = text(fields.get("name"), f"name in {what}")
    return PortFacts(port, name, rx_queues, _is_bond_member(fields.get("dev_flags"), what))


def _is_bond_member(flags: object, what: str) -> bool | None:
    """From dev_flags: a number, and in newer DPDK a hexadecimal text."""
    if isinstance(flags, str) and re.fullmatch("0x[0-9a-fA-F]{1,16}", flags):
        flags = int(flags, 16)
    told = maybe_number(flags, f"dev_flags in {what}", _FLAGS_END)
    return None if told is None else bool(told & _BOND_MEMBER)


def with_plans(ports: list[PortFacts], before: Facts | None) -> tuple[PortFacts, ...]:
    """The ports, those that are as before with what was learnt of how to ask them."""
    bare = {_bare(port): port for port in before.ports} if before else {}
    return tuple(bare.get(port, port) for port in ports)


def _bare(port: PortFacts) -> PortFacts:
    return PortFacts(port.port, port.name, port.rx_queues, port.bond_member)


def lcore_facts(lcore: int, info: object) -> DpdkLcore:
    """From /eal/lcore/info."""
    what = f"the description of lcore {lcore}"
    fields = mapping(info, what)
    cpus = numbers(fields.get("cpuset"), f"cpuset in {what}", _CPU_END)
    return DpdkLcore(
        lcore=Lcore(lcore),
        cpus=tuple(Cpu(cpu) for cpu in sorted(set(cpus))),
        role=text(fields.get("role"), f"role in {what}"),
    )
