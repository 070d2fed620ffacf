"""The simulated host over time: its present state and changes.

The only state of this package, and its clock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from nftop.model.struct import dataclass
from nftop.sim.classes import SimulatedClasses
from nftop.sim.frequency import CoreFrequencies
from nftop.sim.rdt import Rdt, changed, forgetting

# History kept: more than sources need (OVS' shares are of the last five seconds).
_KNOWN_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class Moment:
    """The host at one time: `t_ns` since its start, `at_ns` on its clock."""

    rdt: Rdt
    t_ns: int
    at_ns: int


class World:
    """A host that starts now, at `start_ns`. Thread-safe.

    A reading is of the moment's time; no later change is dated before it, so counters never step
    back.
    """

    def __init__(self, rdt: Rdt, clock_ns: Callable[[], int]) -> None:
        self._rdt = rdt
        self._clock_ns = clock_ns
        self.start_ns = clock_ns()
        self._lock = threading.Lock()

    def now(self) -> Moment:
        with self._lock:
            return self._now()

    def change(self, make: Callable[[SimulatedClasses], SimulatedClasses]) -> None:
        """Replace the classes from now on by the result of `make`, which may raise."""
        with self._lock:
            moment = self._now()
            classes = make(moment.rdt.classes)
            # Bounds the memory.
            known = forgetting(moment.rdt, moment.t_ns - _KNOWN_NS)
            self._rdt = changed(known, moment.t_ns, classes)

    def set_frequencies(self, make: Callable[[CoreFrequencies], CoreFrequencies]) -> None:
        """Replace the core frequencies from now on, as `change`. See `frequency.altered`."""
        with self._lock:
            moment = self._now()
            frequencies = make(moment.rdt.frequencies)
            known = forgetting(moment.rdt, moment.t_ns - _KNOWN_NS)
            self._rdt = changed(known, moment.t_ns, known.classes, frequencies)

    def _now(self) -> Moment:
        at_ns = self._clock_ns()
        return Moment(self._rdt, at_ns - self.start_ns, at_ns)
