"""Checks of the journal of changes: for `nftop doctor`, the screen and the commands."""

from __future__ import annotations

import os

from nftop.control.journal import Journal, unfinished
from nftop.control.journal_damage import DamagedJournalError
from nftop.model.check import Check
from nftop.model.error_text import describe_error
from nftop.model.missing import Reason

_NAME = "changes"


def notice(journal: Journal) -> str:
    """Notice on a pending change for the screen; "" if there is none.

    Also "" without permission to read the journal, which `check` reports, and for a change that
    this nftop has requested itself.
    """
    message = news(journal)
    return f"changes: {message}" if message else ""


def news(journal: Journal) -> str:
    """The same without its heading."""
    try:
        message = unfinished(journal)
        return "" if message and _is_ours(journal.holder()) else message
    except PermissionError:
        return ""
    except (DamagedJournalError, OSError) as error:
        return describe_error(error)


def _is_ours(holder: str) -> bool:
    """Whether `pid N` is a guard that this process has started."""
    pid = holder.removeprefix("pid ")
    if not (pid.isascii() and pid.isdigit() and int(pid)):
        return False
    try:
        os.waitid(os.P_PID, int(pid), os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (ChildProcessError, OverflowError):
        return False
    return True


def check(journal: Journal) -> Check:
    """Whether a change is pending, or was left so by a crash."""
    try:
        message, holder = unfinished(journal), journal.holder()
        history = journal.history()
    except PermissionError:
        why = "the journal of changes is root's: whether one was cut off is not known"
        return Check(_NAME, Reason.PERMISSION, why, "sudo nftop doctor")
    except DamagedJournalError as error:
        fix = "" if error.reason == "folder" else "sudo nftop recover"
        return Check(_NAME, Reason.ERROR, describe_error(error), fix)
    except OSError as error:
        return Check(_NAME, Reason.ERROR, describe_error(error))
    if message:
        fix = "" if holder else "sudo nftop recover"
        return Check(_NAME, Reason.TAKEN if holder else Reason.ERROR, message, fix)
    done = f"{len(history)} in the history" if history else "none was ever made by nftop"
    without = sum(not entry.verified for entry in history)
    done += f", {without} of them unverified (no checksum)" * bool(without)
    return Check(_NAME, Reason.PRESENT, f"no change is under way; {done}")
