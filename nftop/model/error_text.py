"""Errors as text for an operator."""

from __future__ import annotations

import errno


def describe_error(error: BaseException) -> str:
    """One sentence, without Python's wording if the error is the system's or nftop's.

    It may contain a path and is as trusted as that.
    """
    if limit := exhausted(error):
        return limit
    if isinstance(error, OSError):
        why = error.strerror or str(error) or "it failed"
        return f"{error.filename}: {why}" if isinstance(error.filename, str) else why
    if type(error).__module__.startswith("nftop."):
        return str(error)
    return f"nftop's own fault: {type(error).__name__}: {error}"


def error_sentence(error: Exception) -> str:
    """What an error of any kind states; its type if it states nothing. As `describe_error`."""
    if isinstance(error, OSError):
        return describe_error(error)
    return str(error) or type(error).__name__


def exhausted(error: BaseException) -> str:
    """Sentence about the process limit that caused `error`; "" for any other error.

    Sources: getrlimit(2), RLIMIT_AS and RLIMIT_NPROC; fork(2) and pthread_create(3), EAGAIN.
    """
    if isinstance(error, MemoryError):
        return "not enough memory (ulimit -v limits it, or a cgroup)"
    if isinstance(error, ImportError):
        # The loader says "cannot allocate memory" or "failed to map segment".
        text = str(error)
        if "llocate memory" in text or "failed to map segment" in text:
            return "not enough memory to load a library (ulimit -v limits it)"
    thread = isinstance(error, RuntimeError) and "start new thread" in str(error)
    if thread or (isinstance(error, BlockingIOError) and error.errno == errno.EAGAIN):
        what = "thread" if thread else "process"
        return f"can't start another {what} (ulimit -u, ulimit -v or a cgroup limits them)"
    return ""
