"""The process that reads a segment: asked by a line of JSON, it answers with one.

Its last argument is the segment's descriptor. It ends with its input, and by SIGPROF where a
reading takes more CPU time than any can: vpp-papi spins on a segment that is never finished, and
must not do so for ever, even if nobody is left to end it. Behind that RLIMIT_CPU ends it by
SIGXCPU.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import time

import msgspec

from nftop.model.struct import replace
from nftop.sources.vpp.protocol import Answer, Question

CPU_S = 2.0
# What a terminal sends is for nftop, whose end is the end of the input.
_IGNORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP)


def main() -> int:
    """Serve until the input ends."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    channel = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints is no answer
    # Here, so that what it lacks is said as the last line, and not by every nftop.
    from nftop.sources.vpp.segment import Segment, UnreadableError  # noqa: PLC0415

    segment = Segment(int(sys.argv[-1]))
    for text in sys.stdin.buffer:
        asked = msgspec.json.decode(text, type=Question)
        _stay_on(frozenset(asked.cpus))
        _limit_cpu()
        signal.setitimer(signal.ITIMER_PROF, CPU_S)
        try:
            answer = Answer(segment.read(asked.heartbeat))
        except UnreadableError as error:
            answer = Answer(None, int(error.reason), str(error))
        answer = replace(answer, cpu_ns=time.process_time_ns())
        data = msgspec.json.encode(answer) + b"\n"
        signal.setitimer(signal.ITIMER_PROF, 0)
        try:
            while data:
                data = data[os.write(channel, data) :]
        except BrokenPipeError:
            break  # the reader is gone
    return 0


def _limit_cpu() -> None:
    """RLIMIT_CPU for this reading: it counts from the start of the process, so it is moved on."""
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    used_s = time.process_time_ns() // 1_000_000_000
    wanted = used_s + int(CPU_S) + 2
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def _stay_on(cpus: frozenset[int]) -> None:
    """Where nftop itself may run: off the cores that poll."""
    if cpus and cpus != os.sched_getaffinity(0):
        with contextlib.suppress(OSError):  # they have gone offline
            os.sched_setaffinity(0, cpus)


if __name__ == "__main__":
    sys.exit(main())
