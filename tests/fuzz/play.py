"""Play one input, with the traceback: `python -m tests.fuzz.play FORMAT FILE`."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

from tests.fuzz.registry import BY_NAME


def main() -> int:
    name, file = sys.argv[1:]
    warnings.simplefilter("error")
    BY_NAME[name].load().play(Path(file).read_bytes())
    print("no find")
    return 0


if __name__ == "__main__":
    sys.exit(main())
