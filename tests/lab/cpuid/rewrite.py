"""A program or library of which every CPUID instruction asks the lab: a changed copy of its bytes.

CPUID is two bytes, `0F A2`, and so are a breakpoint and a NOP. The code that handles the
breakpoint's signal goes where the executable segment's last page has room, and the function of
DT_INIT, which the dynamic linker calls before any other code of the file runs, becomes one that
sets it up first.

Sources: System V ABI (ELF-64) and its AMD64 supplement; Intel SDM volume 2 for the encodings;
Linux, arch/x86/include/uapi/asm/sigcontext.h for where a signal's registers are.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

CALL = 0x6370  # a system call that no kernel has, by which the handler asks `calls`
_CPUID, _TRAP = b"\x0f\xa2", b"\xcc\x90"
# What compilers put before it: a leaf comes to eax, or a subleaf to ecx, at most so far ahead.
_AHEAD_BYTES = 16
_LOADS = re.compile(
    rb"\xb8[\x00-\xff]\x00\x00[\x00\x80\x40]"  # mov $leaf, %eax
    rb"|\x31[\xc0\xc9]"  # xor %eax, %eax or %ecx, %ecx
    rb"|\x89[\xc0-\xff]",  # mov between registers
    re.DOTALL,
)
# rt_sigaction(SIGTRAP, ...), then the file's own DT_INIT, whose distance `rewritten` fills in.
_INIT = bytes.fromhex(
    "57 56 52"  # push rdi, rsi, rdx: argc, argv, envp
    "6a00"  # push 0: the mask
    "488d0531000000 50"  # lea rax, [restorer]; push rax
    "680400004c"  # push SA_SIGINFO | SA_RESTORER | SA_ONSTACK | SA_NODEFER
    "488d052b000000 50"  # lea rax, [handler]; push rax
    "bf05000000"  # mov edi, SIGTRAP
    "4889e6 31d2"  # mov rsi, rsp; xor edx, edx
    "41ba08000000"  # mov r10d, 8
    "b80d000000 0f05"  # mov eax, SYS_rt_sigaction; syscall
    "4883c420"  # add rsp, 32
    "5a 5e 5f"  # pop rdx, rsi, rdi
    "e9"  # jmp
)
_RESTORER = bytes.fromhex("b80f000000 0f05")  # mov eax, SYS_rt_sigreturn; syscall
_HANDLER = bytes.fromhex(
    "53 6a00 6a00"  # push rbx, 0, 0: room for the answer
    "4889d3"  # mov rbx, rdx: the ucontext
    "8bbb90000000"  # mov edi, [rbx + rax's]: the leaf
    "8bb398000000"  # mov esi, [rbx + rcx's]: the subleaf
    "4889e2"  # mov rdx, rsp
    "b870630000 0f05"  # mov eax, CALL; syscall
    "58 89c2 48899390000000"  # pop rax; mov edx, eax; mov [rbx + rax's], rdx
    "48c1e820 48898380000000"  # shr rax, 32; mov [rbx + rbx's], rax
    "58 89c2 48899398000000"  # the same for rcx
    "48c1e820 48898388000000"  # and rdx
    "5b c3"  # pop rbx; ret
)
_JUMP_BYTES = 4

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_DYNAMIC = struct.Struct("<qQ")
_LOAD, _DYNAMIC_SEGMENT, _EXECUTABLE = 1, 2, 1
_DT_NULL, _DT_INIT = 0, 12
_PAGE = 4096
_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little endian
_X86_64 = 62


class _Segment(NamedTuple):
    at: int  # of its header in the file
    kind: int
    flags: int
    offset: int
    address: int
    file_bytes: int


class UnfitError(ValueError):
    """It can't be changed so; the text says why."""


def rewritten(data: bytes) -> bytes:
    """The file with its CPUID instructions replaced; as it is if it has none.

    Raises:
        UnfitError: it is no ELF of x86-64, or there is no room or no DT_INIT in it.
    """
    segments = _segments(data)
    code = next((s for s in segments if s.kind == _LOAD and s.flags & _EXECUTABLE), None)
    if code is None:
        raise UnfitError("it has no executable segment")
    sites = list(cpuids(data[code.offset : code.offset + code.file_bytes]))
    if not sites:
        return data
    changed = bytearray(data)
    for location in sites:
        changed[code.offset + location : code.offset + location + len(_TRAP)] = _TRAP
    end = code.file_bytes + -code.file_bytes % 16
    size = len(_INIT) + _JUMP_BYTES + len(_RESTORER) + len(_HANDLER)
    if (code.offset + code.file_bytes) % _PAGE == 0 or end % _PAGE + size > _PAGE:
        raise UnfitError("its executable segment has no room left")
    init_at, init = _init(data, segments)
    entry = code.address + end
    jump = init - (entry + len(_INIT) + _JUMP_BYTES)
    added = _INIT + struct.pack("<i", jump) + _RESTORER + _HANDLER
    where = code.offset + end
    if any(changed[where : where + len(added)]):
        raise UnfitError("what follows its executable segment is no padding")
    changed[where : where + len(added)] = added
    struct.pack_into("<QQ", changed, code.at + 32, end + len(added), end + len(added))
    struct.pack_into("<Q", changed, init_at, entry)
    return bytes(changed)


def cpuids(code: bytes) -> Iterator[int]:
    """Where its CPUID instructions are.

    The two bytes may be part of another instruction by chance; those count before which neither
    eax nor ecx was just given a value do not.
    """
    at = code.find(_CPUID)
    while at >= 0:
        if _LOADS.search(code, max(at - _AHEAD_BYTES, 0), at):
            yield at
        at = code.find(_CPUID, at + 1)


def _segments(data: bytes) -> list[_Segment]:
    if not data.startswith(_MAGIC) or len(data) < _HEADER.size:
        raise UnfitError("it is no 64-bit ELF")
    header = _HEADER.unpack_from(data)
    machine, first, size, count = header[2], header[5], header[9], header[10]
    if machine != _X86_64 or size != _SEGMENT.size:
        raise UnfitError("it is not for x86-64")
    result = []
    for index in range(count):
        at = first + index * size
        kind, flags, offset, address, _, file_bytes, _, _ = _SEGMENT.unpack_from(data, at)
        result.append(_Segment(at, kind, flags, offset, address, file_bytes))
    return result


def _init(data: bytes, segments: list[_Segment]) -> tuple[int, int]:
    """Where in the file the value of DT_INIT is, and that value."""
    for segment in segments:
        if segment.kind != _DYNAMIC_SEGMENT:
            continue
        for at in range(segment.offset, segment.offset + segment.file_bytes, _DYNAMIC.size):
            tag, value = _DYNAMIC.unpack_from(data, at)
            if tag == _DT_INIT:
                return at + 8, value
            if tag == _DT_NULL:
                break
    raise UnfitError("it has no DT_INIT")
