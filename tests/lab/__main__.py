"""`python -m tests.lab ... -- COMMAND`: run it in the lab."""

from __future__ import annotations

import sys

from tests.lab.calls import keeper
from tests.lab.options import parse
from tests.lab.processes import FAILED, run
from tests.lab.requirements import missing


def main(execute: keeper.Execute = keeper.execute) -> int:
    """The command's exit code; `execute` as in `processes.run`."""
    options = parse(sys.argv[1:])
    lacks = missing()
    if lacks:
        print(f"nftop's lab: {lacks}", file=sys.stderr)
        return FAILED
    return run(options, execute)


if __name__ == "__main__":
    sys.exit(main())
