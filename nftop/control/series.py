"""A series of changes that are tried in turn, with one journal entry that restores the first state.

The entry is written before the first change and has every value that the series may write, so that
the journal alone suffices to restore the state before it, whatever dies at whatever moment. The
series is never kept: at its end the state before it is restored.

Between two changes the host is compared with what the series wrote. If another program has changed
anything, the series ends; its own values are restored, and those of others stay.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain

from nftop.control.backend import KERNEL_ASSIGNED, AnyBackend, LockedError, RefusedError, goal
from nftop.control.journal import Journal, next_number, now
from nftop.control.journal_entry import Entry, Requester
from nftop.control.recovery import LOCK_S, retry, revert
from nftop.control.revert import differing, is_end
from nftop.control.transaction import REVERT_LOCK_S, UnwrittenError, after_error, compared, unknown
from nftop.control.wording import differences
from nftop.model.change import Change, Outcome, Proposal, ReasonCode, Receipt, State, difference
from nftop.model.error_text import describe_error
from nftop.model.struct import replace

# Seconds between two comparisons of the host with what was written.
CHECK_S = 2.0
# Without a word from nftop for so long the series ends: its limits are not watched.
SILENCE_S = 15.0
# Words of nftop: `try N`, `alive`, and `end`, which any other word means too.
TRY, ALIVE, END = b"try", b"alive", b"end"
_OTHERS = "{} were changed by somebody else: the series ends"
_SILENT = "nothing was received from nftop for {:.0f} s: the series ends"
_FAILED = "{}: the series ends"
_LOCKED = "setting {} was not written, since another program has the lock: {}: the series ends"


class SeriesError(Exception):
    """Ends the series: the reason, and `outcome`, which is that once its values are restored."""

    def __init__(self, outcome: Outcome, code: ReasonCode, *sentences: str) -> None:
        super().__init__(outcome)
        self.outcome, self.code, self.sentences = outcome, code, sentences


class SettingSeries:
    """A series under way; the caller holds the journal.

    Attributes:
        state: what is on the host as far as the series knows.
    """

    def __init__(
        self, host: AnyBackend, settings: Sequence[Sequence[Change]], entry: Entry
    ) -> None:
        self._host = host
        self._settings = tuple(map(tuple, settings))
        self._entry = entry
        self.state: State = entry.base
        self._written: tuple[Change, ...] = ()
        self._checked_s = -math.inf

    @property
    def entry(self) -> Entry:
        """The entry with the values that may be on the host now, no others."""
        return replace(self._entry, changes=self._written)

    def check_now_and_then(self) -> None:
        """As `check`, but not more often than every CHECK_S."""
        if time.monotonic() - self._checked_s >= CHECK_S:
            self.check()

    def check(self) -> None:
        """Compare the host with what was written. Raises SeriesError, OSError."""
        self._checked_s = time.monotonic()
        read = self._host.read(self.state)
        other = [item for item in difference(self.state, read) if not is_end(item)]
        if other:
            head = _OTHERS.format(self._host.subject)
            rows = differences(other, "was written", "is now")
            raise SeriesError("reverted", ReasonCode.HOST_CHANGED, head, *rows)

    def change(self, setting: int) -> Receipt:
        """Put a setting on the host. Raises SeriesError if it is not there afterwards, OSError."""
        if not 0 <= setting < len(self._settings):
            why = _FAILED.format(f"there is no setting {setting}")
            raise SeriesError("refused", ReasonCode.SETTING_INVALID, why)
        # A directory that every setting has is created once, with a number of the kernel's.
        target = {
            cell: self.state.get(cell, value) if value == KERNEL_ASSIGNED else value
            for cell, value in goal(self._entry.base, self._settings[setting]).items()
        }
        changes = difference(self.state, target)
        try:
            with self._host.lock(LOCK_S):
                self.check()
                # Until it is read back, old and new values may be there.
                self._written = (*difference(self._entry.base, self.state), *changes)
                for step in self._host.steps(self.state, changes):
                    self._host.do(step)
                read = self._host.read_back(target)
        except LockedError as error:
            message = _LOCKED.format(setting + 1, error)
            raise SeriesError("reverted", ReasonCode.LOCK_HELD, message) from None
        except RefusedError as error:
            message = _FAILED.format(describe_error(error))
            raise SeriesError("refused", ReasonCode.WRITE_REFUSED, message) from None
        wrong = differing(target, read)
        if wrong:
            messages = differences(wrong, "was asked for", "is what is read back")
            raise SeriesError("differs", ReasonCode.VALUE_DIFFERS, *messages)
        self.state, self._written = read, difference(self._entry.base, read)
        return Receipt("applied", ("read back as it should be",), changes, self._entry.number)


def serve_series(
    host: AnyBackend,
    journal: Journal,
    proposal: Proposal,
    settings: Sequence[Sequence[Change]],
    requester: Requester,
    *,
    answer: Callable[[Receipt | None], None],
    word: Callable[[float], bytes | None],
) -> None:
    """Try settings as requested, and restore the state before them; the caller holds the journal.

    Args:
        host: the backend.
        journal: of its changes.
        proposal: the state before, and every value that may be written: several changes of a cell.
        settings: changes of that state.
        requester: of the series.
        answer: receives a receipt that says that it can begin, one of each setting, and the final
            one.
        word: waits at most so many seconds for a word of nftop; None: none came; b"": it is gone.

    Raises OSError, DamagedJournalError: the journal can't be read; nothing was done.
    """
    if not settings or not set(chain.from_iterable(settings)) <= set(proposal.changes):
        # The journal's entry has the proposal's changes: only those can be reverted after a crash.
        why = ("a setting is not within the changes of the series",)
        answer(Receipt("refused", why, code=ReasonCode.SETTING_INVALID))
        return
    journal.pending()
    try:
        base = compared(host, journal, proposal)
    except UnwrittenError as error:
        answer(error.receipt)
        return
    entry = Entry(
        number=next_number(journal),
        time=now(),
        identity=host.identity,
        operator=requester.operator,
        command="; ".join(proposal.commands),
        changes=proposal.changes,
        base=base,
    )
    try:
        journal.begin(entry)
    except OSError as error:
        why = (f"the journal can't be written: {describe_error(error)}",)
        answer(Receipt("refused", why, code=ReasonCode.JOURNAL_UNAVAILABLE))
        return
    series = SettingSeries(host, settings, entry)
    answer(Receipt("applied", ("nothing is written yet",), (), entry.number))
    end = _tried(series, answer, word)
    try:
        final = retry(REVERT_LOCK_S, partial(revert, host, journal, series.entry, end))
    except Exception as error:  # noqa: BLE001 - it was written: report it
        final = after_error(host, journal, error, unknown(journal, error))
    answer(final)


def _tried(
    series: SettingSeries,
    answer: Callable[[Receipt | None], None],
    word: Callable[[float], bytes | None],
) -> Receipt:
    """Try settings until the end; the receipt once all is restored."""
    silence_s = 0.0
    try:
        while True:
            began_s = time.monotonic()
            command = word(CHECK_S)
            if command is None:
                # Time in which the guard itself did not run is no silence of nftop's.
                silence_s += min(time.monotonic() - began_s, CHECK_S)
                if silence_s >= SILENCE_S:
                    sentences = (_SILENT.format(silence_s),)
                    return Receipt("reverted", sentences, code=ReasonCode.CLIENT_SILENT)
                series.check_now_and_then()
                continue
            silence_s = 0.0
            name, _, number = command.partition(b" ")
            if name == ALIVE:
                series.check_now_and_then()
            elif name == TRY and number.isdigit():
                answer(series.change(int(number)))
            else:
                return Receipt("reverted", ())
    except SeriesError as end:
        return Receipt(end.outcome, end.sentences, code=end.code)
    except Exception as error:  # noqa: BLE001 - nothing may be left on the host
        return Receipt("refused", (_FAILED.format(describe_error(error)),), code=ReasonCode.ERROR)
