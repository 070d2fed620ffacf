"""`python -m tests.lab ... -- COMMAND`: run it in the lab."""

from __future__ import annotations

import sys

from tests.lab.options import parse
from tests.lab.processes import FAILED, run
from tests.lab.requirements import missing


def main() -> int:
    """The command's exit code."""
    options = parse(sys.argv[1:])
    lacks = missing()
    if lacks:
        print(f"nftop's lab: {lacks}", file=sys.stderr)
        return FAILED
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
