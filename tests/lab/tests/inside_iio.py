"""nftop's own counts of devices, in a lab whose clock only this program moves.

`python -m tests.lab.tests.inside_iio UARCH` prints JSON: a row for each root port over one second,
when that began, raw counts from the first reading until then, and what reading costs.
"""

from __future__ import annotations

import json
import sys
import time

from nftop.derive.package.devices import DeviceState, step_devices
from nftop.model.frame import DeviceRow
from nftop.model.missing import Missing
from nftop.model.sample import SourceReading
from nftop.model.uncore import NO_COUNTS
from nftop.sources.host.topology import read_topology
from nftop.sources.uncore.source import IioSource
from nftop.uarch import table
from tests.lab.tests.inside_uncore import TICKS, S, now_ns, step


def advance(source: IioSource, until_ns: int) -> None:
    """To that time; turns change when they are due, by the source's own thread or here."""
    while (at_ns := now_ns()) < until_ns:
        boxes = source._open[0]
        due_ns = None
        if boxes is not None:
            with boxes._changed:
                due_ns = boxes._counters.due_ns
        step(max(min(due_ns or until_ns, until_ns) - at_ns, 0))
        if boxes is not None:
            with boxes._changed:
                boxes._counters.turn()


def main(uarch: str) -> None:
    known = table.load(uarch)
    assert known.iio is not None
    source = IioSource(known, known.iio, topology=read_topology(), clock_ns=now_ns)
    began_ns, state, rows = now_ns(), DeviceState(), tuple[DeviceRow, ...]()
    took_s, reads, counts = 0.0, (0, 0), NO_COUNTS
    for second in range(TICKS + 1):
        advance(source, began_ns + second * S)
        since_s, reads = time.monotonic(), (source.counter_reads, source.counter_interrupts)
        read = source.read()
        took_s = time.monotonic() - since_s
        assert not isinstance(read, Missing), read
        assert read.gaps == "", read.gaps
        counts = read.counts
        state, rows = step_devices(state, SourceReading(read, now_ns(), 0))
    print(
        json.dumps(
            {
                "from_ns": began_ns + (TICKS - 1) * S,
                "until_ns": now_ns(),
                "cost": {
                    "took_s": took_s,
                    "reads": source.counter_reads - reads[0],
                    "interrupts": source.counter_interrupts - reads[1],
                },
                "whole": {
                    f"{package}.{stack}.{counts.events[event]}": value
                    for package, stack, event, value in zip(
                        counts.packages.tolist(),
                        counts.boxes.tolist(),
                        counts.event.tolist(),
                        counts.values.tolist(),
                        strict=True,
                    )
                },
                "devices": {
                    row.name: {
                        **row.port.location,
                        "readings": {
                            name: item.reason.key if isinstance(item, Missing) else item
                            for name, item in row.readings.items()
                        },
                    }
                    for row in rows
                },
            }
        )
    )
    source.close()


if __name__ == "__main__":
    main(sys.argv[1])
