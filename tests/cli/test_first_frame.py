"""The first frame: before any import, true, and gone when the screen or a message comes."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from nftop.cli import first_frame
from nftop.sources.host.first_facts import FirstFacts

_HEAVY = ("argparse", "msgspec", "numpy", "rich", "textual", "typing", "re")


def _host(root: Path) -> FirstFacts:
    files = {
        "proc/sys/kernel/hostname": "rack1\n",
        "proc/cpuinfo": "processor\t: 0\nmodel name\t: Xeon\x1b[2J Gold\nmodel name\t: other\n",
        "proc/filesystems": "nodev\tsysfs\nnodev\tresctrl\n",
        "sys/devices/system/cpu/online": "0-2,4\n",
        "sys/devices/system/cpu/isolated": "2\n",
        "run/dpdk/l3fwd/dpdk_telemetry.v2": "",
        "run/dpdk/gone/config": "",
        "run/vpp/stats.sock": "",
        "run/openvswitch/ovs-vswitchd.12.ctl": "",
        "run/openvswitch/ovsdb-server.11.ctl": "",
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return FirstFacts(os.fspath(root))


def test_it_has_what_is_known_without_counting(tmp_path: Path) -> None:
    facts = _host(tmp_path)
    assert (facts.name, facts.cpus, facts.isolated) == ("rack1", "0-2,4", "2")
    assert facts.resctrl is True
    assert facts.nfs == [("dpdk", "l3fwd"), ("vpp", "vpp"), ("ovs", "ovs-vswitchd")]
    lines = first_frame.lines_of(facts, 100, 50)
    text = "\n".join(lines)
    assert "\x1b" not in text and "?[2J" in lines[0]
    assert sum("measuring" in line for line in lines) == 1 + 3 + 4
    assert [line.split()[:2] for line in lines if "isolated" in line] == [["2", "isolated"]]


def test_it_fits_in_the_terminal(tmp_path: Path) -> None:
    facts = _host(tmp_path)
    for width, height in ((100, 50), (20, 5), (1, 1), (0, 0), (-1, -1)):
        lines = first_frame.lines_of(facts, width, height)
        assert len(lines) <= max(0, height)
        assert all(len(line) <= max(0, width) for line in lines)


def test_a_host_that_shows_nothing_is_no_error(tmp_path: Path) -> None:
    facts = FirstFacts(os.fspath(tmp_path))
    assert (facts.name, facts.model, facts.cpus, facts.nfs) == ("", "", "", [])
    assert facts.resctrl is None
    assert "resctrl unknown" in first_frame.lines_of(facts, 100, 50)[1]


@pytest.mark.parametrize(
    ("arguments", "plain"),
    [
        ("", True),
        ("-d 0.5", True),
        ("--utc -d 2 --rw", True),
        ("-d 0.01", False),
        ("-d nan", False),
        ("-d x", False),
        ("--help", False),
        ("demo", False),
        ("-n 1", False),
        ("doctor", False),
        ("-d", False),
    ],
)
def test_only_for_arguments_that_begin_the_screen(
    arguments: str, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    master, slave = pty.openpty()
    with os.fdopen(slave, "w", encoding="utf-8") as out, os.fdopen(os.dup(slave)) as source:
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stdin", source)
        monkeypatch.setattr(out, "write", written.append, raising=False)
        monkeypatch.setenv("TERM", "xterm")
        assert first_frame.is_wanted(arguments.split()) is plain
        if plain:
            first_frame.show(FirstFacts())
        lines = "".join(written).count("\n")
        written.clear()
        first_frame.erase()
        assert written == ([f"\x1b[{lines}A\r\x1b[J"] if plain else [])
        first_frame.erase()
        assert len(written) <= 1
    os.close(master)


def test_nothing_is_imported_for_it() -> None:
    code = (
        "import sys; from nftop.cli import first_frame; "
        "from nftop.sources.host.first_facts import FirstFacts; "
        "first_frame.lines_of(FirstFacts(), 80, 24); "
        f"print([name for name in {_HEAVY!r} if name in sys.modules])"
    )
    command = [sys.executable, "-S", "-I", "-c", f"import sys; sys.path.insert(0, '.'); {code}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
