"""The process that has libpqos loaded: asked by a line of JSON, it answers with one.

`{"quiet": [CPU, ...], "look": true, "meter": true}`: what to leave alone, whether classes are to
be read anew, whether to meter them. It ends with its input, and then meters nothing any more.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import asdict
from typing import Any

from nftop.sources.pqos.library import Library, UnusableError
from nftop.sources.pqos.monitoring import Meters
from nftop.sources.pqos.protocol import Looked, line

# What a terminal sends is for nftop, whose end is the end of the input.
_IGNORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP)


def main() -> int:
    """Serve until the input ends."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    channel = os.dup(1)
    os.dup2(2, 1)  # whatever libpqos prints is no answer
    try:
        library = Library()
    except UnusableError as error:
        os.write(channel, line({"unusable": str(error)}))
        return 0
    meters = Meters(library)
    looked: Looked | None = None
    try:
        for text in sys.stdin.buffer:
            asked = json.loads(text)
            try:
                if looked is None or asked["look"]:
                    looked = library.look(asked["quiet"])
                answer = _answer(looked, meters, metering=asked["meter"])
            except library.error as error:
                answer = {"failed": str(error)}
            _write(channel, line(answer))
    except BrokenPipeError:
        pass  # nobody listens any more
    finally:
        meters.stop()
        library.close()
    return 0


def _answer(looked: Looked, meters: Meters, *, metering: bool) -> dict[str, Any]:
    if not metering:
        meters.stop()
    rows = meters.read(looked) if metering else ()
    return {"looked": asdict(looked), "metered": [asdict(row) for row in rows]}


def _write(channel: int, data: bytes) -> None:
    while data:
        data = data[os.write(channel, data) :]


if __name__ == "__main__":
    sys.exit(main())
