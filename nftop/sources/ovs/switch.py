"""What all answers of one tick say together of a daemon's PMD threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nftop.model.ids import Cpu
from nftop.model.nf.ovs import OvsPmd
from nftop.sources.ovs.commands import COUNTING, PERF, RXQ, STATS, Call
from nftop.sources.ovs.parse import Counted, Polled, counted, polled
from nftop.sources.ovs.replies import Reply


@dataclass(frozen=True, slots=True)
class Counters:
    """What changes at every tick; fields as in `OvsSwitch`."""

    pmds: tuple[OvsPmd, ...]
    usage_window_s: float | None
    read_at_ns: int
    took_ns: int


def counters(replies: Mapping[Call, Reply], sent_at_ns: int) -> Counters:
    """Of the replies that are no errors; a command that was not asked says nothing.

    `read_at_ns` is the middle of the time in which the first of the counters must have been read:
    those that packets and cycles are taken from together.

    Raises:
        ReplyError: one of them makes no sense.
    """
    told = {call.method: reply for call, reply in replies.items() if not reply.error}
    stats = counted(told[STATS].text) if STATS in told else {}
    perf = counted(told[PERF].text) if PERF in told else {}
    queues, window_s = polled(told[RXQ].text) if RXQ in told else ({}, None)
    first = next((told[method] for method in COUNTING if method in told), None)
    last_ns = max((reply.at_ns for reply in replies.values()), default=sent_at_ns)
    return Counters(
        pmds=tuple(
            _pmd(core, stats.get(core), perf.get(core), queues.get(core))
            for core in sorted(stats.keys() | perf.keys() | queues.keys())
        ),
        usage_window_s=window_s,
        read_at_ns=(sent_at_ns + (first.at_ns if first else last_ns)) // 2,
        took_ns=last_ns - sent_at_ns,
    )


def _pmd(core: int, stats: Counted | None, perf: Counted | None, queues: Polled | None) -> OvsPmd:
    """Packets and cycles are of one reply, so that what is divided was read at once."""
    numa = next(item.numa for item in (stats, perf, queues) if item is not None)
    main = stats or perf or Counted(numa)
    beside = perf or main
    return OvsPmd(
        core=Cpu(core),
        numa=numa,
        rx_packets=main.rx_packets,
        tx_packets=beside.tx_packets,
        used_cycles=_used(main),
        busy_cycles=main.busy_cycles,
        sleep_us=beside.sleep_us,
        upcalls=_upcalls(main),
        lost_upcalls=main.lost_upcalls,
        queues=queues.queues if queues else (),
        overhead_ratio=queues.overhead_ratio if queues else None,
        hits=main.hits,
        counted_s=beside.counted_s,
    )


def _used(main: Counted) -> int | None:
    if main.idle_cycles is None or main.busy_cycles is None:
        return main.used_cycles
    return main.idle_cycles + main.busy_cycles


def _upcalls(main: Counted) -> int | None:
    """Every miss, the lost ones too, which 2.10 and later count apart."""
    if main.upcalls is None or main.lost_upcalls is None:
        return main.misses
    return main.upcalls + main.lost_upcalls
