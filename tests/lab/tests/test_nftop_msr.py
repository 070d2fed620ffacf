"""nftop, pqos and PyPI's pqos on one host whose kernel has no resctrl: they agree."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
import textwrap
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.sim import scenario
from nftop.sim.model import model_of
from tests.command import lines_with
from tests.lab.resctrl.host import host_of
from tests.lab.tests.labs import answer, needs_lab

pytestmark = [
    needs_lab,
    pytest.mark.skipif(
        shutil.which("pqos") is None, reason="no pqos here: apt-get install intel-cmt-cat"
    ),
    pytest.mark.skipif(
        importlib.util.find_spec("pqos") is None,
        reason="PyPI's pqos is missing: pip install 'pqos==4.5.*'",
    ),
]
S = 10**9
CPUS = 16
_CUT = "# ---"
_HELP = f"""
    import json, os, re, signal, struct, subprocess, sys
    from pathlib import Path
    def run(*command):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.stdout
    def nftop(*arguments):
        return run({sys.executable!r}, "-m", "nftop", *arguments)
    def pqos(*arguments):
        return run("pqos", "--iface=msr", *arguments)
    def step(seconds):
        Path("/sys/fs/lab/live/ctl/clock").write_text(f"step {{seconds}}")
    def pairs():
        found = []
        for cpu in range({CPUS}):
            handle = os.open(f"/dev/cpu/{{cpu}}/msr", os.O_RDONLY)
            found.append(struct.unpack("<Q", os.pread(handle, 8, 0xC8F))[0])
            os.close(handle)
        return found
    """


def inside(program: str, *options: str) -> Any:
    script = "\n".join(map(textwrap.dedent, (_HELP, *program.split(_CUT))))
    return answer(script, "--model", "skx-7", "--cpus", str(CPUS), *options)


def test_classes_are_shown_changed_and_taken_back_as_pqos_sees_them() -> None:
    program = """
        before = pqos("-s")
        said = [
            nftop("cat", "set", "--group", "COS2", "--l3", "0=f0", "--mba", "1=35", "--yes"),
            nftop("cat", "move", "--group", "COS2", "--cpus", "1,9", "--yes"),
        ]
        shown, own = pqos("-s"), nftop("cat", "show", "--json")
        said.append(nftop("cat", "reset", "--yes"))
        print(json.dumps([said, before, shown, own, pqos("-s")]))
    """
    printed, before, shown, own, after = inside(program, "--without-resctrl")
    assert "pqos --iface=msr -e 'llc@0:2=0xf0;mba@1:2=40'" in printed[0]
    assert "pqos --iface=msr -a 'llc:2=1,9'" in printed[1]
    assert re.findall(r"COS2 => (.*)", shown) == [
        "MASK 0xf0",
        "100% available",
        "MASK 0x7ff",
        "40% available",
    ]
    assert re.findall(r"Core (\d+), .* => COS2", shown) == ["1", "9"]
    assert '"0f0"' in own
    assert all("kept" in item for item in printed), printed
    assert after == before


def test_monitors_agree_with_the_model_and_are_gone_at_the_end() -> None:
    program = """
        pqos("-a", "llc:2=1,9")
        from nftop.sources.pqos.source import Client
        asked = Client()
        first = asked.ask((15,), meter=True)
        step(10)
        second = asked.ask((15,), read_classes=False, meter=True)
        meanwhile = pairs()
        asked.close()
        rows = [
            [(each.clos, each.cache, dict(each.values), each.why) for each in found[1]]
            for found in (first, second)
        ]
        shown = pqos("-s")
        print(json.dumps([rows, meanwhile, pairs(), shown, first[0].class_of[9]]))
    """
    rows, meanwhile, after, shown, of_nine = inside(program, "--without-resctrl", "--freeze", "60")
    traffic = host_of(model_of(scenario.load("default"), CPUS)).traffic
    moved = (traffic(70 * S) - traffic(60 * S))[:, 0]
    members = {(0, 0): (0, 2, 3, 8, 10, 11), (0, 4): (4, 5, 6, 7, 12, 13, 14), (2, 0): (1, 9)}
    assert [(clos, cache) for clos, cache, _, _ in rows[1]] == sorted(members)
    for (clos, cache, values, why), (_, _, earlier, _) in zip(rows[1], rows[0], strict=True):
        assert why is None
        counted = values["mbm_total_bytes"] - earlier["mbm_total_bytes"]
        expected = sum(moved[cpu] for cpu in members[clos, cache])
        assert counted == pytest.approx(expected, rel=0.02, abs=2 * 65536)
        assert values["llc_occupancy"] > 0
    assert [pair >> 32 for pair in meanwhile] == [2 if cpu in (1, 9) else 0 for cpu in range(CPUS)]
    assert [bool(pair & 0x3FF) for pair in meanwhile] == [True] * 15 + [False]  # 15 is quiet
    assert after == [2 << 32 if cpu in (1, 9) else 0 for cpu in range(CPUS)]
    assert of_nine == 2
    assert re.findall(r"Core (\d+), .* => COS2", shown) == ["1", "9"]


def test_a_monitor_that_can_not_start_leaves_every_association_as_it_was(
    snapshot: SnapshotAssertion,
) -> None:
    """A start without the check of foreign monitors: the library refuses it."""
    program = """
        pqos("-a", "llc:3=2,10")
        meter = ["pqos", "--iface=msr", "-m", "llc:2", "-i", "2", "-u", "csv"]
        with subprocess.Popen(meter, stdout=subprocess.PIPE, text=True, bufsize=1) as other:
            next(line for line in other.stdout if re.match(r"\\d{4}-", line))
            before = pairs()
            from nftop.sources.pqos import worker as monitoring
            from nftop.sources.pqos.library import Library
            library = Library()
            looked = library.read_classes()
            def read():
                own = monitoring.Meters(library)
                rows = {each.clos: each.why for each in own.read(looked) if each.cache == 0}
                own.stop()
                return rows[3], pairs()
            careful = read()
            monitoring._busy = lambda *_: ""
            bold = read()
            other.send_signal(signal.SIGINT)
        print(json.dumps([before, careful, bold]))
    """
    before, careful, bold = inside(program, "--without-resctrl")
    assert [pair >> 32 for pair in before] == [3 if cpu in (2, 10) else 0 for cpu in range(CPUS)]
    assert before[2] & 0x3FF
    assert careful == [["TAKEN", careful[0][1]], before]
    assert careful[0][1] == snapshot
    assert bold[0][0] == "ERROR"
    assert bold[1] == before


_REFUSED = """
    from nftop.control.pqos import open_pqos
    from nftop.control.backend import AbsentError
    def refused():
        try:
            open_pqos(writing=True)
        except AbsentError as error:
            return str(error)
    """


def test_a_library_of_unknown_version_is_refused_with_the_reason(
    snapshot: SnapshotAssertion,
) -> None:
    program = """
        from tests.lab import syscalls
        copy = Path("/sys/fs/lab/files/libpqos.so.4")
        copy.write_bytes(Path("/usr/lib/libpqos.so.4").read_bytes())
        before = pairs()
        syscalls.bind(copy, Path("/usr/lib/libpqos.so.4"), follow=False)
        print(json.dumps([refused(), nftop("cat", "show"), before == pairs()]))
    """
    *printed, same = inside(f"{_REFUSED}{_CUT}{program}", "--without-resctrl")
    for item in printed:
        assert item == snapshot
    assert same


def test_next_to_a_kernel_with_resctrl_it_is_refused(snapshot: SnapshotAssertion) -> None:
    program = """
        print(json.dumps(refused()))
    """
    refused = inside(f"{_REFUSED}{_CUT}{program}", "--no-resctrl")
    assert lines_with(refused, "kernel has") == snapshot
