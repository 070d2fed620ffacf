"""`--focus`: the core that is counted in detail without a screen, by CPU or network function."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from contextlib import closing

from nftop.model.frame import Focus, Frame, NfRow
from nftop.model.ids import Cpu
from nftop.model.missing import Missing
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
        return max(known, key=lambda cpu: _or_zero(busy[rows[cpu]]), default=None)


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
    """The NF of this name, else the only one with it as a component: `l3fwd` of `north/l3fwd`."""
    exact = [nf for nf in nfs if nf.name == name]
    component = [nf for nf in nfs if name in nf.name.split("/")]
    return exact[0] if exact else component[0] if len(component) == 1 else None


def frames_of(
    feed: Feed, target: FocusTarget | None, focus: Focus, report: Callable[[str], None]
) -> Generator[Frame, None, None]:
    """The feed's frames, with `focus` and the target's core counted; to be closed by the caller.

    `report` is called with why the core is not counted, once for each reason.
    """
    if target is None:
        feed.set_focus(focus)
        yield from feed.frames()
        return
    core, problem, uncounted = target.cpu, "", 0
    feed.set_focus(replace(focus, core=core))
    with closing(feed.frames()) as frames:
        for frame in frames:
            wanted = target.core(frame, core)
            if wanted != core:
                core, uncounted = wanted, 0
                feed.set_focus(replace(focus, core=core))
            uncounted = 0 if frame.focus is not None else uncounted + 1
            why = _problem(target, frame, core, uncounted)
            if why and why != problem:
                report(why)
            problem = why or problem
            yield frame


def _problem(target: FocusTarget, frame: Frame, core: Cpu | None, uncounted: int) -> str:
    """Why the core is not counted; "" if it is, or if that is not known yet."""
    if core is None:
        if frame.interval_s is None:  # the first frame: its sources may have begun only now
            return ""
        names = ", ".join(sorted(nf.name for nf in frame.nfs)) or "none"
        return f"--focus {target.nf}: not one network function of this name polls; there is {names}"
    if uncounted >= _PATIENCE_FRAMES:
        return f"--focus: no source counts the core of CPU {core} in detail; see nftop doctor"
    return ""


def _or_zero(reading: float | Missing) -> float:
    return 0.0 if isinstance(reading, Missing) else reading
