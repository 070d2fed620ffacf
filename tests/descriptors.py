"""A process that holds so many descriptors that the next ones are beyond select(2)."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

FD_SETSIZE = 1024


@contextmanager
def many_descriptors() -> Iterator[None]:
    """Every descriptor that is opened inside is FD_SETSIZE or above."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * FD_SETSIZE)), hard))
    held = [os.open(os.devnull, os.O_RDONLY)]
    try:
        while held[-1] < FD_SETSIZE:
            held.append(os.dup(held[0]))
        yield
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
