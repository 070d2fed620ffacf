"""`make bench`: what nftop costs, as counts and ratios. No number here is a test.

Seconds on a shared machine are noise; what is printed is counted, or a ratio of two things measured
alternately. The last table sets them beside the targets. `make bench ONLY=start,threads` runs some
sections, `make bench ONLY=list` prints their names.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from tests.bench import (
    drawing,
    fleet,
    growth,
    keys,
    lab_reads,
    memory,
    pipeline,
    programs,
    recording,
    sensor_server,
    walks,
)
from tests.bench.report import Reached, print_targets


def _draw_and_derive() -> list[Reached]:
    drawn = drawing.main()
    return [*drawn, *pipeline.main(drawn[0].value)]


SECTIONS: Mapping[str, Callable[[], Sequence[Reached]]] = {
    "live": programs.loaded_hosts,
    "demo": programs.large_demo,
    "calls": programs.system_calls,
    "lab": lab_reads.counter_reads,
    "threads": walks.main,
    "draw": _draw_and_derive,
    "growth": growth.main,
    "fleet": fleet.main,
    "keys": keys.main,
    "start": programs.start_up,
    "record": recording.main,
    "memory": memory.main,
    "server": sensor_server.main,
}


def main(arguments: Sequence[str]) -> int:
    """Print the tables of the sections named, of all if none is."""
    wanted = [name for word in arguments for name in word.split(",") if name]
    unknown = set(wanted) - SECTIONS.keys()
    if unknown:
        print(f"sections: {' '.join(SECTIONS)}")
        return 0 if wanted == ["list"] else 2
    # As an installed nftop, which is compiled.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.monotonic()
    reached = [row for name in wanted or SECTIONS for row in SECTIONS[name]()]
    print_targets(reached)
    print(f"took {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
