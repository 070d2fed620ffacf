"""mount(2) of resctrl, and what else mounts: asked about before the real kernel sees it."""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.lab.calls import caller, seccomp
from tests.lab.calls.seccomp import Caught
from tests.lab.calls.supervisor import Handlers

_SYS_ADMIN = 1 << 21  # linux/capability.h


@dataclass(frozen=True, slots=True)
class Mount:
    """A mount(2) of type resctrl or an umount2(2) of whatever that a command tries.

    Attributes:
        mounting: it is a mount.
        target: where the caller's path leads; no part of it is a symbolic link.
        options: of the mount, `cdp,mba_MBps`.
        privileged: the caller may mount.
    """

    mounting: bool
    target: Path
    options: str
    privileged: bool


MountHook = Callable[[Mount], int | None]
"""What to answer: 0 done, an errno, None: let the kernel do it."""


def handlers(on_mount: MountHook) -> Handlers:
    """The calls' handlers; `on_mount` is asked about mounts of resctrl and about every unmount."""
    mounting = functools.partial(_mount, on_mount)
    return {
        seccomp.MOUNT: mounting,
        seccomp.UMOUNT2: mounting,
        seccomp.FSOPEN: _open_file_system,
    }


def _mount(hook: MountHook, listener: int, caught: Caught) -> None:
    """mount(source, target, type, flags, options) and umount2(target, flags)."""
    mounting = caught.number == seccomp.MOUNT
    text = functools.partial(caller.text, caught.tid)
    arguments = caught.arguments
    outcome = None
    if not mounting or text(arguments[2]) == "resctrl":
        mount = Mount(
            mounting=mounting,
            target=caller.location(caught.tid, text(arguments[1] if mounting else arguments[0])),
            options=text(arguments[4]) if mounting else "",
            privileged=caller.credentials(caught.tid).any_of(_SYS_ADMIN),
        )
        if not seccomp.waits(listener, caught):
            return
        outcome = hook(mount)
    if outcome is None:
        seccomp.let_pass(listener, caught)
    else:
        seccomp.answer(listener, caught, code=outcome)


def _open_file_system(listener: int, caught: Caught) -> None:
    """fsopen(type, flags): not there for resctrl, upon which libmount turns to mount(2)."""
    if caller.text(caught.tid, caught.arguments[0]) == "resctrl":
        seccomp.answer(listener, caught, code=errno.ENOSYS)
    else:
        seccomp.let_pass(listener, caught)
