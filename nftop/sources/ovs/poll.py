"""One session per ovs-vswitchd: its connection, what it said last, and when to try again."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from pathlib import Path

from nftop.model.nf.ovs import OvsSwitch
from nftop.model.reading import Missing, Reason
from nftop.sources.nf_session.discovery import Found
from nftop.sources.nf_session.poll_loop import Identity, Standing
from nftop.sources.ovs import jsonrpc
from nftop.sources.ovs.commands import COUNTING, VERSION, Call, calls_for, release_of
from nftop.sources.ovs.jsonrpc import Link, LinkError, NobodyThereError
from nftop.sources.ovs.parse import Counters, counters
from nftop.sources.ovs.replies import Reply, ReplyError, text
from nftop.sources.trust import peer, trust
from nftop.sources.trust.peer import Peer

_GIVE_UP_NS = 60_000_000_000
_BACKOFF_S = (1, 2, 4, 8, 16, 30)
_FORBIDDEN_BACKOFF_S = 30
_NS_PER_S = 1_000_000_000
_UNPRIVILEGED_REPLY_BYTES = 256 << 10
_PIECES = 64  # taken of what came late, before the next tick's questions
# Slower answers say too little of when they were true, so they are asked for once more.
_SLOW_NS = 10_000_000
# The userspace datapath's name, for where there is more than one (ofproto-dpif.c).
_DATAPATH = "ovs-netdev"
_WHICH_DATAPATH = "please specify an existing datapath"
# Where a command is not known, or not with these arguments (unixctl.c).
_UNKNOWN = ("is not a valid command", "command takes at most", "command requires at least")

Talk = Generator[tuple[Call, ...], bool, None]


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of how to ask a process: its version, and what it answers."""

    version: str
    calls: tuple[Call, ...]


class Session:
    """One ovs-vswitchd; see `poll_loop.Polled`.

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
        self._talk: Talk | None = None
        self._tick = self._sent_tick = self._heard_tick = 0
        self._sent_at_ns = 0
        self._peer = Peer()
        self._known: _Known | None = None
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
        return self._peer.identity

    @property
    def fd(self) -> int | None:
        return None if self._link is None else self._link.fileno()

    @property
    def pressing(self) -> bool:
        return self._talk is not None and self._tick in (self._sent_tick, self._heard_tick)

    def begin(self, claimed: set[Identity]) -> None:
        self._tick += 1
        now_ns = self._clock()
        if self._link is not None and self._lost_for_good(now_ns):
            self._drop(Missing(Reason.STALE, self._silence(now_ns)))
        known = self.standing is Standing.DUPLICATE and self.identity in claimed
        if self._link is None and now_ns >= self._retry_at_ns and not known:
            self._open(claimed)
        for _ in range(_PIECES if self.owner.privileged else 1):
            if not self.hear():
                break
        if self._link is not None and self._talk is None:
            self._talk = self._converse(self._link)
            self._advance(in_time=None)

    def hear(self) -> bool:
        try:
            if self._link is None or not self._link.hear():
                return False
            self._heard_at_ns, self._heard_tick = self._clock(), self._tick
            if self._talk is not None and not self._link.waiting:
                self._advance(in_time=self._sent_tick == self._tick)
        except (ReplyError, LinkError) as error:
            self._drop(_why(error))
        return True

    def switch(self) -> OvsSwitch | None:
        """What to show; None while nobody is there, or somebody we may not ask.

        With a problem the counters and `read_at_ns` are still of one poll, the last that worked.
        """
        if self.standing is not Standing.APPLICATION or not self._tick:
            return None
        last = self._counters
        return OvsSwitch(
            pid=self._peer.pid,
            start_ticks=self._peer.start_ticks,
            name=self._name(),
            rundir=self.found.path.rpartition("/")[0],
            socket=self.found.path,
            version=self._known.version if self._known else "",
            problem=self._why_old(),
            pmds=last.pmds if last else (),
            usage_window_s=last.usage_window_s if last else None,
            read_at_ns=last.read_at_ns if last else 0,
            took_ns=last.took_ns if last else 0,
            owner=self.owner,
        )

    def _name(self) -> str:
        """What it calls itself; the kernel's name for it is cut after 15 bytes."""
        program = self._known.version.partition(" ")[0] if self._known else ""
        return program or self._peer.comm or "ovs-vswitchd"

    def close(self) -> None:
        if self._talk is not None:
            self._talk.close()
        if self._link is not None:
            self._link.close()
        self._talk = self._link = None

    def _open(self, claimed: set[Identity]) -> None:
        self.standing = Standing.APPLICATION
        try:
            link = jsonrpc.connect(self.found.path, self._clock)
        except NobodyThereError:
            # Who comes has a socket of its own; only between its bind and its listen it is this.
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
        if not self.owner.privileged:
            link.limit_replies(_UNPRIVILEGED_REPLY_BYTES)

    def _forget(self, successor: Peer) -> None:
        """Nothing of one process may pass for another's."""
        self._peer = successor
        self._known = self._counters = self._problem = None
        self._failures = 0
        self._heard_at_ns = self._clock()

    def _converse(self, link: Link) -> Talk:
        """A tick's dialogue; each batch is answered by whether that came in the same tick."""
        if self._known is None:
            yield (VERSION,)
            told = link.replies[VERSION]
            release = release_of(told.text or told.error)
            self._known = _Known(text(told.text, "its version"), calls_for(release))
        again = False
        while True:
            in_time = yield self._known.calls
            learnt = _learnt(self._known, link.replies)
            if _nowhere(link.replies):  # and next time perhaps there is one, by whatever name
                self._known = replace(self._known, calls=tuple(map(_unnamed, self._known.calls)))
                break
            if learnt == self._known and in_time and (again or not self._slow(link)):
                break
            again = again or learnt == self._known
            self._known = learnt
        self._counters = counters(link.replies, self._sent_at_ns)

    def _slow(self, link: Link) -> bool:
        return min(reply.at_ns for reply in link.replies.values()) - self._sent_at_ns > _SLOW_NS

    def _advance(self, *, in_time: bool | None) -> None:
        """Carry the dialogue on until something has to be waited for, or it is over."""
        if self._talk is None or self._link is None:
            return
        try:
            calls = next(self._talk) if in_time is None else self._talk.send(in_time)
            self._sent_at_ns, self._sent_tick = self._clock(), self._tick
            self._link.ask(calls)
        except StopIteration:
            self._talk = self._problem = None
            self._failures = 0
        except (ReplyError, LinkError) as error:
            self._drop(_why(error))

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
        # Nothing is lost between a daemon and a connection that it has not answered yet, so to
        # connect anew would only make one more for it to serve.
        answered = self._link is not None and self._link.answered
        return answered and self._talk is not None and now_ns - self._heard_at_ns > _GIVE_UP_NS

    def _why_old(self) -> Missing | None:
        if self._link is not None and self._talk is not None:
            return Missing(Reason.STALE, self._silence(self._clock()))
        return self._problem

    def _silence(self, now_ns: int) -> str:
        seconds = (now_ns - self._heard_at_ns) / _NS_PER_S
        if seconds < 1:
            return "answers too slowly: its counters did not come in time"
        return f"has not answered for {seconds:.0f} s"


def _nowhere(replies: Mapping[Call, Reply]) -> bool:
    """Whether there is no userspace datapath, not under the usual name either."""
    return any(
        call != _unnamed(call) and reply.error == _WHICH_DATAPATH for call, reply in replies.items()
    )


def _unnamed(call: Call) -> Call:
    named = call.arguments[-1:] == (_DATAPATH,)
    return replace(call, arguments=call.arguments[:-1]) if named else call


def _learnt(known: _Known, replies: Mapping[Call, Reply]) -> _Known:
    """What is to be asked from now on: the same, where nothing was refused.

    A daemon without a userspace datapath, or with more than one, wants to be told which; one that
    has none under the usual name has no PMD threads.

    Raises:
        ReplyError: a command failed, or it has none of them.
    """
    calls: list[Call] = []
    for call in known.calls:
        failed = replies[call].error
        if any(words in failed for words in _UNKNOWN):
            continue
        if failed == _WHICH_DATAPATH and call == _unnamed(call):
            calls.append(replace(call, arguments=(*call.arguments, _DATAPATH)))
        elif failed in ("", _WHICH_DATAPATH):
            calls.append(call)
        else:
            raise ReplyError(f"{call.method} failed: {failed}")
    if not any(call.method in COUNTING for call in calls):
        raise ReplyError("it offers no statistics of its PMD threads")
    return replace(known, calls=tuple(calls))


def _why(error: ReplyError | LinkError) -> Missing:
    if isinstance(error, LinkError):
        return error.why
    return Missing(Reason.ERROR, f"what it answers can't be read: {error}")
