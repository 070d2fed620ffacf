"""Detection of procfs, whose links only the kernel can resolve.

The text of a link such as /proc/PID/root, cwd, exe or fd/N is a path in that process' mount
namespace and may name another file here (proc_pid_root(5)).
"""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes

_PROC_SUPER_MAGIC = 0x9FA0  # include/uapi/linux/magic.h
_STATFS_BYTES = 256  # more than struct statfs has on any architecture


def is_procfs(handle: int) -> bool:
    """Whether an open descriptor (O_PATH too) is in a procfs.

    Raises:
        OSError: fstatfs(2) failed.
    """
    import ctypes  # noqa: PLC0415 - only for links below another user's folder

    about = ctypes.create_string_buffer(_STATFS_BYTES)
    if _fstatfs()(handle, about) != 0:
        number = ctypes.get_errno() or errno.EIO
        raise OSError(number, os.strerror(number))
    # f_type is the first word: int on s390x, long on all others.
    return ctypes.c_uint.from_buffer(about).value == _PROC_SUPER_MAGIC


@functools.cache
def _fstatfs() -> Callable[[int, ctypes.Array[ctypes.c_char]], int]:
    import ctypes  # noqa: PLC0415 - as above

    fstatfs = ctypes.CDLL(None, use_errno=True).fstatfs
    fstatfs.argtypes = (ctypes.c_int, ctypes.c_void_p)
    fstatfs.restype = ctypes.c_int
    return fstatfs
