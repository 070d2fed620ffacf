"""Import a library while hiding an optional dependency of it.

What the library could do with the dependency it can't do for the rest of the process: asyncio
without `ssl` has no TLS.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without(module: str) -> Iterator[None]:
    """Inside, `module` can't be imported, unless it was before."""
    if module in sys.modules:
        yield
        return
    sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[module]
