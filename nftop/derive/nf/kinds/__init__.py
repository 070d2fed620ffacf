"""One module per kind of network function that has statistics; each registers its fold."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules


def load() -> None:
    """Import every module of this package, in alphabetical order."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
