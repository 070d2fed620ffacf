"""Where the sockets of other programs may be: in our mount namespace and in every other one.

Containers are looked into through /proc/<pid>/root, with one process for each mount namespace.
/proc/net/unix names the sockets that somebody listens on, wherever they are (proc_net_unix(5)).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

MAX_SENTENCES = 32


@dataclass(frozen=True, slots=True)
class View:
    """A file system as some processes see it; `unix_sockets` is the list of theirs."""

    root: Path
    unix_sockets: Path


def views(root: Path, proc: Path) -> tuple[tuple[View, ...], int]:
    """Our own view, `root`, and one for each other mount namespace; how many can't be told."""
    own = link(proc / "self" / "ns" / "mnt")
    first_pid: dict[str, str] = {}
    unseen = 0
    for entry in scan(proc):
        # Not init: some sandboxes close it to everyone, and it is no network function.
        if not entry.name.isdigit() or entry.name == "1":
            continue
        try:
            namespace = str((proc / entry.name / "ns" / "mnt").readlink())
        except PermissionError:
            unseen += 1
        except OSError:
            continue
        else:
            first_pid.setdefault(namespace, entry.name)
    first_pid.pop(own, None)
    others = [View(proc / pid / "root", proc / pid / "net" / "unix") for pid in first_pid.values()]
    return (View(root, proc / "self" / "net" / "unix"), *others), unseen


def listening(seen: Iterable[View], pattern: re.Pattern[bytes]) -> tuple[Path, ...]:
    """Sockets that somebody listens on, where they can be opened from here, each once.

    Args:
        seen: the views looked into.
        pattern: finds the path in a line of /proc/net/unix.
    """
    found: dict[Path, None] = {}
    by_namespace: dict[str, tuple[str, ...]] = {}
    for view in seen:
        namespace = link(view.unix_sockets.parent.parent / "ns" / "net")
        if namespace not in by_namespace:
            by_namespace[namespace] = _paths(view.unix_sockets, pattern)
        found |= dict.fromkeys(_inside(view.root, path) for path in by_namespace[namespace])
    return tuple(found)


def scan(folder: Path, on_closed: Callable[[str], None] | None = None) -> list[os.DirEntry[str]]:
    """What a folder holds, in order; nothing where it is gone, or closed, which is told."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except PermissionError:
        if on_closed is not None:
            on_closed(str(folder))
    except OSError:
        pass  # it vanished, which is not worth a word
    return []


def exists(path: Path) -> bool:
    """Whether it is there, as far as we may see."""
    try:
        path.lstat()
    except OSError:  # a closed /run/user/<uid> is no sign of anything
        return False
    return True


def link(path: Path) -> str:
    """What a link leads to; "" where it can't be read."""
    try:
        return str(path.readlink())
    except OSError:
        return ""


def closed_sentence(path: str, what: str) -> str:
    """Why nothing is known of `what` may be at `path`, and what helps."""
    return f"{path} is closed to this user, so {what} there can't be read{_remedy()}"


def unseen_sentence(processes: int, what: str) -> str:
    """Why nothing is known of `what` may be in other processes' containers."""
    who = "1 process is" if processes == 1 else f"{processes} processes are"
    return f"{who} closed to this user, so {what} in their containers can't be seen{_remedy()}"


def shortened(sentences: Iterable[str]) -> tuple[str, ...]:
    """Each once, and no more than anybody reads."""
    each = tuple(dict.fromkeys(sentences))
    if len(each) <= MAX_SENTENCES:
        return each
    return (*each[:MAX_SENTENCES], f"and {len(each) - MAX_SENTENCES} more such places")


def _remedy() -> str:
    return ": sudo nftop" if os.geteuid() else ""


def _inside(root: Path, path: str) -> Path:
    """`path` as seen below `root`, where /var/run is usually a link to /run."""
    if path.startswith("/var/run/") and (root / "var" / "run").is_symlink():
        path = path.removeprefix("/var")
    return root / path.lstrip("/")


def _paths(unix_sockets: Path, pattern: re.Pattern[bytes]) -> tuple[str, ...]:
    try:
        raw = unix_sockets.read_bytes()
    except OSError:
        return ()
    return tuple(os.fsdecode(path) for path in pattern.findall(raw))
