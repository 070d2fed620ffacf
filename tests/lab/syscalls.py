"""System calls that Python 3.11 has no name for. Each raises OSError, naming what it was for."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

# linux/sched.h, linux/mount.h, linux/prctl.h; system call numbers from 424 on are the same on
# every architecture.
NEW_MOUNTS, NEW_PIDS = 0x00020000, 0x20000000
READ_ONLY, NOSUID, NODEV, NOEXEC = 1, 2, 4, 8
REMOUNT, BIND, RECURSIVE, PRIVATE = 1 << 5, 1 << 12, 1 << 14, 1 << 18
_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 15, 36
_DETACH = 2
_OPEN_TREE, _MOVE_MOUNT = 428, 429
_OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH = 1, 4
_AT_FDCWD = -100

_libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """unshare(2): NEW_MOUNTS for this process, NEW_PIDS for the next one it forks."""
    _check(_libc.unshare(flags), "unshare")


def mount(source: str, target: Path, kind: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2)."""
    texts = (source, os.fspath(target), kind)
    result = _libc.mount(*map(os.fsencode, texts), ctypes.c_ulong(flags), os.fsencode(data))
    _check(result, f"mount {source} at {target}")


def bind(source: Path, target: Path, *, read_only: bool = False, follow: bool = True) -> None:
    """Show `source`, and what is mounted in it, at `target` too.

    Unless told to `follow`, a `target` that is a symbolic link is itself covered, and not what it
    points to.
    """
    if follow:
        mount(os.fspath(source), target, flags=BIND | RECURSIVE)
    else:
        _cover_link(source, target)
    if read_only:
        mount("", target, flags=BIND | REMOUNT | READ_ONLY | NOSUID | NODEV | NOEXEC)


def _cover_link(source: Path, target: Path) -> None:
    tree = _libc.syscall(
        _OPEN_TREE, _AT_FDCWD, os.fsencode(source), _OPEN_TREE_CLONE | os.O_CLOEXEC
    )
    _check(tree, f"open_tree {source}")
    try:
        to = (_AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH)
        _check(_libc.syscall(_MOVE_MOUNT, tree, b"", *to), f"move_mount to {target}")
    finally:
        os.close(tree)


def unmount(target: Path, *, lazily: bool = False) -> None:
    """umount2(2); `lazily`: out of sight at once, though a file of it may be open."""
    _check(_libc.umount2(os.fsencode(target), _DETACH if lazily else 0), f"umount {target}")


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """A signal for this process when the thread that forked it ends, however that happens."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(number)), "prctl")


def adopt_orphans() -> None:
    """Descendants that lose their parent become this process's children."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1)), "prctl")


def call_me(name: str) -> None:
    """The name ps(1) and top(1) show, at most 15 bytes of it."""
    _check(_libc.prctl(_PR_SET_NAME, os.fsencode(name)), "prctl")


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
