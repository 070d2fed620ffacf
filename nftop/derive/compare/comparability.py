"""Which numbers of a network function can be compared, and their overall result.

CPP of cores that are not always busy includes empty polls and depends on the load. If the load
moved, counts per packet can't be compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from nftop.derive.compare.metric import Code, Compared, Word, percent
from nftop.model.column import Floats
from nftop.model.metrics.metric import Metric
from nftop.model.metrics.ports import OTHER_LOSSES
from nftop.model.missing import Missing
from nftop.model.struct import replace

# Share of busy samples from which cores count as busy all the time.
_MOSTLY = 0.9
_POLLS = "empty polls are in it: not all its cores are busy all the time"
_BUSY_UNKNOWN = "it is not known whether its cores are busy all the time"
PACKETS = ("packets_per_s", "drop_packets_per_s", "ovs.lost_upcalls_per_s")
LOSSES = ("ovs.lost_upcalls_per_s", *OTHER_LOSSES)
DROPS = ("drop_packets_per_s", *LOSSES)
COSTS = ("cpp", "busy_cpp")
# Metrics that include empty polls.
_POLLED = ("cpp", "ipp", "ipc")
_DECIDED: tuple[Word, ...] = ("better", "worse", "more", "less", "no difference")


def is_full(saturated: Floats, known: Floats) -> bool | None:
    """Whether cores were busy all the time; None if unknown.

    Args:
        saturated: 0 or 1, of the samples that have it.
        known: 1 for each sample that has it, else 0. A core that sometimes drops is known to be
            full at those times only.
    """
    if not len(saturated) or known.mean() < _MOSTLY:
        return None
    return bool(saturated.mean() >= _MOSTLY)


def load_moved(offered: float) -> str:
    """Reason for no verdict; `offered`: change of the offered load."""
    return f"load moved {percent(offered)}"


def neutral(metric: Metric, *, is_nf: bool) -> Metric:
    """The metric where the load moved: what follows the load is neither good nor bad."""
    follows = not is_nf or metric.id in (*PACKETS, *DROPS)
    return replace(metric, good=None) if follows else metric


def incomparable(
    metric: Metric, busy: Sequence[bool | None], offered: float | None
) -> tuple[str, Code]:
    """Why two numbers of a network function can't be compared, and the code; "" if they can.

    Args:
        metric: of the numbers.
        busy: `is_full` of both sides.
        offered: change of the offered packets; None if they did not change.
    """
    both = all(busy)
    # Drops of full cores follow the offered load.
    if offered is not None and (metric.id in DROPS or not both):
        return load_moved(offered), "load_moved"
    if metric.id not in _POLLED or both:
        return "", ""
    return (_BUSY_UNKNOWN, "busy_unknown") if None in busy else (_POLLS, "empty_polls")


def comparable_row(row: Compared, busy: Sequence[bool | None], offered: float | None) -> Compared:
    """The row, inconclusive if its sides are `incomparable`."""
    why, code = incomparable(row.metric, busy, offered)
    if row.word not in _DECIDED or not code:
        return row
    was, now = busy
    # An upper bound that became a larger exact number did increase.
    certain = (was and row.word == "better") or (now and row.word == "worse")
    if row.metric.bounded and certain and code != "load_moved":
        return row
    return replace(row, word="inconclusive", why=why, code=code)


def summed(rows: Sequence[Compared], offered: float | None) -> tuple[Word, str]:
    """Overall word and its reason: packets, drops and cycles decide, cycles first.

    Other losses decide if they got worse only: fewer may be those of fewer packets.

    `offered` as in `comparable_row`; None too if both sides are busy all the time.
    """
    of_word: dict[tuple[Word, bool], list[Compared]] = {}
    for row in rows:
        if row.metric.id in COSTS + PACKETS or (
            row.metric.id in OTHER_LOSSES and row.word == "worse"
        ):
            of_word.setdefault((row.word, row.metric.id in COSTS), []).append(row)
    sides: dict[Word, list[Compared]] = {
        word: [row for key, item in of_word.items() if key[0] == word for row in item]
        for word in _SIDES
    }
    clauses = [f"{word}: {_named(item)}" for word, item in sides.items() if item]
    if len(clauses) > 1:
        return "inconclusive", "; ".join(clauses)
    for word, side in sides.items():
        if side:
            return word, _named(side)
    if offered is not None:
        return "inconclusive", load_moved(offered)
    decisive = next((key for key in _SUMS if key in of_word), None)
    if decisive is not None and decisive[0] in _UNDECIDED:
        # The reason of most numbers; of equal ones the first.
        undecided = [row for key in _SUMS if key[0] in _UNDECIDED for row in of_word.get(key, ())]
        counts = Counter((row.word, row.code) for row in undecided)
        first = max(undecided, key=lambda row: counts[row.word, row.code])
        return first.word, first.why
    return ("no number", "") if decisive is None else (decisive[0], of_word[decisive][0].why)


_SIDES: tuple[Word, ...] = ("better", "worse")
_UNDECIDED: tuple[Word, ...] = ("too few samples", "inconclusive", "too few hosts")
# Word of a row and whether it is a cost; the first of these that occurs is the overall word.
_SUMS: tuple[tuple[Word, bool], ...] = (
    ("settling", True),
    ("settling", False),
    ("too few samples", True),
    ("no difference", True),
    ("inconclusive", True),
    ("too few hosts", True),
    ("too few samples", False),
    ("inconclusive", False),
    ("no difference", False),
    ("too few hosts", False),
    ("no number", True),
    ("no number", False),
)


def _named(rows: Sequence[Compared]) -> str:
    return ", ".join(
        row.metric.label
        if isinstance(row.change_ratio, Missing)
        else f"{row.metric.label} {percent(row.change_ratio)}"
        for row in rows
    )
