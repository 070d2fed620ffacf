"""Prints nftop's dependencies, direct and indirect, in the versions that are installed here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_EXTRAS = ("", "parquet", "pqos", "vpp")


def locked(name: str, extras: tuple[str, ...], seen: set[str]) -> Iterator[str]:
    """`NAME==VERSION` of each dependency; what is not installed is left out."""
    for text in distribution(name).requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in extras):
            continue
        own = canonicalize_name(requirement.name)
        if own in seen:
            continue
        seen.add(own)
        try:
            version = distribution(own).version
        except PackageNotFoundError:
            continue
        yield f"{own}=={version}"
        yield from locked(own, ("", *requirement.extras), seen)


def main() -> int:
    sys.stdout.write("".join(f"{line}\n" for line in sorted(locked("nftop", _EXTRAS, set()))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
