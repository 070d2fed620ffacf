"""The process that reads a segment: it answers each line of JSON with one.

Its last argument is the segment's descriptor. It exits at the end of its input, and by SIGPROF if a
reading takes too much CPU time: vpp-papi spins on a segment whose update never ends, and must stop
even if nftop has ended. RLIMIT_CPU (SIGXCPU) is the second limit.
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
from nftop.sources.vpp.protocol import Question, ReadAnswer

CPU_S = 2.0
# Signals of a terminal are for nftop; when it exits, the input ends.
_IGNORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP)


def main() -> int:
    """Serve until the input ends."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    channel = os.dup(1)
    os.dup2(2, 1)  # output of libraries is not a reply
    # Imported here, so that an ImportError is the last line of output, and nftop can start without.
    from nftop.sources.vpp.segment import Segment, UnreadableError  # noqa: PLC0415

    segment = Segment(int(sys.argv[-1]))
    for text in sys.stdin.buffer:
        question = msgspec.json.decode(text, type=Question)
        if question.cpus and set(question.cpus) != os.sched_getaffinity(0):  # off polling cores
            with contextlib.suppress(OSError):  # the CPUs are offline now
                os.sched_setaffinity(0, question.cpus)
        _limit_cpu()
        signal.setitimer(signal.ITIMER_PROF, CPU_S)
        try:
            answer = ReadAnswer(segment.read(question.heartbeat))
        except UnreadableError as error:
            answer = ReadAnswer(None, int(error.reason), str(error))
        answer = replace(answer, cpu_ns=time.process_time_ns())
        data = msgspec.json.encode(answer) + b"\n"
        signal.setitimer(signal.ITIMER_PROF, 0)
        try:
            while data:
                data = data[os.write(channel, data) :]
        except BrokenPipeError:
            break  # nftop has exited
    return 0


def _limit_cpu() -> None:
    """RLIMIT_CPU for this reading: it counts from the start of the process, so it is moved on."""
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    used_s = time.process_time_ns() // 1_000_000_000
    wanted = used_s + int(CPU_S) + 2
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


if __name__ == "__main__":
    sys.exit(main())
