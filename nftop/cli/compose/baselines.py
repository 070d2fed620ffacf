"""`--baseline NAME`: baselines kept in a file between sessions."""

from __future__ import annotations

import argparse
import os
import threading
from pathlib import Path

from nftop.export.output import warn
from nftop.model.baseline import Baselines
from nftop.model.topology import Host
from nftop.render.base.text import printable
from nftop.store.folders import Person, caller
from nftop.store.user.baselines import file_of, read_baselines, write_baselines

_PATIENCE_S = 5.0


class Book:
    """The operator's file of baselines, or none.

    Attributes:
        begun: its content at the start.
        problem: why the last change was not written; "" if it was.
    """

    def __init__(self, path: Path | None, host: Host, begun: Baselines | None) -> None:
        self.begun = begun
        self.problem = ""
        self._path, self._host = path, host
        self._owner: Person | None = caller(os.environ)
        self._latest: Baselines | None = None
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def keep(self, baselines: Baselines | None) -> None:
        """Write the baselines without waiting; None removes them."""
        if self._path is None:
            return
        self._latest = baselines
        writer = threading.Thread(target=self._write, name="nftop-baselines", daemon=True)
        self._threads = [thread for thread in self._threads if thread.is_alive()] + [writer]
        writer.start()

    def close(self) -> str:
        """Wait for the writes; returns `problem`."""
        for thread in self._threads:
            thread.join(timeout=_PATIENCE_S)
            if thread.is_alive():
                self.problem = f"{self._path}: no answer for {_PATIENCE_S:.0f} s"
        return self.problem

    def _write(self) -> None:
        if self._path is None:
            return
        with self._lock:
            try:
                write_baselines(self._path, self._host, self._latest, self._owner)
            except OSError as error:
                self.problem = f"{printable(str(self._path))}: {error.strerror or error}"
            else:
                self.problem = ""


def open_book(options: argparse.Namespace, host: Host) -> Book:
    """The file of `--baseline`. Raises ValueError: invalid, unreadable, or of another host."""
    if options.baseline is None:
        return Book(None, host, None)
    path = file_of(os.environ, options.baseline)
    try:
        begun = read_baselines(path, host)
    except ValueError as error:
        raise ValueError(f"{printable(str(path))}: {error}") from None
    except OSError as error:
        raise ValueError(f"{printable(str(path))}: {error.strerror}") from None
    if begun is None:
        warn(f"nftop: no baseline is kept in {printable(str(path))} yet: key b keeps one")
    return Book(path, host, begun)
