"""The experiment of the application: planned and run in threads, ended by a key or by the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from nftop.control.resctrl.sweep import SweepRequest
from nftop.model.change import Change
from nftop.model.experiment import Timing
from nftop.session.experiment import ExperimentHost
from nftop.ui.change_control import ChangeControl
from nftop.ui.experiment_control import ExperimentControl
from tests.session.test_experiment import Host

QUICK = Timing(settle_least_s=5, measure_s=10)
REQUEST = SweepRequest("tenant", (10, 12), ("vpp",), seed=3, timing=QUICK)


@dataclass
class Runs:
    """A control whose host is the one shown, or an accelerated one of its own."""

    own: bool = False
    host: Host = field(default_factory=Host)
    wrote: list[tuple[Change, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        host = self.host

        def opened() -> ExperimentHost:
            return ExperimentHost(
                host.frames, host.gate, host.feed.stop, host.clock.now_ns, accelerated=True
            )

        def wrote(changes: Sequence[Change], _began_ns: int) -> None:
            self.wrote.append(tuple(changes))

        self.control = ExperimentControl(
            host.gate,
            lambda: None,
            open_host=opened if self.own else None,
            wrote=wrote,
            now_ns=host.clock.now_ns,
        )
        self.control.prepare(REQUEST, host.frame)

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Run to the end; frames of the host shown are given until this holds."""
        assert self.control.begin()
        thread = threading.Thread(target=self.control.run, daemon=True)
        thread.start()
        while thread.is_alive():
            if until():
                self.control.stop()
                break
            if not self.own:
                self.step(thread)
        thread.join(60)
        assert not thread.is_alive()

    def step(self, thread: threading.Thread) -> None:
        """One more frame, once the last one was handled."""
        before = self.control.view.state
        self.control.take(next(self.host.frames))
        for _ in range(2000):
            if self.control.view.state is not before or not thread.is_alive():
                return
            thread.join(0.005)


def test_a_sweep_of_the_host_shown_ends_with_an_offer_and_all_as_before() -> None:
    runs = Runs()
    before = runs.host.state()
    view = runs.control.view
    assert view.stage == "planned" and view.plan is not None
    assert view.ways == {"L3": 20}
    runs.run()
    view = runs.control.view
    assert view.stage == "done" and view.result is not None and view.plan is not None
    assert view.result.state.ended == "clear"
    assert view.curve.recommended is not None
    assert view.plan.settings[view.curve.recommended].ways == 11
    assert runs.host.state() == before
    # It is named where another width of that class is proposed.
    other = runs.control.other_width
    assert "11 ways (L3 0 ffe00)" in other("tenant", 0, 0x2)
    assert [other("tenant", 0, 0x7FF), other("vpp", 0, 0x2), other("tenant", 1, 0x2)] == [""] * 3


def test_its_writes_are_known_as_nftops_own() -> None:
    runs = Runs()
    runs.run(lambda: len(runs.control.view.state.visits) > 3)
    masks = {change.new for changes in runs.wrote[:-1] for change in changes}
    assert masks <= {f"{bits:x}" for bits in (0x7FE00, 0xFFE00, 0xFFF00)}
    assert len(runs.wrote) >= 4
    assert {change.new for change in runs.wrote[-1]} == {"fe"}


def test_a_key_ends_it_and_the_state_before_is_restored() -> None:
    runs = Runs()
    before = runs.host.state()
    runs.run(lambda: runs.control.view.state.phase == "settling")
    view = runs.control.view
    assert view.result is not None
    assert (view.result.state.ended, view.result.receipt.outcome) == ("stopped", "reverted")
    assert view.result.curve.recommended is None
    assert runs.host.state() == before


def test_an_accelerated_host_has_frames_of_its_own() -> None:
    runs = Runs(own=True)
    assert runs.control.view.accelerated
    runs.run()
    assert runs.control.view.stage == "done"
    assert runs.wrote == []  # the host shown is another one


def test_what_can_not_be_planned_reports_why() -> None:
    runs = Runs()
    runs.control.prepare(SweepRequest("nobody"), runs.host.frame)
    assert (runs.control.view.stage, runs.control.view.plan) == ("none", None)
    assert runs.control.view.why
    assert not runs.control.begin()


def test_without_a_plan_nothing_begins_and_one_begins_once() -> None:
    runs = Runs()
    runs.control.forget()
    assert not runs.control.begin()
    runs.control.prepare(REQUEST, runs.host.frame)
    assert runs.control.begin()
    assert not runs.control.begin()
    runs.control.prepare(REQUEST, runs.host.frame)
    assert runs.control.view.stage == "running"


def test_a_plan_that_comes_late_is_left_out() -> None:
    """The first of two is ready only once the second has begun."""
    runs = Runs()
    first, late = threading.Event(), threading.Event()
    gate = runs.host.gate

    class Slow:
        host, program, begin_series = gate.host, gate.program, gate.begin_series

        def propose(self, *wanted: object) -> object:
            if not first.is_set():
                first.set()
                assert late.wait(60)
            return gate.propose(*wanted)  # type: ignore[arg-type]

    runs.control.gate = Slow()  # type: ignore[assignment]
    thread = threading.Thread(target=runs.control.prepare, args=(REQUEST, runs.host.frame))
    thread.start()
    assert first.wait(60)
    other = SweepRequest("tenant", (10, 11), ("vpp",), timing=QUICK)
    runs.control.prepare(other, runs.host.frame)
    plan = runs.control.view.plan
    assert runs.control.begin()
    run = threading.Thread(target=runs.control.run, daemon=True)
    run.start()
    runs.step(run)
    late.set()
    thread.join(60)
    assert runs.control.view.stage == "running"
    assert runs.control.view.plan is plan
    # What the late plan would have run on ends; what runs does not.
    while run.is_alive():
        runs.step(run)
    result = runs.control.view.result
    assert result is not None and result.state.ended == "clear"


def test_while_it_runs_no_change_begins_and_quitting_prompts() -> None:
    host = Host()
    changes = ChangeControl(None, lambda: None)
    changes.experiment = ExperimentControl(host.gate, lambda: None, now_ns=host.clock.now_ns)
    changes.experiment.prepare(REQUEST, host.frame)
    assert not changes.quit_warning
    assert changes.experiment.begin()
    assert not changes.begin()
    assert changes.quit_warning
