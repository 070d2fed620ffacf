"""The `nftop` command."""

from __future__ import annotations

import gc
import os
import signal
import sys

from nftop.cli import first_frame

TYPE_CHECKING = False  # `typing` takes as long to import as Python to start
if TYPE_CHECKING:
    from types import TracebackType


def main() -> int:
    """Run nftop with the command line's arguments; the exit code is in `cli`'s docstring."""
    # One thread is all our arrays need; a pool of them would start on the polling cores. It has
    # to be said before numpy is first imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # What is imported is no garbage, and looking through it takes a twelfth of the start.
    gc.disable()
    sys.excepthook = _write_traceback
    try:
        if first_frame.is_wanted(sys.argv[1:]):
            from nftop.sources.host.first_facts import FirstFacts  # noqa: PLC0415 - only then

            first_frame.show(FirstFacts())
        return _run()
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        first_frame.erase()
        # What is left is Python's own clearing up, which would answer with a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _run() -> int:
    """The command; a limit of this process that is too low for it is a sentence."""
    try:
        from nftop.cli.main import run  # noqa: PLC0415 - after the environment is set
    except (ImportError, MemoryError) as error:
        from nftop.export.output import FAILURE, fail  # noqa: PLC0415 - likewise
        from nftop.model.error_text import exhausted  # noqa: PLC0415 - needs next to nothing

        sentence = exhausted(error)
        if not sentence:
            raise
        return fail(sentence, FAILURE)
    return run(sys.argv[1:])


def _write_traceback(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print a traceback with its texts escaped: they may come from a peer or a recording."""
    import traceback  # noqa: PLC0415 - only where nftop fails

    from nftop.export.output import warn_lines  # noqa: PLC0415 - likewise

    warn_lines("".join(traceback.format_exception(kind, error, trace)).rstrip("\n"))


if __name__ == "__main__":
    sys.exit(main())
