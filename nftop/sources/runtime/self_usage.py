"""Source `self`: CPU time, affinity and counter reads of nftop."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable

from nftop.model.check import Check
from nftop.model.ids import format_cpu_list
from nftop.model.missing import Reason
from nftop.model.sample import CounterUse, SelfUse
from nftop.model.topology import Topology
from nftop.sources.base import Counting, Helped
from nftop.sources.runtime.affinity import Affinity, cpus_of


class OwnSource:
    """CPU time, affinity and counter reads of this process."""

    name = "self"
    inline = True

    def __init__(
        self, counting: Iterable[Counting], affinity: Affinity, helped: Iterable[Helped] = ()
    ) -> None:
        """`counting`: sources with costs on the CPUs counted; `helped`: sources with helpers."""
        self._counting, self._helped = tuple(counting), tuple(helped)
        self._own_affinity = affinity
        self._warning = ""

    def read(self) -> SelfUse:
        return SelfUse(
            time.process_time_ns() + sum(source.helper_cpu_ns for source in self._helped),
            cpus_of(),
            {
                source.name: CounterUse(source.counter_reads, source.counter_interrupts)
                for source in self._counting
            },
            self._warning,
        )

    def on_pollers(self, cpus: Collection[int], topology: Topology) -> None:
        """Avoid these CPUs; readings have the warning of `Affinity.keep_off` from now on."""
        self._warning = self._own_affinity.keep_off(cpus, topology)

    def check(self) -> tuple[Check, ...]:
        text = f"nftop may run on CPU {format_cpu_list(cpus_of())}"
        return (Check(self.name, Reason.PRESENT, text),)

    def close(self) -> None:
        """Nothing is held."""
