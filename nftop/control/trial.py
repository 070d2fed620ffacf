"""The plan of a trial: a configuration that alternates with the present one, of any backend.

A pure function of a frame and a proposal; nothing is written.
"""

from __future__ import annotations

from nftop.control.resctrl.sweep import SweepError, caches_of_nf, classes_at, named_nfs
from nftop.model.change import IO_KINDS, Kind, Proposal
from nftop.model.experiment import Experiment, HarmLimits, Setting, Timing
from nftop.model.frame import Frame
from nftop.model.ids import L3Domain
from nftop.model.struct import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class TrialKind:
    """A row of what can be tried: values that a guard writes to and fro.

    Attributes:
        kinds: of cells. subject: of a message.
    """

    kinds: tuple[Kind, ...]
    subject: str


TRIABLE: tuple[TrialKind, ...] = (
    TrialKind(("schemata",), "masks and limits of memory bandwidth"),
    # Not the governor: it has the kernel change other values of its policy.
    TrialKind(("min_khz", "max_khz"), "frequency limits"),
    # io_alloc disabled is a configuration too: I/O then has the ways that the CPU gives it.
    TrialKind(IO_KINDS, "ways of I/O"),
)


@dataclass(frozen=True, slots=True)
class TrialRequest:
    """What an operator asks for.

    Attributes:
        label: of the second setting. watch: as `SweepRequest.watch`; empty: every one that works.
        rounds: each has both settings once.
    """

    label: str
    watch: tuple[str, ...] = ()
    rounds: int = 6
    seed: int = 0
    timing: Timing = field(default_factory=Timing)
    limits: HarmLimits = field(default_factory=HarmLimits)


def plan_trial(request: TrialRequest, frame: Frame, proposal: Proposal) -> Experiment:
    """The plan of a trial of a proposal against what is now.

    Raises SweepError: the proposal is refused, changes nothing or what can't be tried, or nothing
    can be watched.
    """
    if proposal.refusals:
        raise SweepError("; ".join(refusal.sentence for refusal in proposal.refusals))
    if not proposal.changes:
        raise SweepError(f"{request.label} is as it is now: there is nothing to compare")
    known = {kind for row in TRIABLE for kind in row.kinds}
    others = sorted({change.cell.kind for change in proposal.changes} - known)
    if others:
        subjects = "; ".join(row.subject for row in TRIABLE)
        raise SweepError(
            f"{request.label} changes more than can be tried ({', '.join(others)}): {subjects}"
        )
    watched = (
        named_nfs(frame, request.watch)
        if request.watch
        else tuple(nf for nf in frame.nfs if nf.problem is None)
    )
    if not watched:
        raise SweepError("there is no network function to watch")
    groups = dict.fromkeys(
        change.cell.group for change in proposal.changes if change.cell.kind == "schemata"
    )
    caches = {l3 for nf in watched for l3 in caches_of_nf(frame, nf)}
    caches |= {
        L3Domain(change.cell.number)
        for change in proposal.changes
        if change.cell.kind in ("schemata", "io_cbm")
    } & {item.l3 for item in frame.domains}
    used = {name for nf in watched for name in classes_at(frame, nf, caches)}
    return Experiment(
        kind="try",
        group=next(iter(groups), ""),
        settings=(Setting("now", ()), Setting(request.label, proposal.changes)),
        watch={nf.key: nf.name for nf in watched},
        own=frozenset(),
        caches=tuple(sorted(caches)),
        classes=tuple(dict.fromkeys((*groups, *sorted(used)))),
        proposal=replace(proposal, final=False),
        rounds_least=request.rounds,
        rounds_most=request.rounds,
        seed=request.seed,
        timing=request.timing,
        limits=request.limits,
        of_io=any(change.cell.kind in IO_KINDS for change in proposal.changes),
    )
