"""Every fix of a line of `nftop doctor` is a command: all of them, found in the syntax trees.

Those of the rows of the host's set-up are made of parts and are tested by row, with hosts that need
them (tests/sources/tuning/test_every_row.py).
"""

from __future__ import annotations

import ast
import errno
import importlib
import os
import resource
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from types import ModuleType

import pytest

import nftop
from nftop.sources.perf import abi, problems
from nftop.uarch.table import Encoding
from tests.shell import assert_command, run_as_root

ROOT = Path(nftop.__file__).parent
# By call, which argument is the fix.
CALLS = {"Check": 3, "CounterProblem": 2, "missing_check": 2}
UNKNOWN = "?"
RUN_TIME: list[str] = []  # what another call is made of, or no text of a program


def modules() -> Iterator[tuple[ModuleType, ast.Module]]:
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text()
        if any(f"{name}(" in text for name in CALLS) and "tuning" not in path.parts:
            name = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
            yield importlib.import_module(name.removesuffix(".__init__")), ast.parse(text)


def fixes() -> list[tuple[str, str]]:
    """Each with where it is: module and line."""
    result = []
    for module, tree in modules():
        parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        for call in (item for item in ast.walk(tree) if isinstance(item, ast.Call)):
            at = CALLS.get(getattr(call.func, "id", ""))
            given = [item.value for item in call.keywords if item.arg == "fix"]
            given += call.args[at : at + 1] if at is not None else []
            for node in given:
                scope: ast.AST = node
                while not isinstance(scope, (ast.FunctionDef, ast.Module)):
                    scope = parents[scope]
                where = f"{module.__name__}:{node.lineno}"
                result += [(where, text) for text in texts(node, module, scope, tree) or [UNKNOWN]]
    return result


def texts(node: ast.expr, module: ModuleType, scope: ast.AST, tree: ast.Module) -> list[str]:
    """What an expression may be; in a text, 1 stands for what is known at run time only."""
    if isinstance(node, ast.Constant):
        return [str(node.value)]
    if isinstance(node, ast.FormattedValue):
        return texts(node.value, module, scope, tree) or ["1"]
    if isinstance(node, ast.JoinedStr):
        pieces = [texts(item, module, scope, tree) for item in node.values]
        return ["".join(item) for item in product(*pieces)]
    if isinstance(node, ast.IfExp):
        return texts(node.body, module, scope, tree) + texts(node.orelse, module, scope, tree)
    if isinstance(node, ast.Name):
        local = [
            value
            for item in ast.walk(scope)
            if isinstance(item, ast.Assign)
            for target, value in pairs(item.targets[0], item.value)
            if isinstance(target, ast.Name) and target.id == node.id
        ]
        if not isinstance(scope, ast.Module) and local:
            return [text for value in local for text in texts(value, module, scope, tree)]
        # A parameter is passed on; what is unpacked of the table by errno has a test of its own.
        constant = getattr(module, node.id, None)
        return [constant] if isinstance(constant, str) else RUN_TIME
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        owner = getattr(module, node.value.id, None)
        if isinstance(owner, ModuleType):
            return [str(getattr(owner, node.attr))]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        for item in tree.body:
            if isinstance(item, ast.FunctionDef) and item.name == node.func.id:
                returned = [line.value for line in ast.walk(item) if isinstance(line, ast.Return)]
                given = [texts(value, module, item, tree) for value in returned if value]
                return [text for several in given for text in several]
    return RUN_TIME


def pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple):
        if isinstance(value, ast.Tuple):
            return list(zip(target.elts, value.elts, strict=True))
        return []
    return [(target, value)]


FIXES = fixes()
# What makes fixes at run time, and which test has those.
ELSEWHERE = {
    "nftop.sources.base": "passes one on",
    "nftop.sources.perf.problems": "of a table by errno, below",
    "nftop.sources.perf.source": "a problem's",
    "nftop.sources.pyperf.source": "a problem's",
    "nftop.sources.resctrl.source": "a parameter of the kernel: tests/sources/resctrl",
}


def test_the_syntax_trees_have_the_fixes_of_every_kind_of_source() -> None:
    sources = {where.split(".")[2] for where, text in FIXES if text and ".sources." in where}
    assert sources >= {
        "dpdk",
        "host",
        "nf_session",
        "ovs",
        "pcm",
        "perf",
        "power",
        "pqos",
        "process",
        "pyperf",
        "resctrl",
        "uncore",
        "vpp",
    }
    assert len({text for _, text in FIXES}) >= 18


def test_every_fix_is_seen_by_a_test() -> None:
    unknown = {where.partition(":")[0] for where, text in FIXES if text == UNKNOWN}
    assert unknown == ELSEWHERE.keys()


@pytest.mark.parametrize(
    ("where", "text"), sorted({item for item in FIXES if item[1] not in {"", UNKNOWN}})
)
def test_a_fix_is_a_command(where: str, text: str) -> None:
    assert_command(text)


@pytest.mark.parametrize("code", sorted(problems._BY_ERRNO))
def test_the_fix_of_an_errno_is_a_command(code: int) -> None:
    fix = problems.explain(code).fix
    if code in {errno.EACCES, errno.EPERM, errno.EBUSY, errno.ENOSPC, errno.EMFILE, errno.ENFILE}:
        assert_command(fix)
    else:
        assert not fix, "nothing on this host mends it"


def test_prose_is_no_command() -> None:
    for prose in (
        "start OVS",
        "on a host: sudo modprobe x",
        "sudo dmesg; then fans and air flow",
        "make sure that the cable is plugged in",
        "find the cable",
        "sudo modprobe the module",
        "sudo dmesg  # then reboot",
        "sudo sh -c 'dmesg && reboot'",
        "echo $(reboot)",
        "sudo sysctl a.b=$((2 * $(reboot)))",
        "sudo reboot",
    ):
        with pytest.raises(AssertionError):
            assert_command(prose)


def test_the_command_lists_other_users_of_the_pmu(tmp_path: Path) -> None:
    attr = abi.attribute(Encoding(1, 0), leader=True)  # a clock of this thread
    descriptor = abi.host_kernel(pid=abi.THIS_THREAD).open_event(attr, -1, -1)
    try:
        done = run_as_root(problems.FIND_OTHER, tmp_path)
    finally:
        os.close(descriptor)
    assert f"/proc/{os.getpid()}/fd/{descriptor}" in done.stdout.splitlines()


def test_limits_of_open_files_are_raised_as_printed(tmp_path: Path) -> None:
    own = problems.explain(errno.EMFILE).fix
    done = run_as_root(own, tmp_path, nftop="ulimit -n")
    if done.returncode:  # a container's root may not exceed its hard limit: the rest as printed
        _, most_here = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert most_here < 65536 and "Operation not permitted" in done.stderr
        done = run_as_root(own.replace("65536", "256"), tmp_path, nftop="ulimit -n")
        assert done.stdout == "256\n", done.stderr
    else:
        assert done.stdout == "65536\n"
    whole = problems.explain(errno.ENFILE).fix
    most = int(Path("/proc/sys/fs/file-max").read_text())
    done = run_as_root(whole, tmp_path, sysctl='echo "$1"')
    # As bash computes: the largest number may be there already.
    doubled = (2 * most + 2**63) % 2**64 - 2**63
    assert done.stdout == f"fs.file-max={doubled}\n"
