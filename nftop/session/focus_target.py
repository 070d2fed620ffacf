"""`--focus`: the core that is counted in detail without a screen, by CPU or network function."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from contextlib import closing

from nftop.model.frame import Focus, Frame, NfRow, is_named
from nftop.model.ids import Cpu
from nftop.model.missing import number_or
from nftop.model.struct import dataclass, replace
from nftop.model.topology import Topology
from nftop.session.feed import Feed

_PATIENCE_FRAMES = 5  # without counts of the core, before that is reported


@dataclass(frozen=True, slots=True)
class FocusTarget:
    """A CPU, or a network function (NF) by its name or a unique component of it.

    Attributes:
        cpu: None for an NF.
        nf: "" for a CPU.
    """

    cpu: Cpu | None = None
    nf: str = ""

    def core(self, frame: Frame, now: Cpu | None) -> Cpu | None:
        """The CPU to count from now on; None while no such NF polls a CPU.

        Of an NF the busiest of its CPUs, and that one as long as the NF polls on it.
        """
        if self.cpu is not None:
            return self.cpu
        nf = named(frame.nfs, self.nf)
        if nf is None or not nf.cpus:
            return None
        if now in nf.cpus:
            return now
        busy = frame.cpus.columns["busy_ratio"]
        rows = frame.cpus.topology.row_of
        known = [cpu for cpu in nf.cpus if cpu in rows]
        return max(known, key=lambda cpu: number_or(busy[rows[cpu]], 0.0), default=None)


def target_of(
    text: str | None,
    topology: Topology,
    *,
    shown: Collection[Cpu] | None = None,
    quiet: Collection[Cpu] = (),
) -> FocusTarget | None:
    """The value of the option; `shown` are the CPUs of --cpu-list, `quiet` those of --quiet-cpus.

    Raises:
        ValueError: the host has no such CPU, or its counters are not read.
    """
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        return FocusTarget(nf=text)
    cpu = Cpu(int(text[:9]))
    if cpu not in topology.row_of:
        raise ValueError(f"--focus {cpu}: this host has no such CPU")
    if cpu in quiet or (shown is not None and cpu not in topology.with_siblings(tuple(shown))):
        raise ValueError(f"--focus {cpu}: --cpu-list or --quiet-cpus leaves out its counters")
    return FocusTarget(cpu=cpu)


def named(nfs: Collection[NfRow], name: str) -> NfRow | None:
    """The NF of exactly this name, else the only one that is `is_named` so."""
    exact = [nf for nf in nfs if nf.name == name]
    others = [nf for nf in nfs if is_named(nf, name)]
    return exact[0] if exact else others[0] if len(others) == 1 else None


class FocusFrames:
    """The feed's frames, with `focus` and the target's core counted.

    `report` is called with why the core is not counted, once for each reason. `required`: there are
    no frames without a network function of the target's name, from the first that lists any.
    """

    def __init__(
        self,
        feed: Feed,
        target: FocusTarget | None,
        focus: Focus,
        report: Callable[[str], None],
        *,
        required: bool = False,
    ) -> None:
        self._feed, self._target, self._focus, self._report = feed, target, focus, report
        self._required, self._reported = required, ""
        self._core = None if target is None else target.cpu
        self._nfs: Collection[NfRow] = ()
        self._appeared = self._core is not None

    def frames(self) -> Generator[Frame, None, None]:
        """All of them; to be closed by the caller."""
        target = self._target
        if target is None:
            self._feed.set_focus(self._focus)
            yield from self._feed.frames()
            return
        uncounted = 0
        self._feed.set_focus(replace(self._focus, core=self._core))
        with closing(self._feed.frames()) as frames:
            for frame in frames:
                wanted = target.core(frame, self._core)
                if wanted != self._core:
                    self._core, uncounted = wanted, 0
                    self._feed.set_focus(replace(self._focus, core=wanted))
                self._appeared |= wanted is not None
                self._nfs = frame.nfs
                if self._required and self._is_unknown(frame, target):
                    return
                uncounted = 0 if frame.focus is not None else uncounted + 1
                self._report_once(self._problem(frame, uncounted))
                yield frame

    def is_absent(self) -> bool:
        """Whether no network function of the target's name has polled so far, which is reported."""
        if self._target is None or self._appeared:
            return False
        self._report_once(self._no_such_nf())
        return True

    def _is_unknown(self, frame: Frame, target: FocusTarget) -> bool:
        """Whether a frame that lists the network functions has none of this name, as before it."""
        listed = bool(frame.nfs) or frame.interval_s is not None
        return listed and not self._appeared and named(frame.nfs, target.nf) is None

    def _problem(self, frame: Frame, uncounted: int) -> str:
        """Why the core is not counted; "" if it is, or if that is not known yet."""
        if self._core is None:
            # The sources of the first frame may have begun only now.
            return "" if frame.interval_s is None else self._no_such_nf()
        if uncounted >= _PATIENCE_FRAMES:
            why = f"no source counts the core of CPU {self._core} in detail; see nftop doctor"
            return f"--focus: {why}"
        return ""

    def _no_such_nf(self) -> str:
        name = "" if self._target is None else self._target.nf
        names = ", ".join(sorted(nf.name for nf in self._nfs)) or "none"
        return f"--focus {name}: not one network function of this name polls; there is {names}"

    def _report_once(self, problem: str) -> None:
        if problem and problem != self._reported:
            self._reported = problem
            self._report(problem)
