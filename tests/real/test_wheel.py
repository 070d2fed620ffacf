"""The wheel, installed into a clean environment and run from another folder; units and scripts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from email.parser import Parser
from pathlib import Path

import pytest

from nftop import __version__
from nftop.cli.main import build_parser
from tests.house import ROOT

pytestmark = pytest.mark.real
PATIENCE_S = 300.0
UNITS = sorted((ROOT / "packaging/systemd").glob("*.service"))


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Standard output of a command that succeeds."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env={name: os.environ[name] for name in os.environ if not name.startswith("PYTHON")},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def sources(folder: Path) -> Path:
    """A copy of the sources: no other build is in it."""
    for name in ("nftop", "packaging"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Environment with the wheel."""
    source, clean = sources(tmp_path_factory.mktemp("source")), tmp_path_factory.mktemp("clean")
    venv.create(clean, with_pip=False)
    # As `make wheel`.
    run("packaging/share.sh", Path(sys.executable).parent / "nftop", "build/share", cwd=source)
    # The environment has no pip of its own, and what is imported is compiled when it is.
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*pip, "wheel", "--no-deps", "--wheel-dir", source / "dist", source)
    # Root's build in the operator's folder leaves nothing there.
    assert [path.name for path in (source / "build").iterdir()] == ["share"]
    (wheel,) = (source / "dist").glob("*.whl")
    run(*pip, "--python", clean / "bin/python", "install", "--no-compile", wheel)
    shutil.rmtree(source)
    return clean


def test_its_bill_of_materials_has_every_dependency_of_its_metadata(installed: Path) -> None:
    """CycloneDX in `.dist-info/sboms` (PEP 770), and in RECORD."""
    (info,) = installed.glob("lib/python*/site-packages/nftop-*.dist-info")
    bill = json.loads((info / "sboms/nftop.cdx.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    component = bill["metadata"]["component"]
    assert (component["name"], component["version"]) == ("nftop", __version__)
    assert component["licenses"] == [{"license": {"id": "Apache-2.0"}}]
    metadata = Parser().parsestr((info / "METADATA").read_text())
    required = {text for text in metadata.get_all("Requires-Dist") or () if "extra ==" not in text}
    assert len(required) == 6
    rows = {
        row["name"]: {item["name"]: item["value"] for item in row["properties"]} | row
        for row in bill["components"]
    }
    assert {row["nftop:requirement"] for row in rows.values() if row["scope"] == "required"} == (
        required
    )
    optional = {
        name: row["nftop:extra"] for name, row in rows.items() if row["scope"] == "optional"
    }
    assert optional == {"pyarrow": "parquet", "pqos": "pqos", "vpp-papi": "vpp"}
    assert bill["dependencies"] == [
        {"ref": component["bom-ref"], "dependsOn": [row["bom-ref"] for row in bill["components"]]}
    ]
    assert "sboms/nftop.cdx.json" in (info / "RECORD").read_text()


def test_pages_of_another_version_are_not_put_into_it(tmp_path: Path) -> None:
    page = sources(tmp_path) / "build/share/man/man1/nftop.1"
    page.parent.mkdir(parents=True)
    page.write_text('.TH NFTOP 1 "" "nftop 0.0.1" "nftop"\n')
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", "dist", "."]
    done = subprocess.run(build, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "another version" in done.stdout + done.stderr
    assert not list(tmp_path.glob("dist/*.whl"))


def test_it_runs_from_another_folder(installed: Path, tmp_path: Path) -> None:
    nftop = installed / "bin/nftop"
    assert run(nftop, "--version", cwd=tmp_path) == f"nftop {__version__}\n"
    assert "SIMULATED" in run(nftop, "demo", "--batch", "-n", "2", cwd=tmp_path)
    run(nftop, "demo", "record", "-o", "a.nftop", "--duration", "1s", cwd=tmp_path)
    assert run(nftop, "replay", "a.nftop", "--batch", "-n", "1", cwd=tmp_path)
    assert "of SPR" in run(nftop, "explain", "tma.retiring", "--uarch", "SPR", cwd=tmp_path)
    assert run(nftop, "explain", "--references", cwd=tmp_path)
    files = run(installed / "bin/python", "-c", "import nftop; print(nftop.__file__)", cwd=tmp_path)
    assert Path(files.strip()).is_relative_to(installed)


def test_it_has_manual_pages_and_completions(installed: Path) -> None:
    pages = {path.name for path in (installed / "share/man/man1").iterdir()}
    assert {"nftop.1", "nftop-cat.1", "nftop-record.1"} <= pages
    assert (installed / "share/bash-completion/completions/nftop").is_file()
    assert (installed / "share/zsh/site-functions/_nftop").is_file()
    assert (installed / "share/fish/vendor_completions.d/nftop.fish").is_file()


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_a_unit_is_valid_and_hardened(unit: Path, installed: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    copy = tmp_path / unit.name
    # The program where it is here; the manual page is not in man's path.
    text = unit.read_text().replace("/usr/bin/nftop", str(installed / "bin/nftop"))
    copy.write_text("\n".join(row for row in text.split("\n") if "Documentation=" not in row))
    done = subprocess.run(
        ["systemd-analyze", "verify", copy], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and unit.name not in done.stderr, done.stderr
    # 0 (safe) to 100: what needs counters of all processes is not below 25.
    run("systemd-analyze", "security", "--offline=true", "--threshold=35", copy)


def test_a_unit_calls_a_command_that_parses() -> None:
    for unit in UNITS:
        text = unit.read_text().replace("\\\n", " ")
        (start,) = (line for line in text.splitlines() if line.startswith("ExecStart="))
        program, *arguments = start.removeprefix("ExecStart=").split()
        assert program == "/usr/bin/nftop"
        assert build_parser().parse_args(arguments).command in ("serve", "record")
