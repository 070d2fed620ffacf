"""Prints nftop's dependencies, direct and indirect, in the versions that are installed here."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_EXTRAS = ("", "parquet", "pqos", "vpp")


def locked(name: str, extras: tuple[str, ...]) -> tuple[dict[str, str], set[str]]:
    """Versions of all dependencies of a package with its extras, and those not installed."""
    versions, absent = dict[str, str](), set[str]()
    waiting, seen = [(name, extras)], set[tuple[str, str]]()
    while waiting:
        package, extras = waiting.pop()
        for requirement in map(Requirement, distribution(package).requires or ()):
            marker, own = requirement.marker, canonicalize_name(requirement.name)
            if marker is not None and not any(marker.evaluate({"extra": item}) for item in extras):
                continue
            # A package may be needed again, with other extras.
            new = {(own, extra) for extra in ("", *requirement.extras)} - seen
            seen |= new
            try:
                versions[own] = distribution(own).version
            except PackageNotFoundError:
                absent.add(own)
            else:
                waiting += [(own, ("", *requirement.extras))] * bool(new)
    return versions, absent


def main() -> int:
    """Print them; 1, and nothing on standard output, if one is not installed."""
    versions, absent = locked("nftop", _EXTRAS)
    if absent:
        names = ", ".join(sorted(absent))
        sys.stderr.write(f"not installed, so their holes would not be found: {names}\n")
        return 1
    sys.stdout.write("".join(f"{name}=={version}\n" for name, version in sorted(versions.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
