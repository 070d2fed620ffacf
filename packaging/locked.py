"""Prints nftop's dependencies, direct and indirect, in the versions that are installed here.

Those of every Python that nftop supports: a package may be built for another one than this.
"""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, distribution

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_EXTRAS = ("", "parquet", "pqos", "vpp")
_PYTHONS = ("3.11", "3.12", "3.13", "3.14")
_HERE = "{}.{}".format(*sys.version_info[:2])


def locked(
    name: str, extras: tuple[str, ...], pythons: tuple[str, ...]
) -> tuple[dict[str, str], set[str]]:
    """Versions of all dependencies of a package with its extras, and those not installed."""
    versions, absent = dict[str, str](), set[str]()
    waiting, seen = [(name, extras)], set[tuple[str, str]]()
    while waiting:
        package, extras = waiting.pop()
        for requirement in map(Requirement, distribution(package).requires or ()):
            own = canonicalize_name(requirement.name)
            if not _applies(requirement.marker, extras, pythons):
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


def _applies(marker: Marker | None, extras: tuple[str, ...], pythons: tuple[str, ...]) -> bool:
    return marker is None or any(
        marker.evaluate(
            {"extra": extra, "python_version": python, "python_full_version": f"{python}.0"}
        )
        for extra in extras
        for python in pythons
    )


def main() -> int:
    """Print them; 1, and nothing on standard output, if one of this Python is not installed."""
    versions, elsewhere = locked("nftop", _EXTRAS, _PYTHONS)
    own, absent = locked("nftop", _EXTRAS, (_HERE,))
    if absent:
        names = ", ".join(sorted(absent))
        sys.stderr.write(f"not installed, so their holes would not be found: {names}\n")
        return 1
    if elsewhere:
        names = ", ".join(sorted(elsewhere))
        sys.stderr.write(f"needed by other Pythons, not installed, so without a version: {names}\n")
    versions |= own
    sys.stdout.write("".join(f"{name}=={version}\n" for name, version in sorted(versions.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
