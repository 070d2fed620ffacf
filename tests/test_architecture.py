"""Layers are import-linter's business; who may touch the host is checked here, by `guard`."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.guard import MAY, Guard, guard, imports, uses

PACKAGE = Path(__file__).parent.parent / "nftop"


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_no_module_touches_the_host_unless_it_may(path: Path) -> None:
    module = path.relative_to(PACKAGE).as_posix()
    assert guard(module).offences(path.read_text()) == []


@pytest.mark.parametrize("module", [where for where in MAY if where.endswith(".py")])
def test_no_exception_outlives_its_need(module: str) -> None:
    source, whole = (PACKAGE / module).read_text(), guard(module)
    for exception in MAY[module].split():
        less = Guard(
            whole.pure, tuple(pattern for pattern in whole.patterns if pattern != exception)
        )
        assert less.offences(source), f"{exception} is not needed"


# Who may ask the gate for a change, and who may only read what was done or is there.
# The modules of `compose/` build the gates, `commands/apply.py` calls them after a
# yes; of the screens the confirmation does.
CHANGERS = {
    "cli/commands/cat.py",
    "cli/commands/apply.py",
    "cli/compose/accelerated.py",
    "cli/compose/gates.py",
    "cli/compose/hosts.py",
    "cli/commands/sst.py",
    "cli/commands/footprint.py",
}
READERS = CHANGERS | {
    "cli/parsers/cat_actions.py",
    "cli/commands/sweep.py",
    "cli/confirmation.py",
    "cli/compose/classes_host.py",
    "cli/commands/cat_show.py",
    "cli/commands/doctor.py",
    "export/json/changes.py",
    "cli/commands/undo.py",
    "cli/commands/live.py",
    "session/experiment.py",  # whose settings the guard writes, after the command has asked
}
# The screens see the gate as a protocol; one asks for a change, and another has it done.
SCREENS = {
    f"ui/{name}.py"
    for name in (
        "options",
        "editor_model",
        "change_control",
        "experiment_control",
        "screens/confirm",
        "screens/editor",
        "screens/experiment",
        "screens/incident",  # the draft that would mend it, for the editor
        "screens/priority",
    )
}
READERS |= SCREENS
_CHANGING = ("gate", "guard_process", "transaction")


@cache
def imported(path: Path) -> frozenset[str]:
    """What a module imports, in full; parsed once for both tests."""
    return frozenset(full for _, _, full in imports(ast.parse(path.read_text())))


@cache
def last_attributes(path: Path) -> frozenset[str]:
    """The last name of every chain of attributes in a module; parsed once for all methods."""
    return frozenset(
        use.attributes[-1] for use in uses(ast.parse(path.read_text())) if use.attributes
    )


@pytest.mark.parametrize("inside", [True, False])
def test_only_commands_that_ask_first_change_the_host(inside: bool) -> None:
    users: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        module = path.relative_to(PACKAGE).as_posix()
        used = imported(path)
        wanted = [f"nftop.control.{name}" for name in _CHANGING] if inside else ["nftop.control"]
        if not module.startswith("control/") and any(
            f"{full}.".startswith(f"{item}.") for full in used for item in wanted
        ):
            users.add(module)
    assert users == (CHANGERS if inside else READERS)


@pytest.mark.parametrize(
    ("method", "users"),
    [
        (
            "apply",
            {
                "cli/commands/apply.py",
                "ui/change_control.py",
                "ui/app.py",  # of colours, as that of lines
                "ui/widgets/lines.py",
            },
        ),
        ("apply_and_settle", {"ui/screens/confirm.py"}),
        ("revert", {"cli/confirmation.py", "ui/change_control.py"}),
        # The screen's control reports what a session does after the operator's word.
        ("begin_series", {"session/experiment.py", "ui/experiment_control.py"}),
        ("try_setting", {"session/experiment.py", "ui/experiment_control.py"}),
    ],
)
def test_a_change_is_requested_where_it_is_confirmed_and_nowhere_else(
    method: str, users: set[str]
) -> None:
    result = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if method in path.read_text() and method in last_attributes(path)
    }
    assert {item for item in result if not item.startswith(("control/", "sim/"))} == users


# They take no descriptor of 1024 or above, and nftop holds one per CPU and counter:
# `sources/runtime/readiness.py` waits by poll.
_BY_SELECT = {"select.select", "selectors.SelectSelector"}


def waits_by_select(source: str) -> list[int]:
    """The lines that use what calls select(2)."""
    if "select" not in source:  # every name of _BY_SELECT has it, and so has its import
        return []
    return [use.line for use in uses(ast.parse(source)) if use.full in _BY_SELECT]


@pytest.mark.parametrize(
    "mutant",
    [
        "import select\nselect.select([0], [], [], 1)",
        "import select as s\ns.select([0], [], [])",
        "from select import select\nselect([0], [], [])",
        "import select\nwait = select.select",
        "import selectors\nselectors.SelectSelector()",
    ],
)
def test_a_wait_by_select_is_noticed(mutant: str) -> None:
    assert waits_by_select(mutant) == [2]


@pytest.mark.parametrize("folder", ["nftop", "tests"])
def test_nothing_waits_by_select(folder: str) -> None:
    result = {
        path.relative_to(PACKAGE.parent).as_posix(): lines
        for path in (PACKAGE.parent / folder).rglob("*.py")
        if (lines := waits_by_select(path.read_text()))
    }
    assert result == {}


READER = "sources/host/cpu_time.py"


@pytest.mark.parametrize(
    ("module", "mutant"),
    [
        # Files, by open.
        (READER, "open('/x', 'w')"),
        (READER, "open('/x', mode='r+')"),
        (READER, "open('/x', mode)"),
        (READER, "open(*arguments)"),
        (READER, "open('/x', **options)"),
        (READER, "open('/x', opener=opener)"),
        (READER, "opener = open"),
        (READER, "path.open('ab')"),
        (READER, "opener = path.open"),
        (READER, "getattr(path, 'open')('w')"),
        (READER, "from pathlib import Path\nPath.open(p, 'w')"),
        (READER, "from nftop.sources.x import FILE\nFILE.open('w')"),
        (READER, "import io\nio.open('/x', 'w')"),
        (READER, "from io import open\nopen('/x')"),
        (READER, "import os\nos.open('/x', os.O_RDWR)"),
        (READER, "import os\nos.open('/x', os.O_WRONLY)"),
        (READER, "import os\nos.open(p, os.O_RDONLY | os.O_CREAT | os.O_TRUNC)"),
        (READER, "import os\nos.open(p, os.O_RDONLY | 512)"),
        (READER, "import os\nos.open(p, 577)"),
        (READER, "import os\nos.open(p, flags)"),
        (READER, "import os\nos.open(p, flags=os.O_RDONLY)"),
        (READER, "import os\nos.open(*arguments)"),
        (READER, "import os\no = os.open\no(p, 577)"),
        (READER, "from os import open as o\no(p, 577)"),
        (READER, "from os import open\nopen(p, 577)"),
        (READER, "import os as o\no.open(p, 577)"),
        ("cli/main.py", "import os\nos.open('/x', os.O_WRONLY)"),
        # Files, by os and pathlib.
        (READER, "import os\nos.replace(a, b)"),
        (READER, "import os\nos.write(handle, b'x')"),
        (READER, "import os\nos.truncate(p, 0)"),
        (READER, "import os\nremove = os.remove"),
        (READER, "import os\ngetattr(os, 'unlink')(p)"),
        (READER, "import os\ngetattr(os, name)(p)"),
        (READER, "import os\nvars(os)['unlink'](p)"),
        (READER, "import os\nos.__dict__['unlink'](p)"),
        (READER, "import os\nhost = os\nhost.unlink(p)"),
        (READER, "import os\nmap(os.unlink, paths)"),
        (READER, "import os\nos.path.os.unlink(p)"),
        (READER, "import contextlib\ncontextlib.os.unlink(p)"),
        (READER, "from contextlib import os\nos.unlink(p)"),
        (READER, "from nftop.sources.host.sysfs import os"),
        (READER, "import posix"),
        (READER, "import sys\nsys.modules['os'].unlink(p)"),
        (READER, "from os import *"),
        (READER, "from os import unlink"),
        (READER, "path.write_text('x')"),
        (READER, "write = path.write_text"),
        (READER, "from nftop.sources.x import FILE\nFILE.unlink()"),
        (READER, "path.replace(target)"),
        (READER, "path.replace(target=other)"),
        (READER, "path.replace(*arguments)"),
        (READER, "move = path.replace"),
        (READER, "from pathlib import Path\nPath.replace(a, b)"),
        (READER, "from pathlib import Path as P\nP('x').parent.rmdir()"),
        (READER, "import pathlib\npathlib.Path(x).touch()"),
        (READER, "import pathlib\ntouch = pathlib.Path(x).touch"),
        (READER, "getattr(path, 'unlink')()"),
        (READER, "getattr(path, name)()"),
        (READER, "get = getattr"),
        ("cli/commands/report.py", "from pathlib import Path\nPath('x').unlink()"),
        (READER, "import shutil"),
        (READER, "import tempfile"),
        (READER, "import numpy as np\nnp.save('/x', values)"),
        (READER, "from numpy import save\nsave('/x', values)"),
        (READER, "values.tofile('/x')"),
        # Processes, and the kernel.
        (READER, "import subprocess"),
        (READER, "from asyncio import subprocess"),
        (READER, "import multiprocessing.pool"),
        (READER, "from concurrent.futures import ProcessPoolExecutor"),
        (READER, "from os import system"),
        (READER, "import os\nos.posix_spawn(a, b, c)"),
        (READER, "import os\nos.kill(1, 9)"),
        (READER, "process.kill()"),
        (READER, "import os\nos.sched_setaffinity(0, {1})"),
        (READER, "import os\nos.sched_setscheduler(0, 1, p)"),
        (READER, "import resource\nresource.setrlimit(1, (1, 1))"),
        (READER, "import fcntl"),
        (READER, "import time\ntime.clock_settime(0, 0)"),
        (READER, "import socket"),
        (READER, "__import__('os').unlink(p)"),
        (READER, "import importlib\nimportlib.import_module('os')"),
        (READER, "exec('x')"),
        ("ui/app.py", "import signal\nsignal.pthread_kill(1, 9)"),
        ("ui/app.py", "loop.subprocess_shell(protocol, 'x')"),
        ("ui/app.py", "import textual\nself.save_screenshot()"),
        ("sources/runtime/self_usage.py", "import os\nos.setpriority(0, 0, 1)"),
        ("sources/perf/abi.py", "import fcntl\nfcntl.fcntl(handle, 4, 1)"),
        ("sources/dpdk/client.py", "import ctypes"),
        ("sources/dpdk/client.py", "import socket\nsocket.socket(socket.AF_INET)"),
        ("sources/nf_session/connection.py", "import socket\nsocket.socket(socket.AF_INET)"),
        ("sources/dpdk/client.py", "connected.bind(path)"),
        ("sources/runtime/http_client.py", "import socket\nsocket.create_server(('', 80))"),
        ("sources/runtime/http_client.py", "from urllib.request import urlopen\nurlopen(url)"),
        ("sources/pcm/source.py", "from http.client import HTTPConnection"),
        ("session/live.py", "import os\nos.sched_setaffinity(0, {1})"),
        ("export/http/request.py", "import socket"),
        ("export/http/server.py", "import socket\nsocket.create_server(('', 80))"),
        ("export/http/server.py", "import socket\nsocket.create_connection(('x', 80))"),
        ("export/http/server.py", "open('/etc/shadow')\nimport os"),
        ("export/http/request.py", "from http.server import HTTPServer"),
        # What changes classes: each writes one thing only.
        ("control/resctrl/plan.py", "path.mkdir()"),
        ("control/transaction.py", "import os\nos.write(handle, b'x')"),
        ("control/guard_process.py", "path.unlink()"),
        ("control/gate.py", "import os\nos.open(p, os.O_WRONLY)"),
        ("control/resctrl/writer.py", "import subprocess"),
        ("control/resctrl/writer.py", "path.unlink()"),
        ("control/journal.py", "path.rmdir()"),
        ("cli/commands/cat.py", "import subprocess"),
        ("cli/commands/cat.py", "path.write_text('x')"),
        # Layers that read nothing.
        ("ui/app.py", "open('/proc/stat')"),
        ("ui/app.py", "path.open()"),
        ("ui/app.py", "import socket"),
        ("render/cores/table.py", "from pathlib import Path"),
        ("render/cores/table.py", "from rich import console"),
        ("derive/fold.py", "path.read_text()"),
        ("model/frame.py", "import os"),
    ],
)
def test_the_guard_catches(module: str, mutant: str) -> None:
    assert guard(module).offences(mutant)


@pytest.mark.parametrize(
    ("module", "harmless"),
    [
        (READER, "open('/proc/stat', 'rb')"),
        (READER, "path.open()"),
        (READER, "import os\nos.open('/x', os.O_RDONLY | os.O_CLOEXEC)"),
        (READER, "import os\nos.open('x', os.O_PATH | os.O_CLOEXEC, dir_fd=folder)"),
        (READER, "from os import strerror as why\nwhy(2)"),
        (READER, "import os\nos.path.split(os.environ.get('X', ''))"),
        (READER, "from pathlib import Path\n(Path('/') / 'x').read_text().replace('a', 'b')"),
        ("export/output.py", "import os\nos.dup2(os.open(os.devnull, os.O_WRONLY), 1)"),
        ("sources/nf_session/connection.py", "import socket\nsocket.socket(socket.AF_UNIX)"),
        ("sources/dpdk/client.py", "self._socket.send(b'', socket.MSG_NOSIGNAL)"),
        ("session/live.py", "from dataclasses import replace\nreplace(a, b=1)"),
        ("session/live.py", "moment.replace(tzinfo=zone)"),
        ("ui/screens/cores.py", "widget.remove()\napp.run()\nrun(x)\ntruncate('x', 3)"),
        (
            "render/cores/table.py",
            "from nftop.render.base import text as safe\nsafe.truncate('x', 3)",
        ),
        ("derive/fold.py", "getattr(row, 'gaps')"),
    ],
)
def test_the_guard_lets_pass(module: str, harmless: str) -> None:
    assert guard(module).offences(harmless) == []
