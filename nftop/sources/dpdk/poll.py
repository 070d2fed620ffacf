"""One session per application: its connection, what it said last, and when to try again."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

from nftop.model.reading import Missing, Reason
from nftop.model.sample import DpdkApp
from nftop.sources.dpdk import client, protocol
from nftop.sources.dpdk.client import Link, LinkError, NobodyThereError
from nftop.sources.dpdk.protocol import Answers, Counters, Facts
from nftop.sources.dpdk.replies import TEXT_LIMIT, ReplyError
from nftop.sources.nf_session.discovery import Found
from nftop.sources.nf_session.poll_loop import Identity, Standing
from nftop.sources.trust import peer, trust
from nftop.sources.trust.peer import Peer

REFRESH_NS = 5_000_000_000  # ports, lcores and arguments seldom change
_GIVE_UP_NS = 60_000_000_000
_BACKOFF_S = (1, 2, 4, 8, 16, 30)
_FORBIDDEN_BACKOFF_S = 30
_NS_PER_S = 1_000_000_000


class Session:
    """One application: its connection, what it said last, and when to try again.

    Attributes:
        found: the socket it is behind.
        standing: what the last attempt to connect showed.
        owner, spent_ns: as `Polled` has them.
    """

    def __init__(self, found: Found, proc: Path, clock: Callable[[], int]) -> None:
        self.found = found
        self.standing = Standing.APPLICATION
        self.owner = found.owner
        self.spent_ns = 0
        self._proc = proc
        self._clock = clock
        self._link: Link | None = None
        self._turn: Generator[tuple[str, ...], Answers, None] | None = None
        self._tick = 0
        self._sent_at_ns = self._sent_tick = self._heard_tick = 0
        self._peer = Peer()
        self._version = ""
        self._facts: Facts | None = None
        self._refresh_at_ns = 0
        self._counters: Counters | None = None
        self._problem: Missing | None = None
        self._failures = 0
        self._retry_at_ns = 0
        self._heard_at_ns = clock()

    @property
    def connected(self) -> bool:
        return self._link is not None

    @property
    def identity(self) -> Identity:
        """The process behind the socket; (0, 0) before the first connection."""
        return self._peer.identity

    @property
    def fd(self) -> int | None:
        return None if self._link is None else self._link.fileno()

    @property
    def pressing(self) -> bool:
        """It is worth waiting for: it was asked, or was heard answering, in this tick."""
        return self._turn is not None and self._tick in (self._sent_tick, self._heard_tick)

    def begin(self, claimed: set[Identity]) -> None:
        """Start a tick: connect if need be, take what came late, ask.

        `claimed` holds the processes other sessions are connected to, and gets this one's.
        """
        self._tick += 1
        now_ns = self._clock()
        if self._link is not None and self._lost_for_good(now_ns):
            self._drop(Missing(Reason.STALE, self._silence(now_ns)))
        known = self.standing is Standing.DUPLICATE and self.identity in claimed
        if self._link is None and now_ns >= self._retry_at_ns and not known:
            self._open(claimed)
        for _ in range(client.WINDOW if self.owner.privileged else 1):
            if not self.hear():
                break
        if self._link is not None and self._turn is None:
            self._turn = self._converse(self._link)
            self._advance(None)

    def hear(self) -> bool:
        """Take one message, and ask what follows from it; False when there is none."""
        try:
            if self._link is None or not self._link.hear():
                return False
            self._heard_at_ns, self._heard_tick = self._clock(), self._tick
            if not self._link.waiting:
                self._advance(self._answers(self._link))
        except (ReplyError, LinkError) as error:
            self._drop(_why(error))
        return True

    def app(self) -> DpdkApp | None:
        """What to show; None while nobody is there, or somebody we may not ask.

        With a problem the counters and `read_at_ns` are still of one poll, the last that worked.
        """
        if self.standing is not Standing.APPLICATION or not self._tick:
            return None
        facts, counters = self._facts, self._counters
        arguments = facts.eal_params if facts else ()
        return DpdkApp(
            pid=self._peer.pid,
            start_ticks=self._peer.start_ticks,
            name=_base_name(arguments) or self._peer.comm,
            prefix=self.found.prefix,
            socket=self.found.path,
            version=self._version,
            problem=self._why_old(),
            ports=counters.ports if counters else (),
            lcores=counters.lcores if counters else (),
            lcores_told=facts is not None and facts.lcores_told,
            eal_params=arguments,
            app_params=facts.app_params if facts else (),
            read_at_ns=counters.read_at_ns if counters else 0,
            took_ns=counters.took_ns if counters else 0,
            owner=self.owner,
        )

    def close(self) -> None:
        if self._turn is not None:
            self._turn.close()
        if self._link is not None:
            self._link.close()
        self._turn = self._link = None

    def _open(self, claimed: set[Identity]) -> None:
        self.standing = Standing.APPLICATION
        try:
            link = client.connect(self.found.path)
        except NobodyThereError:
            self.standing = Standing.NOBODY
            self._forget(Peer())
        except PermissionError:
            self.standing = Standing.FORBIDDEN
            self._wait(_FORBIDDEN_BACKOFF_S)
        except LinkError as error:
            self._drop(error.why)
        else:
            self._adopt(link, claimed)

    def _adopt(self, link: Link, claimed: set[Identity]) -> None:
        found = peer.of_listener(link.peer, self._proc)
        self.owner = trust.of_socket(self.found.path, link.peer.uid)
        if found.pid and found.identity in claimed:
            link.close()
            self._forget(found)
            self.standing = Standing.DUPLICATE
            return
        claimed.add(found.identity)
        if found.identity != self._peer.identity:
            self._forget(found)
        self._link = link
        self._refresh_at_ns = 0

    def _forget(self, successor: Peer) -> None:
        """Nothing of one process may pass for another's."""
        self._peer = successor
        self._version = ""
        self._facts = self._counters = self._problem = None
        self._failures = 0
        self._heard_at_ns = self._clock()

    def _converse(self, link: Link) -> Generator[tuple[str, ...], Answers, None]:
        """A tick's dialogue with the application."""
        if len(link.listed) == 1:
            link.listed = yield from protocol.ask_commands()
        if self._facts is None or self._clock() >= self._refresh_at_ns:
            self._facts = yield from protocol.ask_facts(self._facts)
            self._refresh_at_ns = self._clock() + REFRESH_NS
        self._facts, self._counters = yield from protocol.ask_counters(
            self._facts, link.message_bytes
        )
        self._facts = yield from protocol.ask_remedy(self._facts)

    def _advance(self, answers: Answers | None) -> None:
        """Carry the dialogue on until something has to be waited for, or it is over."""
        while self._turn is not None and self._link is not None:
            try:
                questions = next(self._turn) if answers is None else self._turn.send(answers)
                self._sent_at_ns, self._sent_tick = self._clock(), self._tick
                self._link.ask(questions)
            except StopIteration:
                self._turn = None
                self._problem = None
                self._failures = 0
                return
            except (ReplyError, LinkError) as error:
                self._drop(_why(error))
                return
            if self._link.waiting:
                return
            answers = self._answers(self._link)

    def _answers(self, link: Link) -> Answers:
        if link.greeting is not None:
            self._version = link.greeting.version
        return Answers(
            values=link.values,
            size_bytes=link.size_bytes,
            sent_at_ns=self._sent_at_ns,
            done_at_ns=self._clock(),
            in_time=self._sent_tick == self._tick,
        )

    def _drop(self, why: Missing) -> None:
        """End the connection, and try again later."""
        self.close()
        self._problem = why
        self._wait(_BACKOFF_S[min(self._failures, len(_BACKOFF_S) - 1)])
        self._failures += 1
        now = peer.look_up(self._peer.pid, self._proc)
        if self._peer.pid and now.identity != self._peer.identity:
            self.standing = Standing.NOBODY
            self._retry_at_ns = 0

    def _wait(self, seconds: int) -> None:
        self._retry_at_ns = self._clock() + seconds * _NS_PER_S

    def _lost_for_good(self, now_ns: int) -> bool:
        # A greeting is never lost, so who has not greeted yet will not do better when asked anew.
        greeted = self._link is not None and self._link.greeting is not None
        return greeted and self._turn is not None and now_ns - self._heard_at_ns > _GIVE_UP_NS

    def _why_old(self) -> Missing | None:
        if self._link is not None and self._turn is not None:
            return Missing(Reason.STALE, self._silence(self._clock()))
        return self._problem

    def _silence(self, now_ns: int) -> str:
        seconds = (now_ns - self._heard_at_ns) / _NS_PER_S
        if seconds < 1:
            return "answers too slowly: its counters did not come in time"
        return f"has not answered for {seconds:.0f} s"


def _why(error: ReplyError | LinkError) -> Missing:
    if isinstance(error, LinkError):
        return error.why
    return Missing(Reason.ERROR, f"its telemetry makes no sense: {error}")


def _base_name(arguments: tuple[str, ...]) -> str:
    return arguments[0].rpartition("/")[2][:TEXT_LIMIT] if arguments else ""
