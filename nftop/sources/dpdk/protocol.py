"""Telemetry protocol: requests, their order, and the meaning of replies. No sockets.

Each dialogue is a generator: it yields a batch of requests and receives the `Answers`. It raises
`ReplyError` for an invalid reply.

Counters come from `/ethdev/xstats`: newer DPDK dropped the queue counters of `/ethdev/stats`. A
reply holds 256 entries and 16 KiB (rte_telemetry.h, telemetry.c); the rest is silently left out,
and the generic counters come first (rte_eth_xstats_get).
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from nftop.model.ids import Cpu, Lcore
from nftop.model.missing import Missing, Reason
from nftop.model.sample import DpdkLatency, DpdkLcore, DpdkPort
from nftop.model.struct import dataclass, field, replace
from nftop.sources.nf_session.connection import BatchTimes, ReplyError

T = TypeVar("T")

# Parsing of messages, which are untrusted: the peer may be any program. A message becomes a value
# of the expected type or a `ReplyError`.
MAX_MESSAGE_BYTES = 1 << 20  # DPDK's own limit is 16 KiB; more than this is not an application's
MAX_ITEMS = 4096  # DPDK's own limit for an array is 512 (rte_telemetry.h)
TEXT_LIMIT = 128  # characters of a name or version; DPDK's own limit for names

_COUNTER_END = 1 << 64


@dataclass(frozen=True, slots=True)
class Greeting:
    """First message of an application; its `pid` is that in its container, so it is not kept.

    `message_bytes` is the longest message it may send, capped at MAX_MESSAGE_BYTES.
    """

    version: str
    message_bytes: int


def document(raw: bytes, what: str) -> dict[str, object]:
    """The JSON object in one message.

    Command line arguments are raw: invalid UTF-8 is replaced and control characters are accepted.
    """
    try:
        value = json.loads(raw.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError) as error:
        raise ReplyError(f"{what} is not JSON") from error
    return mapping(value, what)


def reply(raw: bytes, command: str) -> object:
    """The value in the reply to a command: `{"<command without parameters>": value}`."""
    name = command.partition(",")[0]
    fields = document(raw, f"its answer to {command}")
    if len(fields) != 1 or name not in fields:
        raise ReplyError(f"its answer to {command} is for another command")
    return fields[name]


def greeting(raw: bytes) -> Greeting:
    """The first message of a connection: `{"version", "pid", "max_output_len"}`."""
    what = "its greeting"
    fields = document(raw, what)
    length = number(fields.get("max_output_len"), f"max_output_len in {what}")
    if length == 0:
        raise ReplyError(f"max_output_len in {what} is 0")
    return Greeting(text(fields.get("version"), what), min(length, MAX_MESSAGE_BYTES))


def number(value: object, what: str, end: int = _COUNTER_END) -> int:
    """A whole number in 0..end-1; not a bool, float or text."""
    if type(value) is not int:
        raise ReplyError(f"{what} is not a whole number")
    if not 0 <= value < end:
        raise ReplyError(f"{what} is out of range")
    return value


def maybe_number(value: object, what: str, end: int = _COUNTER_END) -> int | None:
    """A number; None if absent or null."""
    return None if value is None else number(value, what, end)


def numbers(value: object, what: str, end: int = _COUNTER_END) -> tuple[int, ...]:
    return tuple(number(item, what, end) for item in _items(value, what))


def text(value: object, what: str, limit: int = TEXT_LIMIT) -> str:
    """At most `limit` characters that any encoder accepts; still untrusted."""
    if not isinstance(value, str):
        raise ReplyError(f"{what} is not a text")
    # JSON escapes can name half a surrogate pair, which no UTF-8 writer accepts.
    return value[:limit].encode("utf-8", "replace").decode("utf-8")


def texts(value: object, what: str, limit: int = TEXT_LIMIT) -> tuple[str, ...]:
    return tuple(text(item, what, limit) for item in _items(value, what))


def mapping(value: object, what: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ReplyError(f"{what} is not an object")
    return value


def _items(value: object, what: str) -> list[object]:
    if not isinstance(value, list):
        raise ReplyError(f"{what} is not a list")
    if len(value) > MAX_ITEMS:
        raise ReplyError(f"{what} has {len(value)} items")
    return value


PORT_END = 1 << 16
_QUEUE_END = 1024 + 1  # RTE_MAX_QUEUES_PER_PORT, and there may be so many
LCORE_END = 1 << 16
_FLAGS_END = 1 << 32
_BOND_MEMBER = 0x4  # in dev_flags: RTE_ETH_DEV_BONDING_MEMBER, BONDED_SLAVE before 23.11
_CPU_END = 1 << 16
_SPEED_END = 1 << 32  # of Mbit/s
_UNKNOWN_SPEED = _SPEED_END - 1  # RTE_ETH_SPEED_NUM_UNKNOWN
MAX_PORTS = 1024
MAX_LCORES = 2048
_ZONE_END = 1 << 20
_ARGUMENT_LIMIT = 4096  # characters of one command line argument


@dataclass(frozen=True, slots=True)
class PortFacts:
    """A port, and how its counters are requested."""

    port: int
    name: str
    rx_queues: int | None
    bond_member: bool | None = None
    cut: bool = False  # replies leave out required counters
    nonzero_only: bool = False  # request no counters that are 0: replies would be cut
    basic: bool = False  # request `/ethdev/stats` too, because its xstats lack the totals

    @property
    def xstats(self) -> str:
        return f"/ethdev/xstats,{self.port}" + (",hide_zero=true" if self.nonzero_only else "")

    @property
    def stats(self) -> str:
        return f"/ethdev/stats,{self.port}"

    @property
    def requests(self) -> tuple[str, ...]:
        return (self.xstats, self.stats) if self.basic else (self.xstats,)


@dataclass(frozen=True, slots=True)
class AppFacts:
    """Facts of an application that change slowly."""

    ports: tuple[PortFacts, ...]
    lcores: tuple[DpdkLcore, ...]  # without cycles
    lists_lcores: bool
    eal_params: tuple[str, ...]
    app_params: tuple[str, ...]
    hides_zero: bool | None = None  # whether it can leave out counters that are 0; None if unknown
    links: Mapping[int, int | None] = field(default_factory=dict)  # bits per second by port


def few(value: object, what: str, end: int, most: int) -> tuple[int, ...]:
    """A list of at most `most` numbers below `end`, without duplicates; () if absent."""
    if value is None:
        return ()
    values = numbers(value, what, end)
    if len(values) > most:
        raise ReplyError(f"{what} has {len(values)} items")
    return tuple(dict.fromkeys(values))


def arguments(value: object, what: str) -> tuple[str, ...]:
    """A command line; () if absent."""
    return () if value is None else texts(value, what, _ARGUMENT_LIMIT)


def port_facts(port: int, info: object) -> PortFacts:
    """From /ethdev/info."""
    if info is None:  # unplugged between the two requests
        return PortFacts(port, "", None)
    what = f"the description of port {port}"
    fields = mapping(info, what)
    queues = fields.get("nb_rx_queues")
    rx_queues = None if queues is None else number(queues, f"nb_rx_queues in {what}", _QUEUE_END)
    name = text(fields.get("name"), f"name in {what}")
    flags = fields.get("dev_flags")  # a number, in newer DPDK as hexadecimal text
    if isinstance(flags, str) and re.fullmatch("0x[0-9a-fA-F]{1,16}", flags):
        flags = int(flags, 16)
    bits = maybe_number(flags, f"dev_flags in {what}", _FLAGS_END)
    return PortFacts(port, name, rx_queues, None if bits is None else bool(bits & _BOND_MEMBER))


def link_speed(port: int, status: object) -> int | None:
    """Bits per second, from /ethdev/link_status; None if unknown or the link is down."""
    if status is None:
        return None
    what = f"the link of port {port}"
    megabits = maybe_number(mapping(status, what).get("speed"), f"speed in {what}", _SPEED_END)
    return None if megabits in (None, 0, _UNKNOWN_SPEED) else megabits * 1_000_000


def with_plans(ports: list[PortFacts], before: AppFacts | None) -> tuple[PortFacts, ...]:
    """The ports; unchanged ones keep their way of requesting counters."""
    known = before.ports if before else ()
    bare = {replace(port, cut=False, nonzero_only=False, basic=False): port for port in known}
    return tuple(bare.get(port, port) for port in ports)


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


DICT_ENTRIES = 256  # RTE_TEL_MAX_DICT_ENTRIES
_ENTRY_BYTES = 200  # more than the longest entry: a name of 128 and a number of 20 characters
# How drivers name what a queue received, best first: ethdev's own, then two families of drivers.
_QUEUE_PATTERNS = (
    re.compile(r"rx_q([0-9]{1,5})_packets"),
    re.compile(r"rx_q([0-9]{1,5})_good_packets"),
    re.compile(r"rxq_([0-9]{1,5})_pkts"),
)
# rte_eth_stats.q_errors: of most drivers that have it, packets dropped in the queue.
_QUEUE_MISSED = re.compile(r"rx_q([0-9]{1,5})_errors")
# Of /ethdev/xstats, and the same of /ethdev/stats.
# Packets that are lost for another reason than missing descriptors, in the same two.
_LOSSES = ("rx_errors", "tx_errors", "rx_mbuf_allocation_errors")
_BASIC_LOSSES = ("ierrors", "oerrors", "rx_nombuf")
_TOTALS = ("rx_good_packets", "tx_good_packets", "rx_missed_errors", "rx_good_bytes")
_BASIC_TOTALS = ("ipackets", "opackets", "imissed", "ibytes")


@dataclass(frozen=True, slots=True)
class Answers:
    """Replies to one batch."""

    values: Mapping[str, object]  # by request; None for an unknown command and for null
    size_bytes: Mapping[str, int]  # by request that was sent, the length of its reply
    times: BatchTimes


Dialogue: TypeAlias = Generator[tuple[str, ...], Answers, T]


@dataclass(frozen=True, slots=True)
class DpdkCounters:
    """Counters of one poll; `read_at_ns` is its middle."""

    ports: tuple[DpdkPort, ...]
    lcores: tuple[DpdkLcore, ...]
    read_at_ns: int
    took_ns: int


def ask_commands() -> Dialogue[frozenset[str]]:
    """The commands the application offers."""
    answers = yield ("/",)
    return frozenset(texts(answers.values["/"], "its list of commands"))


def ask_facts(before: AppFacts | None) -> Dialogue[AppFacts]:
    """Ports, lcores and command lines. Unchanged parts of `before` are kept."""
    lists = ("/ethdev/list", "/eal/lcore/list", "/eal/params", "/eal/app_params")
    listed = (yield lists).values
    ports = few(listed["/ethdev/list"], "its list of ports", PORT_END, MAX_PORTS)
    lcores = few(listed["/eal/lcore/list"], "its list of lcores", LCORE_END, MAX_LCORES)
    port_info = {port: f"/ethdev/info,{port}" for port in ports}
    lcore_info = {lcore: f"/eal/lcore/info,{lcore}" for lcore in lcores}
    links = {port: f"/ethdev/link_status,{port}" for port in ports}
    infos = (yield (*port_info.values(), *links.values(), *lcore_info.values())).values
    return AppFacts(
        ports=with_plans(
            [port_facts(n, infos[request]) for n, request in port_info.items()], before
        ),
        lcores=tuple(
            lcore_facts(n, infos[request])
            for n, request in lcore_info.items()
            if infos[request] is not None
        ),
        lists_lcores=listed["/eal/lcore/list"] is not None,
        eal_params=arguments(listed["/eal/params"], "its EAL arguments"),
        app_params=arguments(listed["/eal/app_params"], "its own arguments"),
        hides_zero=before.hides_zero if before else None,
        links={port: link_speed(port, infos[request]) for port, request in links.items()},
    )


def ask_counters(
    facts: AppFacts, message_bytes: int = MAX_MESSAGE_BYTES, *, everything: bool = False
) -> Dialogue[tuple[AppFacts, DpdkCounters]]:
    """One reading of all counters, repeated until it arrives in time; `everything`: all xstats."""
    usage = "/eal/lcore/usage"
    requests = (*(q for port in facts.ports for q in port.requests), usage)
    answers = yield requests
    while not answers.times.in_time:
        answers = yield requests
    limit_bytes = message_bytes - _ENTRY_BYTES
    began_ns, ended_ns = answers.times.sent_at_ns, answers.times.done_at_ns
    read = [
        _read_port(port, answers, limit_bytes, facts.links.get(port.port), everything=everything)
        for port in facts.ports
    ]
    counters = DpdkCounters(
        ports=tuple(port for _, port in read),
        lcores=_with_usage(facts.lcores, answers.values[usage]),
        read_at_ns=(began_ns + ended_ns) // 2,
        took_ns=ended_ns - began_ns,
    )
    return replace(facts, ports=tuple(plan for plan, _ in read)), counters


def ask_remedy(facts: AppFacts) -> Dialogue[AppFacts]:
    """Request non-zero counters only if replies are cut and the application supports it."""
    if not any(port.cut for port in facts.ports):
        return facts
    offered = facts.hides_zero
    if offered is None:
        # Older DPDK takes the option too, ignores it, and says so in the application's log.
        request = "/help,/ethdev/xstats"
        answer = (yield (request,)).values[request]
        offered = isinstance(answer, dict) and "hide_zero" in str(answer.get("/ethdev/xstats"))
    ports = tuple(replace(port, nonzero_only=port.cut and offered) for port in facts.ports)
    return replace(facts, ports=ports, hides_zero=offered)


def ask_zones() -> Dialogue[tuple[int, ...]]:
    """Numbers of the application's memory zones."""
    request = "/eal/memzone_list"
    answers = yield (request,)
    return few(answers.values[request], "its memory zones", _ZONE_END, MAX_ITEMS)


def ask_zone_names(zones: Sequence[int]) -> Dialogue[frozenset[str]]:
    """Names of some memory zones."""
    requests = tuple(f"/eal/memzone_info,{zone}" for zone in zones)
    answers = yield requests
    names = (
        _maybe_mapping(value, "a memory zone").get("Name") for value in answers.values.values()
    )
    return frozenset(text(name, "the name of a memory zone") for name in names if name is not None)


def latency(raw: bytes, read_at_ns: int) -> DpdkLatency | Missing:
    """The reply of the legacy socket to `global_stat_values`."""
    what = "its reply to global_stat_values"
    fields = document(raw, what)
    data = fields.get("data")
    if data is None:
        status = text(fields.get("status_code"), what)
        return Missing(Reason.ERROR, f"DPDK can't list its metrics: {status}")
    stats = mapping(next(iter(_items(data, what)), None), what).get("stats")
    rows = [mapping(item, what) for item in _items(stats, what)]
    values = {text(row.get("name"), what): row.get("value") for row in rows}
    names = ("avg_latency_ns", "min_latency_ns", "max_latency_ns", "jitter_ns")
    if not values.keys() >= set(names):
        return Missing(Reason.SOURCE, "latencystats is not among its metrics")
    mean, least, most, jitter = (number(values[name], name) for name in names)
    if not mean + least + most + jitter:
        return Missing(Reason.IDLE, "latencystats has timed no packet yet")
    return DpdkLatency(mean, least, most, jitter, read_at_ns)


def _with_usage(lcores: tuple[DpdkLcore, ...], usage: object) -> tuple[DpdkLcore, ...]:
    """Cycles by lcore; the lists are empty where the application registered no counter."""
    if usage is None:
        return lcores
    fields = mapping(usage, "its lcore usage")
    names = ("lcore_ids", "total_cycles", "busy_cycles")
    columns = [numbers(fields.get(name), f"{name} in its lcore usage") for name in names]
    if len({len(column) for column in columns}) > 1:
        raise ReplyError("its lcore usage: its columns differ in length")
    cycles = {lcore: (total, busy) for lcore, total, busy in zip(*columns, strict=True)}
    return tuple(
        replace(row, total_cycles=cycles[row.lcore][0], busy_cycles=cycles[row.lcore][1])
        if row.lcore in cycles
        else row
        for row in lcores
    )


def _read_port(
    facts: PortFacts,
    answers: Answers,
    limit_bytes: int,
    link_bits_per_s: int | None,
    *,
    everything: bool,
) -> tuple[PortFacts, DpdkPort]:
    what = f"the counters of port {facts.port}"
    request = facts.xstats
    stats = _maybe_mapping(answers.values[request], what)
    basic = _maybe_mapping(answers.values.get(facts.stats), what)
    cut = len(stats) >= DICT_ENTRIES or answers.size_bytes.get(request, 0) >= limit_bytes
    zero = 0 if facts.nonzero_only and stats and not cut else None
    rx, tx, missed, rx_bytes, rx_errors, tx_errors, nombuf = (
        _first(stats.get(name), basic.get(basic_name), zero, f"{name} in {what}")
        for name, basic_name in zip(
            (*_TOTALS, *_LOSSES), (*_BASIC_TOTALS, *_BASIC_LOSSES), strict=True
        )
    )
    queues = _queue_packets(stats, facts.rx_queues, rx, zero)
    port = DpdkPort(
        facts.port,
        facts.name,
        facts.rx_queues,
        rx,
        tx,
        missed,
        queues,
        facts.bond_member,
        _queue_missed(stats, facts.rx_queues, zero),
        rx_bytes,
        link_bits_per_s,
        rx_errors=rx_errors,
        tx_errors=tx_errors,
        rx_nombuf=nombuf,
        xstats={text(k, what): number(v, f"a counter in {what}") for k, v in stats.items()}
        if everything
        else {},
    )
    plan = replace(
        facts,
        cut=facts.nonzero_only or (cut and (rx is None or not queues)),
        basic=facts.basic or stats.get(_TOTALS[0], zero) is None,
    )
    return plan, port


def _maybe_mapping(value: object, what: str) -> dict[str, object]:
    return {} if value is None else mapping(value, what)


def _first(preferred: object, other: object, otherwise: int | None, what: str) -> int | None:
    value = maybe_number(preferred, what)
    if value is None:
        value = maybe_number(other, what)
    return otherwise if value is None else value


def _queue_packets(
    stats: dict[str, object], rx_queues: int | None, rx: int | None, zero: int | None
) -> tuple[int, ...]:
    """Packets received by each queue; () unless all queues have a working counter."""
    for pattern in _QUEUE_PATTERNS:
        queues = _by_queue(stats, pattern, rx_queues, zero)
        # A driver that has the counters and never counts would show a busy queue as idle.
        if queues is not None and (any(queues) or rx == 0):
            return queues
    return ()


def _queue_missed(
    stats: dict[str, object], rx_queues: int | None, zero: int | None
) -> tuple[int, ...]:
    """Packets dropped in each queue; () unless all queues have a counter."""
    return _by_queue(stats, _QUEUE_MISSED, rx_queues, zero) or ()


def _by_queue(
    stats: dict[str, object], pattern: re.Pattern[str], rx_queues: int | None, zero: int | None
) -> tuple[int, ...] | None:
    """A counter of each queue; None unless all queues have it."""
    counters = {
        int(match[1]): number(value, key)
        for key, value in stats.items()
        if (match := pattern.fullmatch(key))
    }
    count = len(counters) if rx_queues is None else rx_queues
    by_queue = [counters.get(queue, zero) for queue in range(count)] if counters else []
    queues = tuple(packets for packets in by_queue if packets is not None)
    return queues if len(queues) == count else None
