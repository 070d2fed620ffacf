"""The `nftop` command."""

from __future__ import annotations

import os
import signal
import sys


def main() -> int:
    """Run nftop with the command line's arguments; the exit code is in `cli`'s docstring."""
    # One thread is all our arrays need; a pool of them would start on the polling cores. It has
    # to be said before numpy is first imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from nftop.cli import run  # noqa: PLC0415 - after the environment is set

        return run(sys.argv[1:])
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        # What is left is Python's own clearing up, which would answer with a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main())
