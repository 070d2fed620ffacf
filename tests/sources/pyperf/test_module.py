"""Finding the distribution's module, and what keeps it from being used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nftop.model.missing import Reason
from nftop.sources.perf.problems import CounterProblem
from nftop.sources.pyperf.module import SUFFIX, lacking, load_module, silenced
from tests.shell import assert_command, run_as_root

DEBIAN = "usr/lib/python3/dist-packages"
ME = os.getuid()


def put(root: Path, name: str, folder: str = DEBIAN) -> Path:
    path = root / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"not an object file")
    for parent in (path, *path.parents):
        if parent.is_relative_to(root):
            parent.chmod(0o755)
    return path


def refused(root: Path, **options: Any) -> CounterProblem:
    result = load_module(root, owner=options.pop("owner", ME), **options)
    assert isinstance(result, CounterProblem), result
    return result


def test_a_host_without_it(tmp_path: Path) -> None:
    problem = refused(tmp_path)
    assert problem.reason is Reason.SOURCE
    assert "is not installed" in problem.sentence
    assert "6.18" in problem.sentence


def test_one_for_another_python_is_named_and_not_loaded(tmp_path: Path) -> None:
    path = put(tmp_path, "perf.cpython-399-x86_64-linux-gnu.so")
    problem = refused(tmp_path)
    assert str(path) in problem.sentence
    assert "another Python" in problem.sentence


@pytest.mark.parametrize("folder", [DEBIAN, "usr/lib64/python{}/site-packages"])
def test_what_can_t_be_loaded_reports_it(tmp_path: Path, folder: str) -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    path = put(tmp_path, f"perf{SUFFIX}", folder.format(version))
    problem = refused(tmp_path)
    assert problem.reason is Reason.ERROR
    assert f"{path} can't be loaded: " in problem.sentence


@pytest.mark.parametrize("at", [f"{DEBIAN}/perf{SUFFIX}", DEBIAN, "usr"])
@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_what_others_may_write_is_not_loaded(tmp_path: Path, at: str, mode: int) -> None:
    put(tmp_path, f"perf{SUFFIX}")
    (tmp_path / at).chmod(mode)
    problem = refused(tmp_path)
    assert problem.reason is Reason.SOURCE
    assert str(tmp_path / at) in problem.sentence
    assert_command(problem.fix)
    assert run_as_root(problem.fix, tmp_path / "bin").returncode == 0
    assert "can't be loaded" in refused(tmp_path, owner=0 if ME == 0 else ME).sentence


def test_a_link_to_where_others_may_write_is_not_followed(tmp_path: Path) -> None:
    elsewhere = put(tmp_path, "perf.so", "tmp")
    elsewhere.parent.chmod(0o777)
    put(tmp_path, "other")
    (tmp_path / DEBIAN / f"perf{SUFFIX}").symlink_to(elsewhere)
    assert "can be written by others" in refused(tmp_path).sentence


def test_what_is_another_user_s_is_not_loaded(tmp_path: Path) -> None:
    put(tmp_path, f"perf{SUFFIX}")
    assert f"belongs to user {ME}" in refused(tmp_path, owner=ME + 1).sentence


def whole() -> SimpleNamespace:
    methods = dict.fromkeys(("open", "close", "enable", "disable", "compute_metric"), print)
    functions = dict.fromkeys(("parse_events", "parse_metrics", "metrics"), print)
    return SimpleNamespace(
        evsel=SimpleNamespace(read=print), evlist=SimpleNamespace(**methods), **functions
    )


def test_a_module_that_can_count() -> None:
    assert lacking(whole()) == ""


@pytest.mark.parametrize(
    ("where", "name", "printed"),
    [
        # Debian 12's, of Linux 6.1, has none of these.
        ("evsel", "read", "perf.evsel.read"),
        ("evlist", "close", "perf.evlist.close"),
        ("evlist", "compute_metric", "perf.evlist.compute_metric"),
        ("", "parse_metrics", "perf.parse_metrics"),
        ("", "evsel", "perf.evsel.read"),
    ],
)
def test_an_old_module_is_reported_by_what_it_lacks(where: str, name: str, printed: str) -> None:
    module = whole()
    delattr(getattr(module, where) if where else module, name)
    assert lacking(module) == printed


def test_nothing_else_of_its_folder_can_be_imported() -> None:
    """With whatever this machine has: a module that counts, an old one, or none."""
    path = list(sys.path)
    load_module()
    assert sys.path == path


def descriptors() -> list[str]:
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


def test_descriptor_2_is_what_it_was_whatever_happens(capfd: pytest.CaptureFixture[str]) -> None:
    before = descriptors()
    with pytest.raises(ValueError, match="x"), silenced():
        os.write(2, b"lost")
        raise ValueError("x")
    os.write(2, b"heard")
    assert capfd.readouterr().err == "heard"
    assert descriptors() == before


def test_where_descriptor_2_is_closed_it_stays_so() -> None:
    code = (
        "import os\nfrom nftop.sources.pyperf.module import silenced\nos.close(2)\n"
        "with silenced():\n    pass\n"
        "try:\n    os.fstat(2)\nexcept OSError as error:\n    print(error.strerror)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "Bad file descriptor\n"
