"""Scripts of packaging and `make install`: what they refuse."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.command import NFTOP, PATIENCE_S
from tests.house import ROOT

PACKAGING = ROOT / "packaging"
CHECKS = sorted(path.name for path in PACKAGING.glob("check-*.sh") if "apt-get" in path.read_text())


def run(*command: str | Path, path: str = "/usr/bin:/bin") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, env={"PATH": path}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", [*CHECKS, "build-deb.sh"])
def test_what_changes_a_system_runs_in_a_debian_of_its_own_only(name: str, tmp_path: Path) -> None:
    assert len(CHECKS) == 3
    # Without a program to run, so that it is harmless if it is not refused: that is code 127.
    assert run("/bin/sh", PACKAGING / name, "prepare", path=str(tmp_path)).returncode == 2


@pytest.mark.parametrize("target", ["install", "uninstall"])
def test_a_prefix_with_a_space_is_refused_and_nothing_is_removed(
    target: str, tmp_path: Path
) -> None:
    prefix, other = tmp_path / "a b", tmp_path / "a"
    prefix.mkdir()
    other.mkdir()
    (prefix / ".nftop-installed").touch()
    (other / "kept").touch()
    folders = [f"{name}={tmp_path}/x" for name in ("BINDIR", "SHAREDIR")]
    assert run("make", target, f"PREFIX={prefix}", *folders, "PYTHON=false").returncode == 2
    assert {path.name for path in tmp_path.rglob("*")} == {"a b", "a", ".nftop-installed", "kept"}


def test_a_list_of_manual_pages_that_fails_ends_share(tmp_path: Path) -> None:
    program = tmp_path / "nftop"
    program.write_text('#!/bin/sh\n[ "$*" != "man --list" ] || exit 7\n')
    program.chmod(0o755)
    assert run(PACKAGING / "share.sh", program, tmp_path / "share").returncode == 7


def stub(folder: Path, name: str, program: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{program}\n")
    (folder / name).chmod(0o755)


def test_an_ubuntu_release_without_a_script_uses_that_of_gutsy(
    tmp_path: Path,
) -> None:
    programs, scripts, systems = (tmp_path / name for name in ("bin", "scripts", "systems"))
    for folder in (programs, scripts, systems):
        folder.mkdir()
    stub(programs, "id", "echo 0")
    stub(programs, "debootstrap", f'printf "%s\\n" "$@" > {tmp_path}/given; exit 1')
    (scripts / "gutsy").write_text("default_mirror http://archive.ubuntu.com/ubuntu\n")
    (systems / "ubuntu-archive-keyring.gpg").touch()
    done = subprocess.run(
        [PACKAGING / "debian.sh", "noble", systems, tmp_path / "out", "check-deb.sh"],
        env={"PATH": f"{programs}:/usr/bin:/bin", "DEBOOTSTRAP_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    given = (tmp_path / "given").read_text().splitlines()
    assert given[-4:] == ["noble", f"{systems}/noble.new", "", str(scripts / "gutsy")]
    assert "--components=main,universe" in given


def test_a_package_has_the_versions_that_the_tests_ran_with(tmp_path: Path) -> None:
    """Called from another folder, by paths relative to that."""
    stub(tmp_path, "pip", f'printf "%s\\n" "$@" > {tmp_path}/given; exit 9')
    done = subprocess.run(
        [PACKAGING / "deb.sh", "nftop-1-py3-none-any.whl", "versions.txt", tmp_path / "out"],
        env={"PATH": "/usr/bin:/bin", "PIP": str(tmp_path / "pip")},
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 9
    given = (tmp_path / "given").read_text().splitlines()
    assert given[given.index("--constraint") + 1 :] == [
        str(tmp_path / "versions.txt"),
        f"{tmp_path}/nftop-1-py3-none-any.whl[vpp]",
    ]
    makefile, container = (
        path.read_text() for path in (ROOT / "Makefile", PACKAGING / "Containerfile")
    )
    # Whole, or none.
    (recipe,) = (line for line in makefile.splitlines() if "locked.py > dist/" in line)
    assert recipe.endswith(
        "packaging/locked.py > dist/constraints.new && mv dist/constraints.new dist/constraints.txt"
    )
    assert "--constraint ,$(wildcard dist/constraints.txt)" in makefile
    assert "--constraint /tmp/constraints.txt" in container


def test_the_container_has_what_the_units_have() -> None:
    """Sockets are reached by /proc/PID/root: a mount of their folders fails where one lacks."""
    text = (PACKAGING / "Containerfile").read_text()
    added = {f"CAP_{name}" for name in re.findall(r"--cap-add=(\w+)", text)}
    units = [path.read_text() for path in (PACKAGING / "systemd").glob("*.service")]
    bounds = [
        set(line[1].split())
        for unit in units
        if (line := re.search(r"(?m)^CapabilityBoundingSet=(.*)$", unit))
    ]
    assert bounds == [added, added] and len(added) == 4
    (limit,) = {line for unit in units for line in re.findall(r"(?m)^LimitNOFILE=(\d+)$", unit)}
    shared = {f"--{name}=host" for name in ("pid", "network", "uts", "cgroupns")}
    assert {*shared, "--cap-drop=all", f"nofile={limit}:{limit}"} <= set(text.split())
    mounts = dict(re.findall(r"-v (\S+?):(\S+)", text))
    assert mounts.keys() == {"/sys/fs/resctrl", "/var/lib/nftop-recordings"}
    assert mounts["/sys/fs/resctrl"].endswith(":ro")


def test_a_unit_is_not_restarted_after_a_wrong_configuration(tmp_path: Path) -> None:
    (tmp_path / "nftop").mkdir()
    (tmp_path / "nftop/config.toml").write_text('interval_s = "x"\n')
    code = subprocess.run(
        [*NFTOP, "serve"],
        env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path)},
        capture_output=True,
        check=False,
        timeout=PATIENCE_S,
    ).returncode
    units = [path.read_text() for path in (PACKAGING / "systemd").glob("*.service")]
    codes = [re.findall(r"(?m)^RestartPreventExitStatus=(\d+)$", unit) for unit in units]
    assert codes == [[str(code)], [str(code)]]


def test_a_purge_removes_the_links_of_enabled_units(tmp_path: Path) -> None:
    """With Debian's own helper, in a file system of its own."""
    helper = Path("/usr/bin/deb-systemd-helper")
    if not helper.exists():
        pytest.skip("needs Debian's init-system-helpers")
    programs, root = tmp_path / "bin", tmp_path / "root"
    units = root / "usr/lib/systemd/system"
    links = root / "etc/systemd/system/multi-user.target.wants"
    (root / "lib").parent.mkdir()
    (root / "lib").symlink_to("usr/lib")
    for folder in (programs, units, links):
        folder.mkdir(parents=True)
    for name in ("systemctl", "deb-systemd-invoke"):
        stub(programs, name, "exit 0")
    own = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "DPKG_ROOT": str(root),
        "DPKG_MAINTSCRIPT_PACKAGE": "nftop",
    }
    done = [shutil.copy(path, units) for path in (PACKAGING / "systemd").glob("*.service")]
    names = [Path(path).name for path in done]
    assert len(names) == 2
    subprocess.run([PACKAGING / "debian/postinst", "configure", ""], env=own, check=True)
    for name in names:
        (links / name).symlink_to(f"/lib/systemd/system/{name}")
    subprocess.run([helper, "purge", *names], env=own, check=True, capture_output=True)
    assert [path.name for path in root.rglob("*nftop*") if path.parent != units] == []


def test_no_folder_that_root_runs_programs_of_is_where_everybody_may_write() -> None:
    defaults = dict(re.findall(r"(?m)^(\w+) \?= (\S+)", (ROOT / "Makefile").read_text()))
    assert {"NEWER", "NEWER_OVS", "SID"} <= defaults.keys()
    assert not [name for name, text in defaults.items() if re.match(r"/(var/)?tmp\b", text)]
