"""Layers are import-linter's business; who may touch the host is checked here.

The guard reads the syntax tree, so it sees what import contracts cannot: a file opened for
writing, a process spawned, an affinity set. It is tested itself, on mutants.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "nftop"

# Calls that change the host, its files or its processes, by their last name.
WRITES = frozenset(
    "write_text write_bytes mkdir makedirs unlink remove rename rmdir rmtree symlink symlink_to "
    "link touch chmod chown ftruncate pwrite pwritev writev mkfifo mknod mount umount "
    "system popen Popen run check_output check_call execv execve execvp fork forkpty posix_spawn "
    "spawnv kill killpg sched_setaffinity cpu_affinity setpriority nice setrlimit prlimit "
    "sethostname setns unshare ioctl CDLL syscall putenv setuid setgid send_signal "
    "terminate".split()
)
# Imports that only make sense for that.
IMPORTS = frozenset("subprocess shutil tempfile pty ctypes multiprocessing fcntl".split())
# What a module may use all the same, and why.
ALLOWED = {
    "sources/perf/abi.py": {"ctypes", "CDLL", "ioctl", "fcntl", "syscall", "setrlimit"},
    "sources/own.py": {"sched_setaffinity"},  # of this process only
    "cli.py": {"run"},  # its own function's name
    "commands.py": {"run"},  # the application's
    "ui/screens/cores.py": {"remove"},  # a widget from the screen
    "ui/widgets/prompt.py": {"remove"},
    "__main__.py": {"run"},
}
# Layers that read nothing either.
PURE = ("model", "derive", "render", "ui")
READS = frozenset(
    "open read_text read_bytes iterdir glob rglob listdir scandir socket connect".split()
)
PURE_IMPORTS = frozenset({"socket", "os", "pathlib", "io", "urllib", "http", "psutil"})


def names_used(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every called name and imported module that the tables above could mean."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name.split(".")[0], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split(".")[0], node.lineno
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                yield node.func.id, node.lineno
            elif isinstance(node.func, ast.Attribute):
                yield node.func.attr, node.lineno


def opens_for_writing(tree: ast.AST) -> Iterator[int]:
    """Lines that open a file in a mode that could change it, or in one that can't be seen."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name != "open":
            continue
        if isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") == "os":
            flags = set(re.findall(r"O_\w+|devnull", ast.unparse(node)))
            if not flags & {"O_RDONLY", "O_PATH", "devnull"}:
                yield node.lineno
            continue
        position = 0 if isinstance(node.func, ast.Attribute) else 1
        modes = list(node.args[position : position + 1])
        modes += [keyword.value for keyword in node.keywords if keyword.arg == "mode"]
        for mode in modes:
            if not isinstance(mode, ast.Constant) or set(str(mode.value)) - set("rbt"):
                yield node.lineno


def offences(source: str, module: str) -> list[str]:
    """What the module at `module` (a path below the package) may not do, as `line: name`."""
    tree = ast.parse(source)
    forbidden = WRITES | IMPORTS
    if module.split("/")[0] in PURE:
        forbidden |= READS | PURE_IMPORTS
    forbidden -= ALLOWED.get(module, set())
    found = [f"{line}: {name}" for name, line in names_used(tree) if name in forbidden]
    return found + [f"{line}: opens for writing" for line in opens_for_writing(tree)]


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_no_module_touches_the_host_unless_it_may(path: Path) -> None:
    assert offences(path.read_text(), path.relative_to(PACKAGE).as_posix()) == []


@pytest.mark.parametrize(
    ("module", "mutant"),
    [
        ("sources/kernel.py", "open('/x', 'w')"),
        ("sources/kernel.py", "open('/x', mode='r+')"),
        ("sources/kernel.py", "path.open('ab')"),
        ("sources/kernel.py", "open('/x', mode)"),
        ("sources/kernel.py", "os.open('/x', os.O_RDWR)"),
        ("sources/kernel.py", "path.write_text('x')"),
        ("sources/kernel.py", "import subprocess"),
        ("sources/kernel.py", "from os import system"),
        ("sources/dpdk/client.py", "import ctypes"),
        ("session/live.py", "os.sched_setaffinity(0, {1})"),
        ("session/live.py", "os.kill(1, 9)"),
        ("commands.py", "Path('x').unlink()"),
        ("ui/app.py", "open('/proc/stat')"),
        ("ui/app.py", "import socket"),
        ("render/table.py", "from pathlib import Path"),
        ("derive/step.py", "path.read_text()"),
        ("model/frame.py", "import os"),
    ],
)
def test_the_guard_catches(module: str, mutant: str) -> None:
    assert offences(mutant, module)


@pytest.mark.parametrize(
    ("module", "harmless"),
    [
        ("sources/kernel.py", "open('/proc/stat', 'rb')"),
        ("sources/kernel.py", "path.open()"),
        ("sources/kernel.py", "os.open('/x', os.O_RDONLY | os.O_CLOEXEC)"),
        ("sources/dpdk/client.py", "import socket"),
    ],
)
def test_the_guard_lets_pass(module: str, harmless: str) -> None:
    assert offences(harmless, module) == []


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["doctor", "--help"]])
def test_help_imports_neither_textual_nor_numpy(arguments: list[str]) -> None:
    code = (
        "import sys\n"
        "from nftop.__main__ import main\n"
        f"sys.argv = ['nftop', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(sorted({'textual', 'numpy', 'rich', 'psutil', 'msgspec'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "[]"
