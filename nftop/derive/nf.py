"""What every kind of network function boils down to, whoever counted it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nftop.model.frame import Direction
from nftop.model.ids import Cpu
from nftop.model.reading import Missing, Reading, Reason


@dataclass(frozen=True, slots=True)
class NfCore:
    """One polling core of an NF.

    Attributes:
        thread: its thread's name (untrusted text).
        packets_per_s: what this core took in; sent, where the NF only generates.
        run_ratio, wait_ratio: its thread's.
        loose: why its cycles are not those of `cpu` (it may move); None when they are.
        busy_ratio: the NF's own word on how much of its time was work.
        nf_cycles_per_s: TSC cycles the NF itself counted on this core.
    """

    cpu: Cpu
    thread: str
    packets_per_s: Reading
    run_ratio: Reading
    wait_ratio: Reading
    busy_ratio: Reading
    nf_cycles_per_s: Reading
    loose: Missing | None = None


@dataclass(frozen=True, slots=True)
class NfRates:
    """One NF's rates over `interval_s` of its own clock. Fields as in `model.frame.NfRow`.

    `prefix` is what the operator's queue map calls it: its EAL prefix; "" where it has none.

    `packets_per_s` is what its CPP divides by: packets received, or sent where it only generates;
    `direction` says which. `uncounted` is why `cores` are not all that poll for it, None when they
    are.
    """

    key: str
    name: str
    prefix: str
    kind: str
    pid: int
    interval_s: float | None
    attribution: str
    problem: Missing | None
    rx_packets_per_s: Reading
    tx_packets_per_s: Reading
    drop_packets_per_s: Reading
    packets_per_s: Reading
    direction: Direction
    cores: tuple[NfCore, ...]
    uncounted: Missing | None


# Below this share a thread did not have its CPU to itself, or not all the time.
WHOLE_RATIO = 0.95


def total(readings: Iterable[Reading], of_nothing: Missing | None = None) -> Reading:
    """The sum; a partial sum is no sum, so the first missing part's reason if there is one.

    The sum of nothing is `of_nothing` (UNDEFINED unless told otherwise), not 0.
    """
    sum_so_far, found = 0.0, False
    for reading in readings:
        if isinstance(reading, Missing):
            return reading
        sum_so_far, found = sum_so_far + reading, True
    return sum_so_far if found else of_nothing or Missing(Reason.UNDEFINED)


def quotient(numerator: Reading, denominator: Reading) -> Reading:
    """numerator / denominator; IDLE where the denominator is 0."""
    if isinstance(numerator, Missing):
        return numerator
    if isinstance(denominator, Missing):
        return denominator
    return numerator / denominator if denominator > 0 else Missing(Reason.IDLE)


def product(one: Reading, other: Reading) -> Reading:
    """one x other, or the first one's reason."""
    if isinstance(one, Missing):
        return one
    return other if isinstance(other, Missing) else one * other
