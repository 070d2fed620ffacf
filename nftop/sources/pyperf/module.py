"""The kernel's Python module `perf` (tools/perf/util/python.c): found, checked, imported.

The distribution's module is in a folder that is not on a virtual environment's path; nothing else
is imported from there. It is code that will run as root, so only root may be able to write it.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import os
import shlex
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from nftop.model.missing import Reason
from nftop.sources.perf.problems import CounterProblem

# Of this Python only: another's object files may load and then crash.
SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]
# Where distributions put it, {version} being 3.14 or so: Debian and Ubuntu, Fedora, Arch.
FOLDERS = (
    "usr/lib/python3/dist-packages",
    "usr/lib64/python{version}/site-packages",
    "usr/lib/python{version}/site-packages",
)
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
# What counting takes, by class ("" for the module itself). compute_metric is not called: it came
# with Linux 6.18, as did reads that give differences, indistinguishable from earlier ones.
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "evsel": ("read",),
    "evlist": ("open", "close", "enable", "disable", "compute_metric"),
    "": ("parse_events", "parse_metrics", "metrics"),
}
_FIX = "sudo apt-get install linux-perf"
_SINCE = "that of Linux 6.18 or later counts"


class ModuleCounts(Protocol):
    """Result of a read: count, ns enabled and ns running since the last read."""

    val: int
    ena: int
    run: int


class Evsel(Protocol):
    """One event on some CPUs; its text is `evsel(PMU/NAME/)`, after Linux 7.2 `evsel(NAME)`."""

    read_format: int

    def cpus(self) -> Iterable[int]: ...

    def read(self, cpu: int, thread: int, /) -> ModuleCounts: ...


class Evlist(Protocol):
    """Events that are opened together. Reading one after `close` ends the process."""

    def __iter__(self) -> Iterator[Evsel]: ...

    def open(self) -> None: ...

    def enable(self) -> None: ...

    def disable(self) -> None: ...

    def close(self) -> None: ...


class PerfModule(Protocol):
    """The part of the module that nftop uses.

    Parsing raises OSError, and writes to descriptor 2.
    """

    def parse_events(self, events: str, /) -> Evlist: ...

    def parse_metrics(self, metrics: str, /) -> Evlist: ...

    def metrics(self) -> Sequence[Mapping[str, Any]]: ...


def load_module(
    root: Path = Path("/"), *, suffix: str = SUFFIX, owner: int = 0
) -> PerfModule | CounterProblem:
    """The module, or why there is none that can count.

    `suffix` is that of this Python's object files; files must belong to user `owner`.
    """
    python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    path = _find(root, suffix)
    if path is None:
        return _absent(root, python)
    unsafe = _unsafe(path.resolve(), root, owner)
    if unsafe:
        other, why = unsafe
        name = shlex.quote(str(other))
        fix = f"sudo chown root {name} && sudo chmod go-w {name}"
        return CounterProblem(Reason.SOURCE, f"{path} is not loaded: {other} {why}", fix)
    try:
        module = _import(path)
    except (ImportError, OSError, SystemError) as error:
        return CounterProblem(Reason.ERROR, f"{path} can't be loaded: {error}", _FIX)
    lacks = lacking(module)
    if lacks:
        return CounterProblem(Reason.SOURCE, f"{path} is too old: it has no {lacks}; {_SINCE}")
    return module  # type: ignore[no-any-return]


def lacking(module: Any) -> str:
    """The first required attribute that the module lacks; "" if none."""
    for owner, names in _NEEDED.items():
        holder = getattr(module, owner, None) if owner else module
        missing = [name for name in names if not hasattr(holder, name)]
        if missing:
            return ".".join(filter(None, ("perf", owner, missing[0])))
    return ""


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Redirect descriptor 2 to /dev/null: perf writes messages there besides raising.

    Of the whole process; the screen is drawn on standard output.
    """
    try:
        kept = os.dup(2)
    except OSError:  # nftop was started with it closed
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _folders(root: Path) -> Iterator[Path]:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return (root / folder.format(version=version) for folder in FOLDERS)


def _find(root: Path, suffix: str) -> Path | None:
    paths = (folder / f"perf{suffix}" for folder in _folders(root))
    return next((path for path in paths if path.is_file()), None)


def _absent(root: Path, python: str) -> CounterProblem:
    others = [
        path for folder in _folders(root) for path in sorted(folder.glob("perf.cpython-*.so"))
    ]
    if others:
        sentence = (
            f"the kernel's module is built for another Python ({others[0]}), not for {python}"
        )
        return CounterProblem(Reason.SOURCE, sentence, "sudo make install PYTHON=/usr/bin/python3")
    sentence = f"the kernel's Python module perf is not installed for {python}; {_SINCE}"
    return CounterProblem(Reason.SOURCE, sentence, _FIX)


def _unsafe(path: Path, root: Path, owner: int) -> tuple[Path, str] | None:
    """The file or folder by which users other than root can write this file, and why; or None."""
    for parent in (path, *path.parents):
        if not parent.is_relative_to(root.resolve()):
            break
        status = parent.stat()
        if status.st_uid != owner:
            return parent, f"belongs to user {status.st_uid}"
        if status.st_mode & _OTHERS_MAY_WRITE:
            return parent, "can be written by others"
    return None


def _import(path: Path) -> Any:
    """This one module; its folder is not added to the path."""
    loader = importlib.machinery.ExtensionFileLoader("perf", str(path))
    spec = importlib.util.spec_from_loader("perf", loader)
    if spec is None:
        raise ImportError("no specification")
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
