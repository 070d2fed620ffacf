"""Latency by DPDK's latencystats, which only the legacy telemetry socket reports.

Whether the application has them on is asked of the telemetry socket: librte_latencystats reserves
a memory zone. Only then is the legacy socket, `telemetry` in the same folder, asked: DPDK never
frees what it writes into a reply (rte_metrics_telemetry.c, about 1.4 KB; seen with 22.11), so the
pauses between two requests double. It answers on the connection of the request; clients need not
register.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial

from nftop.model.clock import NS_PER_S
from nftop.model.missing import Missing, Reason
from nftop.model.sample import DpdkLatency
from nftop.sources.dpdk import protocol
from nftop.sources.dpdk.client import TelemetryLink
from nftop.sources.dpdk.protocol import Dialogue
from nftop.sources.nf_session import connection
from nftop.sources.nf_session.connection import LinkError, NoListenerError, ReplyError, SocketLink

FIRST_PAUSE_S, LONGEST_PAUSE_S = 10, 300
_ZONE = "rte_latencystats"
_REQUEST = b'{"action":0,"command":"global_stat_values","data":null}'
_MOST_BYTES = 100_000  # of a reply (telemetry_legacy.c)
_ZONES_AT_ONCE = 64

OFF = Missing(
    Reason.SOURCE, "the application has no latencystats on (testpmd: --latencystats=LCORE)"
)
_UNKNOWN = Missing(Reason.WARMING, "latencystats are not asked yet")
_NO_ZONES = Missing(
    Reason.SOURCE, "this DPDK does not list its memory zones, so latencystats are not looked for"
)
_NO_LEGACY = Missing(
    Reason.SOURCE, "latencystats are on, but the legacy telemetry socket is off: no librte_metrics"
)
_ANOTHER = Missing(
    Reason.SOURCE, "the legacy telemetry socket belongs to another application of this prefix"
)
_CLOSED = Missing(Reason.PERMISSION, "the legacy telemetry socket is closed to this user")
_SILENT = Missing(Reason.STALE, "the legacy telemetry socket did not answer")


class LegacyLink(SocketLink):
    """A connection for one request, sent at CLOCK_MONOTONIC `sent_at_ns`."""

    def __init__(self, connected: socket.socket, sent_at_ns: int) -> None:
        super().__init__(connected)
        self.sent_at_ns = sent_at_ns
        connected.send(_REQUEST, socket.MSG_NOSIGNAL)

    def reply(self) -> bytes | None:
        """The reply; None before it has arrived. Raises OSError, ReplyError."""
        try:
            raw, _, flags, _ = self._socket.recvmsg(_MOST_BYTES)
        except BlockingIOError:
            return None
        if not raw or flags & socket.MSG_TRUNC:
            raise ReplyError("it has no length that DPDK's have")
        return raw


class LatencyReader:
    """Reads the latencystats of one application, in ticks in which they are due.

    Attributes:
        value: the last reply, or why there is none.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self.value: DpdkLatency | Missing = _UNKNOWN
        self._clock = clock
        self._pause_s = FIRST_PAUSE_S
        self._due_ns = 0
        self._zones: tuple[int, ...] | None = None  # still to be asked for; None: not listed

    def poll(self, link: TelemetryLink, path: str) -> Dialogue[None]:
        """One tick, on a telemetry connection to `path`."""
        if isinstance(link.companion, LegacyLink):
            self._hear(link, link.companion)
        if link.companion is not None or self._clock() < self._due_ns:
            return
        if "/eal/memzone_info" not in link.listed:
            self._settle(_NO_ZONES)
            return
        if self._zones is None:
            self._zones = yield from protocol.ask_zones()
        names = yield from protocol.ask_zone_names(self._zones[:_ZONES_AT_ONCE])
        self._zones = self._zones[_ZONES_AT_ONCE:]
        if _ZONE in names:
            self._ask(link, path)
        elif not self._zones:
            self._settle(OFF)

    def _ask(self, link: TelemetryLink, path: str) -> None:
        legacy = f"{path.rpartition('/')[0]}/telemetry"
        link_of = partial(LegacyLink, sent_at_ns=self._clock())
        try:
            opened = connection.connect(legacy, socket.SOCK_SEQPACKET, "legacy telemetry", link_of)
        except PermissionError:
            self._settle(_CLOSED)
        except NoListenerError:
            self._settle(_NO_LEGACY)
        except LinkError as error:
            self._settle(error.why)
        else:
            if opened.peer != link.peer:
                opened.close()
                self._settle(_ANOTHER)
                return
            self._settle(self.value)
            link.companion = opened
            self._hear(link, opened)

    def _hear(self, link: TelemetryLink, legacy: LegacyLink) -> None:
        try:
            raw = legacy.reply()
            if raw is None and self._clock() < self._due_ns:
                return
            self.value = _SILENT if raw is None else protocol.latency(raw, legacy.sent_at_ns)
        except OSError:
            self.value = _SILENT
        except ReplyError as error:
            self.value = Missing(Reason.ERROR, f"its latencystats are invalid: {error}")
        legacy.close()
        link.companion = None

    def _settle(self, value: DpdkLatency | Missing) -> None:
        self.value, self._zones = value, None
        self._due_ns = self._clock() + self._pause_s * NS_PER_S
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
