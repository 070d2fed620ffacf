"""Groups of resctrl: masks, CPUs, tasks, and the parser of their files.

Strict: text that the kernel does not write raises ValueError. Unknown lines in schemata and
monitors are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

from nftop.model.ids import Cpu, L3Domain, parse_cpu_list
from nftop.model.rdt.rdt import EVENTS, ROOT, USAGE, WORDS, Event
from nftop.model.reading import Missing
from nftop.model.struct import dataclass
from nftop.sources.host.sysfs import unreadable
from nftop.sources.resctrl.files import (
    TASKS_BYTES,
    folders,
    inode,
    read_optional,
    read_text,
)

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
    word = text.strip()
    if not _NUMBERS[16].fullmatch(word):
        raise ValueError(f"{text[:80]!r} is no mask")
    return int(word, 16)


def parse_number(text: str) -> int:
    """The decimal number that is a file's only word. Raises ValueError."""
    word = text.strip()
    if not _NUMBERS[10].fullmatch(word):
        raise ValueError(f"{text[:80]!r} is no number")
    return int(word)


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
            raise ValueError(f"{word[:80]!r} is not DOMAIN=VALUE, or is there twice")
        result[int(domain)] = value(rest)
    return result


# Directories beside the control groups that are none.
_NO_GROUPS = frozenset({"info", "mon_data", "mon_groups"})


@dataclass(frozen=True, slots=True)
class GroupFiles:
    """A group's directory now; `schemata` of a monitoring group is empty.

    Attributes:
        name: to be shown; path: to read it. inode: the directory's.
        clos, rmid: None without the mount option `debug`.
        schemata: its lines, or why they can't be read.
        mode: "" if there is none.
        monitors: its monitoring groups.
    """

    name: str
    path: str
    inode: int
    cpus: tuple[Cpu, ...]
    clos: int | None
    rmid: int | None
    schemata: Schemata | Missing
    mode: str
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
    below = [(name, path) for name, path in folders(mount) if name not in _NO_GROUPS]
    groups = []
    for name, path in [(ROOT, mount), *below]:
        if not in_time():
            return None
        groups.append(_control(name, path, notes, unread))
    present = tuple(group for group in groups if group is not None)
    return Tree(present, (*notes, *unread), tuple(unread))


def read_tasks(tree: Tree) -> Mapping[str, tuple[int, ...]]:
    """Thread ids by control group, without the root group; groups that can't be read are left out.

    The kernel examines every thread for each group.
    """
    tasks = {}
    for group in tree.groups:
        if group.name != ROOT:
            try:
                tasks[group.name] = parse_tasks(read_text(f"{group.path}/tasks", TASKS_BYTES))
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
