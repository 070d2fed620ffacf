"""State of a change from request to end: applied, then kept or reverted; shared by all screens.

One thread owns a change and is the only one that talks to its guard. When the application ends, a
change that is not kept is reverted.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

from nftop.control.gate_protocols import ClassGate, PendingChange
from nftop.derive.cache.changes import MOST
from nftop.model.change import Change, Outcome, OwnChange, Proposal, ReasonCode, Receipt
from nftop.model.ids import Cpu, parse_cpu_list
from nftop.model.keep_timeout import KEEP_WITHIN_S
from nftop.model.rdt.rdt import split_path
from nftop.model.struct import dataclass, replace
from nftop.render.base.line import Line
from nftop.render.frame.changes import (
    PendingFacts,
    applying_lines,
    outcome_lines,
    settling_lines,
    unkept_lines,
)
from nftop.session.experiment import ExperimentHost
from nftop.store.history.experiments import NoteStep
from nftop.ui.experiment_control import ExperimentControl

Phase: TypeAlias = Literal["none", "applying", "unkept", "settling"]
_POLL_S = 0.2  # reaction time to a key, and period of polling the guard
# Outcomes that wrote nothing.
_UNWRITTEN: tuple[Outcome, ...] = ("conflict", "locked")
# Outcomes after which the change, or some of it, may still be on the host.
_MAY_STAND: tuple[Outcome, ...] = ("kept", "failed")
# Applied and reverted: more than a frame keeps of observed changes.
_MOST_OWN = 4 * MOST


@dataclass(frozen=True, slots=True)
class AppliedChange:
    """A change that was written to the host.

    Attributes:
        at_ns: CLOCK_MONOTONIC after the write.
        groups: classes it changes.
        cpus: CPUs whose frequencies it sets.
        number: in the history; None if it has none.
        until_ns: CLOCK_MONOTONIC when it is reverted unless kept; None once it is settled.
        taken_back_ns: CLOCK_MONOTONIC when the revert or undo began; None: none did.
    """

    at_ns: int
    groups: tuple[str, ...]
    cpus: tuple[Cpu, ...] = ()
    number: int | None = None
    until_ns: int | None = None
    taken_back_ns: int | None = None


@dataclass(frozen=True, slots=True)
class PendingState:
    """State of the change in progress, and of the last ones.

    Attributes:
        phase: of the change; `none` without one.
        word: in `settling`, what is being done.
        until_s: CLOCK_MONOTONIC of the automatic revert.
        kept: the last change that ended was kept.
        receipt: of this change or the previous one; None without any.
        applied, tuned: last applied change of classes, and of frequencies.
        changed: counts changes of the host; readers compare it to know when to read again.
    """

    phase: Phase = "none"
    word: str = ""
    until_s: float = 0.0
    receipt: Receipt | None = None
    applied: AppliedChange | None = None
    tuned: AppliedChange | None = None
    changed: int = 0
    kept: bool = False


class ChangeControl:
    """Controls one change at a time. Methods: application thread; `on_change`: called from any."""

    def __init__(
        self,
        gate: ClassGate | None,
        on_change: Callable[[], None],
        *,
        keep_within_s: float = KEEP_WITHIN_S,
        clock: Callable[[], float] = time.monotonic,
        experiment_host: Callable[[], ExperimentHost] | None = None,
        note: NoteStep | None = None,
    ) -> None:
        """`gate`: None if nothing can be changed. `on_change`: called when `state` changes.

        `experiment_host`: opens the host for experiments; None: the one that is shown.
        `note`: notes their steps in a recording.
        `left`: receipt of a change that was pending when the application ended; None if it was
        kept as requested.
        `own_changes`: writes and reverts made here, oldest first.
        `last`: receipt of the last change that ended, and whether its time had expired.
        `experiment`: the one under way, or the last one.
        `ways`: of the caches, by `L3` and `L2`, for the banner.
        """
        self.gate = gate
        self.ways: Mapping[str, int] = {}
        self.experiment = ExperimentControl(
            gate, on_change, open_host=experiment_host, wrote=self._tried, note=note
        )
        self.keep_within_s = keep_within_s
        self.state = PendingState()
        self.left: Receipt | None = None
        self.last: tuple[Receipt, bool] | None = None
        self.own_changes: tuple[OwnChange, ...] = ()
        self._on_change = on_change
        self._clock = clock
        self._closing = False
        self._heard = threading.Event()
        self._lock = threading.Lock()  # of `state`: a key and the end of the time may coincide
        self._keeps = False
        self._expired = False  # the guard ended the change before a key did

    def begin(self) -> bool:
        """Reserve the control for a change; True: call `apply_and_settle` for it."""
        if self.state.phase != "none" or self._closing or self.experiment.busy:
            return False
        self._keeps = self._expired = False
        self._heard.clear()
        self._now(phase="applying", receipt=None)
        return True

    def apply_and_settle(self, proposal: Proposal, undoes: tuple[int, ...]) -> None:
        """Apply a change and settle it; blocks, so call it in a thread.

        A final proposal (an undo that needs no second `y`) is kept at once, even if the application
        ends meanwhile.
        """
        if self.gate is None:
            return
        began_ns = time.monotonic_ns()
        keep_within_s = None if proposal.final else self.keep_within_s
        try:
            pending = self.gate.apply(proposal, keep_within_s=keep_within_s, undoes=undoes)
            receipt = pending.receipt
            if proposal.final and receipt.outcome == "applied":
                # The guard keeps it by itself; this waits for its receipt.
                receipt = pending.keep()
            if receipt.outcome == "kept":
                self._is_kept(receipt, began_ns, undoes)
            elif receipt.outcome == "applied":
                until_ns = self._is_applied(receipt, began_ns)
                receipt = self._settled(pending, receipt.changes, until_ns)
            elif receipt.outcome not in _UNWRITTEN:
                self._wrote(proposal.changes, began_ns)
                self._may_have_reverted(proposal.changes, began_ns)
        except Exception as error:  # noqa: BLE001 - the boundary: a sentence, whatever it is
            hint = "; `nftop recover` says what it left" * self.gate.persistent
            message = f"{type(error).__name__}: {error}{hint}"
            receipt = Receipt("failed", (message,), code=ReasonCode.ERROR)
            self._stop_waiting(None)
            self._wrote(proposal.changes, began_ns)
            self._may_have_reverted(proposal.changes, began_ns)
        if self._closing and (receipt.outcome != "kept" or receipt.unmet):
            self.left = receipt
        self.last = receipt, self._expired
        kept, changed = receipt.outcome == "kept", self.state.changed + 1
        self._now(phase="none", receipt=receipt, changed=changed, kept=kept)

    def keep(self) -> bool:
        """Keep the pending change; whether there is one."""
        return self._answer(keeps=True)

    def nothing_to_keep(self) -> str:
        """Why `keep` had nothing to keep."""
        phase = self.state.phase
        if phase == "applying":
            return "the change is still being written: K keeps it once it is applied"
        if phase != "none":
            return f"too late for K: {self.state.word.lower()} the change is under way"
        if self.last is None:
            return "nothing to keep: no change is pending"
        receipt, expired = self.last
        name = "the last change" if receipt.number is None else f"change {receipt.number}"
        if expired:
            within = f"{self.keep_within_s:g} s"
            return f"nothing to keep: {name} was not kept within {within} ({receipt.outcome})"
        return f"nothing to keep: {name} is over ({receipt.outcome})"

    @property
    def quit_warning(self) -> str:
        """What quitting now would do to the change that is not kept; "" without one."""
        state = self.state
        if self.experiment.busy:
            return "an experiment runs: q again ends it, restores and quits"
        if state.phase == "applying":
            return "a change is being written: q again reverts it, unless it is final, and quits"
        if state.phase != "unkept":
            return ""
        number = None if state.receipt is None else state.receipt.number
        name = "the change" if number is None else f"change {number}"
        return f"{name} is not kept: q again reverts it and quits, K keeps it"

    def take_back(self) -> bool:
        """Revert the pending change; whether there is one."""
        return self._answer(keeps=False)

    def dismiss(self) -> bool:
        """Hide the last receipt; whether one was shown."""
        with self._lock:
            stood = self.state.phase == "none" and self.state.receipt is not None
            if stood:
                self.state = replace(self.state, receipt=None)
        return stood

    def close(self) -> None:
        """End: a change that is not kept is reverted, now or once it is applied."""
        self._closing = True
        self.experiment.close()
        self._heard.set()

    def lines(self, width: int, height: int) -> list[Line]:
        """Banner above every screen."""
        now = self.state
        if now.phase == "applying":
            return applying_lines(width)
        if now.phase == "settling":
            return settling_lines(now.word, width)
        if now.phase == "unkept":
            left_s = max(0, math.ceil(now.until_s - self._clock()))
            receipt = now.receipt
            facts = PendingFacts(
                None if receipt is None else receipt.number,
                () if receipt is None else receipt.changes,
                left_s,
                self.keep_within_s,
                self.ways,
            )
            return unkept_lines(facts, width, height)
        return [] if now.receipt is None else outcome_lines(now.receipt, width)

    def _answer(self, *, keeps: bool) -> bool:
        with self._lock:
            if self.state.phase != "unkept" or self._closing:
                return False
            self._keeps = keeps
            word = "KEEPING" if keeps else "TAKING BACK"
            self.state = replace(self.state, phase="settling", word=word)
        self._heard.set()
        self._on_change()
        return True

    def _is_applied(self, receipt: Receipt, began_ns: int) -> int:
        """Wait for `keep`; returns the deadline (CLOCK_MONOTONIC, ns)."""
        self._wrote(receipt.changes, began_ns)
        done = _applied(receipt)
        until_ns = done.at_ns + round(self.keep_within_s * 1e9)
        done = replace(done, until_ns=until_ns)
        self._now(
            phase="unkept",
            receipt=receipt,
            until_s=self._clock() + self.keep_within_s,
            changed=self.state.changed + 1,
            **{_slot(done): done},
        )
        return until_ns

    def _is_kept(self, receipt: Receipt, began_ns: int, undoes: tuple[int, ...]) -> None:
        """Kept as soon as it was applied. An undo ends the judged change."""
        self._wrote(receipt.changes, began_ns)
        done = _applied(receipt)
        before = self.state.tuned if done.cpus else self.state.applied
        if before is not None and before.number in undoes:
            done = replace(before, taken_back_ns=before.taken_back_ns or began_ns)
        self._now(**{_slot(done): done})

    def _stop_waiting(self, taken_back_ns: int | None) -> None:
        """No change is pending any more; the last was reverted at that time, or stands."""
        state = self.state
        waited = {
            _slot(change): replace(change, until_ns=None, taken_back_ns=taken_back_ns)
            for change in (state.applied, state.tuned)
            if change is not None and change.until_ns is not None
        }
        self._now(**waited)

    def _settled(
        self, pending: PendingChange, changes: tuple[Change, ...], until_ns: int
    ) -> Receipt:
        """Wait until the operator decides or the time ends at `until_ns`."""
        receipt, began_ns = None, 0
        while receipt is None:
            began_ns = time.monotonic_ns()
            heard = self._heard.wait(_POLL_S)
            if heard:
                receipt = pending.keep() if self._keeps else pending.revert()
            else:
                # The guard began after the last poll, when the time was up.
                receipt, began_ns = pending.settled(0.0), min(began_ns, until_ns)
                self._expired = receipt is not None and _is_expiry(receipt, until_ns)
        if receipt.outcome != "kept":
            self._may_have_reverted(changes, began_ns)
        self._stop_waiting(began_ns if receipt.outcome not in _MAY_STAND else None)
        return receipt

    def _wrote(self, changes: tuple[Change, ...], began_ns: int) -> None:
        """Record own writes since `began_ns`, so that they are not attributed to others."""
        one = OwnChange(changes, began_ns, time.monotonic_ns())
        self.own_changes = (*self.own_changes, one)[-_MOST_OWN:]

    def _tried(self, changes: Sequence[Change], began_ns: int) -> None:
        """Record writes of an experiment; readers of classes read again."""
        self._wrote(tuple(changes), began_ns)
        self._now(changed=self.state.changed + 1)

    def _may_have_reverted(self, changes: tuple[Change, ...], began_ns: int) -> None:
        """Record the writes of a revert, whether it was complete or not."""
        back = tuple(Change(change.cell, change.new, change.old) for change in reversed(changes))
        self._wrote(back, began_ns)

    def _now(self, **changes: object) -> None:
        with self._lock:
            self.state = replace(self.state, **changes)  # type: ignore[arg-type]
        self._on_change()


def _is_expiry(receipt: Receipt, until_ns: int) -> bool:
    """Whether a guard that ended by itself ended since the time was up.

    `failed` before `until_ns` (CLOCK_MONOTONIC) means that the guard itself failed.
    """
    if receipt.outcome == "failed":
        return time.monotonic_ns() >= until_ns
    return receipt.outcome != "kept"


def _applied(receipt: Receipt) -> AppliedChange:
    """The change of a receipt, just written."""
    cells = [(change.cell, change.old, change.new) for change in receipt.changes]
    groups = {cell.group for cell, _, _ in cells if cell.group}
    groups |= {
        split_path(where)[0]
        for cell, *paths in cells
        if cell.kind in ("cpu", "task")
        for where in paths
        if where is not None
    }
    cpus = _set_for(receipt.changes)
    return AppliedChange(time.monotonic_ns(), tuple(sorted(groups)), cpus, receipt.number)


def _slot(applied: AppliedChange) -> Literal["applied", "tuned"]:
    """Attribute of `PendingState`: classes and frequencies are judged separately."""
    return "tuned" if applied.cpus else "applied"


def _set_for(changes: tuple[Change, ...]) -> tuple[Cpu, ...]:
    """CPUs whose frequencies were set."""
    names = {change.cell.name for change in changes if change.cell.kind in ("min_khz", "max_khz")}
    return parse_cpu_list(",".join(names)) if names else ()
