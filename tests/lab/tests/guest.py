"""The shell script that was run on the kernels of tests/data/kernel, against the lab's resctrl.

It yields the console's lines. The script itself was not kept: it is restored from what it printed,
the names of its groups from its error messages. A write that fails prints an error as dash does,
which names the line of the script, `guest.sh: line 6: echo: write error: Invalid argument`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from tests.lab.tests.hosts import ROOT, Lab

_TOP = "/sys/fs/resctrl"
_SCHEMATA = (
    "L3:0=5", "L3:0=fff", "L3:0=0", "L3:0=zz", "L2:0=3", "L3:9=3", "L3:0=3;0=7", "MB:0=5",
    "MB:0=45", "MB:0=abc", "L3:0", "L3", "L3:", "L3:0=f0",
)  # fmt: skip


def whole(lab: Lab) -> Iterator[str]:
    """The script of the consoles of skx-linux-6.1 and icx-linux-7.2."""
    yield from _listing(lab)
    yield from _first_reading(lab)
    for text in _SCHEMATA:
        error = _echo(lab, 6, text, "/schemata")
        yield from error
        yield from f"[{text}] rc={len(error)} status={lab.status}".splitlines()
    error = _write(lab, 6, "printf", "L3:0=f0", "/schemata")
    yield from error
    yield f"no newline rc={len(error)} {lab.status}"
    yield from lab.cat("/schemata").splitlines()
    yield from _cpus_and_tasks(lab)
    yield from _groups(lab)
    lab.clock.forward(1.0)
    yield from _values(lab, "/mon_data/mon_L3_00")
    yield from _values(lab, "/g1/mon_data/mon_L3_00")


def short(lab: Lab) -> Iterator[str]:
    """The script of the console of icx-linux-6.1."""
    yield from lab.cat("/schemata").splitlines()
    yield from _values(lab, "/info/L3")


def _listing(lab: Lab) -> Iterator[str]:
    """`ls -R`."""
    pending, first = ["/"], True
    while pending:
        path = pending.pop(0)
        if not first:
            yield ""
        first = False
        yield f"{_TOP}{path}".rstrip("/") + ":"
        names = sorted(lab.tree.names(path))
        yield from names
        paths = [f"{path.rstrip('/')}/{name}" for name in names]
        pending[:0] = [item for item in paths if lab.tree.lookup(item).folder]


def _first_reading(lab: Lab) -> Iterator[str]:
    for name in ("schemata", "size", "mode", "cpus_list"):
        yield from f"{name}: {lab.cat(f'/{name}')}".splitlines()
    for folder in ("L3", "MB", "L3_MON"):
        values = _values(lab, f"/info/{folder}")
        yield f"info/{folder}/*: {next(values)}"
        yield from values
    yield f"info/last_cmd_status: {lab.status}"
    values = iter([*_values(lab, "/mon_data/mon_L3_00"), *_values(lab, "/mon_data/mon_L3_01")])
    yield f"mon_data/*/*: {next(values)}"
    yield from values


def _cpus_and_tasks(lab: Lab) -> Iterator[str]:
    """Line 7 and the begin of line 8, each command followed by `cat info/last_cmd_status`."""
    lab.mkdir("/g1")
    lab.echo("1", "/g1/cpus_list")
    yield from (lab.cat("/cpus_list").strip(), lab.cat("/g1/cpus_list").strip())
    for text, path in (
        ("99", "/g1/cpus_list"),
        ("zz", "/g1/cpus"),
        ("0", "/cpus_list"),
        ("999999", "/g1/tasks"),
        ("-5", "/g1/tasks"),
        ("abc", "/g1/tasks"),
    ):
        yield from _echo(lab, 7, text, path)
        yield from lab.status.splitlines()
    lab.mkdir("/mon_groups/m1")
    for cpu in ("1", "2"):
        yield from _echo(lab, 8, cpu, "/mon_groups/m1/cpus_list")
        yield from lab.status.splitlines()
    for mode in ("exclusive", "foo"):
        yield from _echo(lab, 8, mode, "/g1/mode")
        yield from lab.status.splitlines()


def _groups(lab: Lab) -> Iterator[str]:
    for name in ("info/x", "g1/x", "mon_data/x", "mon_groups"):
        yield from _mkdir(lab, name)
    for number in range(2, 9):
        yield from _mkdir(lab, f"g{number}")
    yield from lab.status.splitlines()
    for name in ("mon_groups", "info"):
        error = _error(lambda name=name: lab.rmdir(f"/{name}"))  # type: ignore[misc]
        yield f"rmdir: failed to remove '{name}': {error}"


def _values(lab: Lab, folder: str) -> Iterator[str]:
    """`cat folder/*`."""
    for name in sorted(lab.tree.names(folder)):
        yield from lab.cat(f"{folder}/{name}").splitlines()


def _echo(lab: Lab, number: int, text: str, path: str) -> list[str]:
    return _write(lab, number, "echo", f"{text}\n", path)


def _write(lab: Lab, number: int, command: str, text: str, path: str) -> list[str]:
    """What a write prints: nothing, or the error."""
    error = _error(lambda: lab.tree.open(path, os.O_WRONLY, ROOT).write(text.encode(), 0))
    return [f"guest.sh: line {number}: {command}: write error: {error}"] if error else []


def _mkdir(lab: Lab, name: str) -> list[str]:
    error = _error(lambda: lab.mkdir(f"/{name}"))
    return [f"mkdir: cannot create directory '{name}': {error}"] if error else []


def _error(call: Callable[[], object]) -> str:
    """The words of the error that a call fails with, "" if it does not."""
    try:
        call()
    except OSError as error:
        return os.strerror(error.errno or 0)
    return ""
