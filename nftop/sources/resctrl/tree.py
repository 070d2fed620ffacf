"""Groups of resctrl, contents of `info`, and the parser of their files.

Strict: text that the kernel does not write raises ValueError. Unknown lines in schemata and
monitors are skipped.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias, TypeVar

from nftop.model.ids import Cpu, L3Domain, parse_cpu_list
from nftop.model.missing import Missing, Reason
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import EVENTS, ROOT, USAGE, WORDS, Event, IoWays, Limits, group_path
from nftop.model.struct import dataclass
from nftop.sources.host.sysfs import unreadable
from nftop.sources.resctrl.files import TASKS_BYTES, folders, inode, read_optional, read_text

# What a line of schemata is by its name, and the base of its numbers.
_BASES: Mapping[str, int] = {
    **dict.fromkeys(("L3", "L3CODE", "L3DATA", "L2", "L2CODE", "L2DATA"), 16),
    "MB": 10,
}
_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,15}")
_NUMBERS = {10: re.compile(r"[0-9]{1,10}"), 16: re.compile(r"[0-9a-f]{1,8}")}
_DOMAIN = re.compile(r"[0-9]{1,6}")
_COUNT = re.compile(r"[0-9]{1,20}")
_MONITOR = re.compile(r"mon_L3_([0-9]{2,6})")
_SUB_MONITOR = re.compile(r"mon_sub_L3_([0-9]{2,6})")
_UNSET = "uninitialized"
_LARGEST_COUNT = (1 << 64) - 1

T = TypeVar("T")
Schemata: TypeAlias = Mapping[str, Mapping[int, int]]


def parse_schemata(text: str) -> Schemata:
    """Masks and limits by the line's name (`L3`, `L3CODE`, `L3DATA`, `L2`..., `MB`) and domain.

    A line of a pseudo-locked group that is not set up has no domains. Raises ValueError: a line is
    not `NAME:DOMAIN=VALUE;...`, or is a duplicate.
    """
    result: dict[str, Mapping[int, int]] = {}
    for line in text.splitlines():
        name, colon, body = line.strip().partition(":")
        if not colon or not _NAME.fullmatch(name):
            raise ValueError(f"{line[:80]!r} is no line of schemata")
        if name in result:
            raise ValueError(f"two lines of schemata are called {name}")
        if name in _BASES:
            result[name] = {} if body == _UNSET else parse_domains(body, _BASES[name])
    return result


def parse_domains(text: str, base: int) -> Mapping[int, int]:
    """`0=f0;1=ff`: a number by domain, hexadecimal or decimal, possibly padded with blanks.

    Raises ValueError: it is something else, or has a duplicate domain.
    """

    def number(word: str) -> int:
        if not _NUMBERS[base].fullmatch(word.lstrip(" ")):
            raise ValueError(f"{word[:80]!r} is no number of base {base}")
        return int(word, base)

    return _by_domain(text, number)


def parse_bit_usage(text: str) -> Mapping[int, str]:
    """`0=XXSSS;1=SSSSS`: a letter of `USAGE` for every way, the highest first.

    Raises ValueError: it is something else, or has an unknown letter.
    """

    def letters(word: str) -> str:
        if not word or not USAGE.keys() >= set(word):
            raise ValueError(f"{word[:80]!r} are no letters of bit_usage")
        return word

    return _by_domain(text.strip("\n"), letters)


def parse_mask(text: str) -> int:
    """The hexadecimal mask that is a file's only word. Raises ValueError."""
    return _word(text, 16)


def parse_number(text: str) -> int:
    """The decimal number that is a file's only word. Raises ValueError."""
    return _word(text, 10)


def _word(text: str, base: int) -> int:
    word = text.strip()
    if not _NUMBERS[base].fullmatch(word):
        raise ValueError(f"{text[:80]!r} is no number of base {base}")
    return int(word, base)


def parse_value(text: str) -> int | Missing:
    """A monitor's value: bytes, or the reason for one of the kernel's words.

    Raises ValueError: it is neither.
    """
    word = text.strip()
    if word in WORDS:
        return WORDS[word]
    if not _COUNT.fullmatch(word) or int(word) > _LARGEST_COUNT:
        raise ValueError(f"{text[:80]!r} is no number of bytes")
    return int(word)


def parse_features(text: str) -> tuple[Event, ...]:
    """The events of `mon_features` that nftop reads, in its own order."""
    words = text.split()
    return tuple(event for event in EVENTS if event in words)


def parse_tasks(text: str) -> tuple[int, ...]:
    """Thread ids, one a line, ascending. Raises ValueError."""
    lines = text.split()
    if not all(_NUMBERS[10].fullmatch(line) for line in lines):
        raise ValueError("a line of tasks is no thread id")
    return tuple(sorted(map(int, lines)))


def monitor_domain(name: str) -> L3Domain | None:
    """The cache of a directory of mon_data; None for others, such as a package's."""
    hit = _MONITOR.fullmatch(name)
    return None if hit is None else L3Domain(int(hit[1]))


def sub_monitor(name: str) -> int | None:
    """The node of a directory `mon_sub_L3_YY`; None for any other."""
    hit = _SUB_MONITOR.fullmatch(name)
    return None if hit is None else int(hit[1])


def _by_domain(text: str, value: Callable[[str], T]) -> Mapping[int, T]:
    result: dict[int, T] = {}
    for word in text.split(";"):
        domain, equals, rest = word.partition("=")
        if not equals or not _DOMAIN.fullmatch(domain) or int(domain) in result:
            raise ValueError(f"{word[:80]!r} is not DOMAIN=VALUE, or is a duplicate")
        result[int(domain)] = value(rest)
    return result


# Directories next to the control groups that are none.
NO_GROUPS = frozenset({"info", "mon_data", "mon_groups"})


@dataclass(frozen=True, slots=True)
class GroupFiles:
    """A group's directory now."""

    name: str  # to be shown
    path: str
    inode: int  # of the directory
    cpus: tuple[Cpu, ...]
    clos: int | None  # None without the mount option `debug`; so is `rmid`
    rmid: int | None
    schemata: Schemata | Missing  # empty for a monitoring group
    mode: str  # "" if there is none
    monitors: tuple[GroupFiles, ...]


@dataclass(frozen=True, slots=True)
class Tree:
    """Every control group, the root group first, and what could not be read of them.

    `unread`: those of `notes` which leave CPUs or groups unknown, so that empty is not empty.
    """

    groups: tuple[GroupFiles, ...]
    notes: tuple[str, ...]
    unread: tuple[str, ...] = ()


def read_tree(mount: str, in_time: Callable[[], bool] = lambda: True) -> Tree | None:
    """Every group below a mount; None once `in_time`, called before each group, is False.

    Groups removed meanwhile are left out. Raises OSError: the mount can't be listed.
    """
    notes, unread = list[str](), list[str]()
    below = [(name, path) for name, path in folders(mount) if name not in NO_GROUPS]
    groups = []
    for name, path in [(ROOT, mount), *below]:
        if not in_time():
            return None
        groups.append(_control(name, path, notes, unread))
    present = tuple(group for group in groups if group is not None)
    return Tree(present, (*notes, *unread), tuple(unread))


def read_tasks(tree: Tree) -> Mapping[str, tuple[int, ...]]:
    """Thread ids by group path, without the root group; groups that can't be read are left out.

    The kernel examines every thread for each group.
    """
    tasks = {}
    for group in tree.groups:
        below = ((group_path(group.name, monitor.name), monitor) for monitor in group.monitors)
        for where, item in ((group.name, group), *below):
            if where != ROOT:
                try:
                    tasks[where] = parse_tasks(read_text(f"{item.path}/tasks", TASKS_BYTES))
                except (OSError, ValueError):
                    continue
    return tasks


def _control(name: str, path: str, notes: list[str], unread: list[str]) -> GroupFiles | None:
    group = _group(name, path, notes, unread)
    if group is None:
        return None
    try:
        below = folders(f"{path}/mon_groups")
    except FileNotFoundError:  # nothing is metered, or the group is gone
        below = []
    except OSError as error:
        unread.append(unreadable(f"{path}/mon_groups", error).message)
        below = []
    monitors = [_group(name, path, notes, unread, control=False) for name, path in below]
    schemata = read_optional(f"{path}/schemata", parse_schemata)
    return GroupFiles(
        name=name,
        path=path,
        inode=group.inode,
        cpus=group.cpus,
        # The kernel's own: it gives the root group class and monitor 0 and never takes them back.
        clos=0 if name == ROOT else group.clos,
        rmid=0 if name == ROOT else group.rmid,
        schemata={} if schemata is None else schemata,
        mode=_optional(f"{path}/mode", str.strip, unread) or "",
        monitors=tuple(monitor for monitor in monitors if monitor is not None),
    )


def _group(
    name: str, path: str, notes: list[str], unread: list[str], *, control: bool = True
) -> GroupFiles | None:
    number = inode(path)
    if number is None:
        return None
    cpus = _optional(f"{path}/cpus_list", parse_cpu_list, unread)
    clos = _optional(f"{path}/ctrl_hw_id", parse_number, notes) if control else None
    rmid = _optional(f"{path}/mon_hw_id", parse_number, notes)
    return GroupFiles(name, path, number, cpus or (), clos, rmid, {}, "", ())


def _optional(path: str, parse: Callable[[str], T], notes: list[str]) -> T | None:
    value = read_optional(path, parse)
    if isinstance(value, Missing):
        notes.append(value.message)
        return None
    return value


@dataclass(frozen=True, slots=True)
class IoAlloc:
    """`io_alloc` of the last-level cache: ways of I/O that can be set.

    Attributes:
        line: its folder of `info`: `L3`, with CDP `L3DATA` (the kernel keeps `L3CODE` the same).
        enabled: while it is, I/O has the highest class of the cache, which no group can have.
        masks: by L3; empty while it is off (the kernel shows none) or if unreadable.
        closids: classes of the cache; None if unknown.
    """

    line: str
    enabled: bool
    masks: Mapping[int, int]
    closids: int | None


def read_io_alloc(path: str, notes: list[str] | None = None) -> IoAlloc | None:
    """`io_alloc` of the `info` of a mount; None if the kernel does not offer it.

    `notes`: receives a sentence for each file that can't be read. Without it that raises OSError.
    """
    for line in ("L3", "L3DATA"):
        status = _line(f"{path}/{line}/io_alloc", str.strip, notes)
        if status in ("enabled", "disabled"):
            break
    else:
        return None
    masks = None
    if status == "enabled":  # otherwise reading fails with EINVAL
        masks = _line(
            f"{path}/{line}/io_alloc_cbm", lambda text: parse_domains(text.strip(), 16), notes
        )
        if masks is None and notes is None:
            raise OSError(errno.EIO, "io_alloc is enabled, and its masks are not there")
    closids = _line(f"{path}/{line}/num_closids", parse_number, notes)
    return IoAlloc(line, status == "enabled", masks or {}, closids)


def _line(path: str, parse: Callable[[str], T], notes: list[str] | None) -> T | None:
    value = read_optional(path, parse)
    if not isinstance(value, Missing):
        return value
    if notes is None:
        raise OSError(errno.EIO, value.message)
    notes.append(value.message)
    return None


# Contents of `info`: what can be allocated, how many classes, what is metered.
_NO_IO_WAYS = Missing(
    Reason.SOURCE, "CPUID reports no ways that devices write into, and no register was read"
)


@dataclass(frozen=True, slots=True)
class Info:
    """Contents of `info` now.

    Attributes:
        resources: `L3` or `L3CODE` and `L3DATA`, `L2`..., `MB`.
        ways: of an L3; None if L3 can't be allocated.
        l2_ways: likewise of an L2.
        shareable_bits: CPUID's hint at the ways of I/O in an L3.
        io_alloc: None if not offered.
        usage: `bit_usage` of the L3 by domain; with CDP that of data.
        events: what is metered; empty if nothing is.
        notes: what could not be read, a sentence each.
    """

    resources: frozenset[str]
    limits: Limits
    ways: int | None
    l2_ways: int | None
    shareable_bits: int | None
    io_alloc: IoAlloc | None
    usage: Mapping[int, str]
    events: tuple[Event, ...]
    notes: tuple[str, ...]

    def io(self, l3: int, register: Cbm | None) -> IoWays | Missing:
        """Ways of I/O in a cache: by io_alloc if it is on, else the register, else CPUID.

        `register` is IIO LLC WAYS; None if it could not be read.
        """
        if self.ways is None:
            return Missing(Reason.HARDWARE, "the kernel reports no ways of this cache")
        whole = (1 << self.ways) - 1
        set_masks = self.io_alloc.masks if self.io_alloc is not None else {}
        if l3 in set_masks:
            return IoWays(Cbm(set_masks[l3] & whole, self.ways), "io_alloc")
        if register is not None:
            return IoWays(register, "register")
        if not self.shareable_bits:
            return _NO_IO_WAYS
        return IoWays(Cbm(self.shareable_bits & whole, self.ways), "cpuid")


class _Reader:
    """Files of info, and what was wrong with them."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.notes: list[str] = []

    def read(self, name: str, parse: Callable[[str], T]) -> T | None:
        """A file as parsed; None where it is absent or, with a note, can't be read."""
        value = read_optional(f"{self._path}/{name}", parse)
        if isinstance(value, Missing):
            self.notes.append(value.message)
            return None
        return value

    def numbers(self, folders: Iterable[str], name: str) -> list[int]:
        values = (self.read(f"{folder}/{name}", parse_number) for folder in folders)
        return [item for item in values if item is not None]


def read_info(path: str) -> Info:
    """The `info` of a mount. Raises OSError: it can't be listed."""
    here = frozenset(name for name, _ in folders(path))
    resources = frozenset(
        name for name in here if name == "MB" or (name[:2] in {"L2", "L3"} and "_" not in name)
    )
    files = _Reader(path)
    l3 = next((name for name in ("L3", "L3DATA") if name in here), "L3")
    l2 = next((name for name in ("L2", "L2DATA") if name in here), "L2")
    closids = files.numbers(sorted(resources), "num_closids")
    io_alloc = read_io_alloc(path, files.notes)
    enabled = None if io_alloc is None else io_alloc.enabled
    limits = Limits(
        # io_alloc has the highest class for I/O, so that no group can have it.
        closids=min(closids) - bool(enabled) if closids else None,
        rmids=files.read("L3_MON/num_rmids", parse_number),
        min_bits=files.read(f"{l3}/min_cbm_bits", parse_number),
        sparse=files.read(f"{l3}/sparse_masks", lambda text: parse_number(text) > 0),
        cdp="L3CODE" in here,
        mba_least=files.read("MB/min_bandwidth", parse_number),
        mba_step=files.read("MB/bandwidth_gran", parse_number),
        io_alloc=enabled,
    )
    return Info(
        resources=resources,
        limits=limits,
        ways=_ways(files, l3),
        l2_ways=_ways(files, l2),
        shareable_bits=files.read(f"{l3}/shareable_bits", parse_mask),
        io_alloc=io_alloc,
        usage=files.read(f"{l3}/bit_usage", parse_bit_usage) or {},
        events=files.read("L3_MON/mon_features", parse_features) or (),
        notes=tuple(files.notes),
    )


def _ways(files: _Reader, resource: str) -> int | None:
    mask = files.read(f"{resource}/cbm_mask", parse_mask)
    return mask.bit_length() if mask else None
