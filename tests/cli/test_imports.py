"""Packages that each command imports: one row of `ALLOWED` a command. It keeps the start fast."""

from __future__ import annotations

from importlib import import_module

import pytest

from nftop.cli.main import COMMANDS
from tests.command import python

# All that a row has to decide on; what it does not name must not be imported.
DECIDED = frozenset(
    "datetime inspect msgspec numpy pandas psutil pyarrow rich shutil textual tomllib traceback "
    "pathlib ipaddress ctypes nftop.control nftop.derive nftop.render nftop.sim nftop.sources "
    "nftop.ui".split()
)
# What a configuration folder and an answer of the host need; `--help` needs none of it.
_STANDARD = "datetime inspect shutil tomllib traceback pathlib ipaddress ctypes"
_REPORT = (
    f"{_STANDARD} msgspec numpy psutil rich nftop.control nftop.derive nftop.render nftop.sources"
)
_CHANGE = f"{_STANDARD} msgspec rich nftop.control nftop.render nftop.sources"
ALLOWED = {
    "--help": "",
    "--version": "",
    "config": "",
    "doctor --help": "",
    "tma --help": "",
    "cat --help": "",
    "serve --help": "",
    "record --help": "",
    "doctor": _REPORT,
    "explain ipc": _REPORT,
    "tma --uarch skx --events": _REPORT,
    "history": _CHANGE,  # numpy doubles the time until a change is made, or reverted after a crash
    # Neither numpy nor the simulated host's model.
    "demo cat show": "datetime ipaddress msgspec nftop.render nftop.sim pathlib rich tomllib",
    "cat show": "datetime ipaddress msgspec nftop.render nftop.sources pathlib rich",
    "demo --batch -n 1": f"{_REPORT} nftop.sim",
}


@pytest.mark.parametrize("command", ALLOWED)
def test_a_command_imports_only_its_packages(command: str) -> None:
    code = (
        "import os, sys\n"
        "from nftop.__main__ import main\n"
        f"sys.argv = ['nftop', *{command.split()!r}]\n"
        "sys.stdout = open(os.devnull, 'w')\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(*sys.modules, file=sys.__stdout__)\n"
    )
    assert DECIDED.intersection(python(code).stdout.split()) <= set(ALLOWED[command].split())


@pytest.mark.parametrize(
    "run",
    [
        "from nftop.__main__ import main\nsys.argv = ['nftop', 'explain', 'ipc']\nmain()",
        "from nftop.__main__ import main\nsys.argv = 'nftop demo --batch -n 1'.split()\nmain()",
        "import gc, nftop.cli.commands.live as live\ngc.disable()\nlive.prepare_screen()",
    ],
)
def test_garbage_is_collected_except_at_the_start(run: str) -> None:
    code = f"import sys\n{run}\nimport gc\nprint(gc.isenabled())\n"
    assert python(code).stdout.splitlines()[-1] == "True"


def test_the_screen_imports_no_generators_of_random_numbers_of_numpy() -> None:
    code = "import sys, nftop.ui.app\nprint('numpy.random' in sys.modules)\n"
    assert python(code).stdout == "False\n"


def test_the_first_frame_imports_nothing_of_later_pages() -> None:
    code = (
        "import sys, nftop.cli.commands.live, nftop.ui.app\n"
        "from nftop.ui.screens import registry\n"
        "registry.screens()\n"
        "later = {f'nftop.ui.screens.{name}' for name in registry.OPENED}\n"
        "none = {'nftop.ui.key_table', 'nftop.render.editor.rows', 'hashlib', 'ssl', 'numpy.ma'}\n"
        "print(*sorted((later | none) & set(sys.modules)))\n"
        "registry.import_opened()\n"
        "print(*sorted(later - set(sys.modules)))\n"
    )
    assert python(code).stdout == "\n\n"


@pytest.mark.parametrize("module", ["record", "export", "serve"])
def test_commands_without_a_screen_import_no_textual(module: str) -> None:
    code = f"import sys, nftop.cli.commands.{module}\nprint('textual' in sys.modules)\n"
    assert python(code).stdout == "False\n"


def test_without_a_sensor_server_no_parser_of_http_is_imported() -> None:
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from nftop.sources.pcm.source import PcmSource\n"
        "from nftop.sources.runtime.http_client import Address\n"
        "print(PcmSource(Address('127.0.0.1', 1), root=Path('/')).read().reason.name)\n"
        "print(*{'http.client', 'encodings.idna'} & set(sys.modules))\n"
    )
    assert python(code).stdout == "SOURCE\n\n"


def test_what_changes_the_host_starts_without_numpy() -> None:
    code = (
        "import sys\n"
        "import nftop.cli.commands.cat, nftop.control.guard_process\n"
        "print('numpy' in sys.modules)\n"
    )
    assert python(code).stdout == "False\n"


def test_every_command_has_a_function() -> None:
    for name in COMMANDS.values():
        module, _, function = name.rpartition(".")
        assert callable(getattr(import_module(f"nftop.cli.{module}"), function))


def test_the_guard_imports_little() -> None:
    """It starts before each change."""
    code = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "import nftop.control.guard_process\n"
        "new = set(sys.modules) - before\n"
        "print(*sorted({name.split('.')[0] for name in new} - set(sys.stdlib_module_names)))\n"
        "print(*sorted({'.'.join(name.split('.')[:2]) for name in new if 'nftop.' in name}))\n"
        "print(len(new) < 200)\n"
    )
    packages, rooms, few = python(code).stdout.splitlines()
    assert set(packages.split()) <= {"msgspec", "nftop", "typing_extensions"}
    assert rooms == "nftop.control nftop.model nftop.sources"
    assert few == "True"
