"""`make bench`: what nftop costs, as counts and ratios. No number here is a test.

Seconds on a shared machine are noise; what is printed is counted, or a ratio of two things
measured alternately. The last table sets them beside the targets.
"""

from __future__ import annotations

import time

from tests.bench import drawing, keys, lab_reads, pipeline, programs, recording, sensor_server
from tests.bench.report import Reached, print_targets


def main() -> None:
    """Print the tables."""
    began = time.monotonic()
    drawn = drawing.main()
    reached: list[Reached] = [
        *programs.system_calls(),
        *lab_reads.counter_reads(),
        *drawn,
        *programs.loaded_hosts(),
        *pipeline.main(drawn[0].value),
        *programs.start_up(),
        *keys.main(),
        *sensor_server.main(),
        *recording.main(),
    ]
    print_targets(reached)
    print(f"took {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
