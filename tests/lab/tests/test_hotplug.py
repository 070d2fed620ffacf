"""CPUs that go offline and come back while nftop records, and while a change waits to be kept."""

from __future__ import annotations

import itertools
import json
import re
import sys
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.command import called
from tests.lab.tests.labs import enter, needs_lab
from tests.lab.tests.test_changes import BOTH, inside
from tests.recordings import everything, ticks_of

pytestmark = needs_lab
_CHANGE = """
        CREATE = ["cat", "create", "--group", "nftop.a", "--cpus", "3,5", "--l3", "0=3"]
        before, switch = tree(), Path("/sys/devices/system/cpu/cpu3/online")

        def pending():
            asked = Asked(*CREATE)
            asked.until("apply?")
            asked.say("y\\n")
            asked.until("keep?")
            switch.write_text("0")
            return asked

        def cpus(group):
            return TOP.joinpath(group, "cpus_list").read_text().strip()
"""


@BOTH
@pytest.mark.parametrize("end", ["n", "hangup", "guard"])
def test_a_pending_change_of_a_cpu_that_went_offline_is_taken_back(
    kernel: str, end: str, snapshot: SnapshotAssertion
) -> None:
    """Answered with no, with nftop killed, and with its guard killed and the change recovered."""
    program = f"""{_CHANGE}
        asked = pending()
        end = {end!r}
        if end == "n":
            asked.say("n\\n")
        elif end == "hangup":
            asked.kill(signal.SIGKILL)
        else:
            os.kill(guards()[0], signal.SIGKILL)
        code = asked.code()
        wait(lambda: not guards())
        recovered = nftop("recover", "--yes") if end == "guard" else None
        group = TOP.joinpath("nftop.a").exists()
        other = cpus("vpp")
        switch.write_text("1")
        back = cpus("vpp")
        undone = nftop("undo", "--yes")
        again = nftop("undo", "--yes")
        print(json.dumps([code, recovered, group, other, back, undone, tree() == before, again]))
    """
    code, recovered, group, other, back, undone, as_before, again = inside(kernel, program)
    assert code == (-9 if end == "hangup" else 5)
    assert recovered is None or (recovered[0] == 5 and "CPU 3: offline" in recovered[1])
    assert not group
    # What is there was taken back at once, and CPU 3 once it is online again.
    assert (other, back) == ("1-2", "1-2")
    assert (undone[0], as_before) == (0, True)
    assert again[0] == 0
    assert again[1] == snapshot


@BOTH
def test_a_pending_change_of_a_cpu_that_went_offline_can_be_kept(
    kernel: str, snapshot: SnapshotAssertion
) -> None:
    program = f"""{_CHANGE}
        asked = pending()
        asked.say("y\\n")
        code = asked.code()
        kept = [cpus("nftop.a"), TOP.joinpath("nftop.a/schemata").read_text()]
        switch.write_text("1")
        undone = nftop("undo", "--yes")
        put("1-3", "vpp/cpus_list")
        put("2", "vpp/mon_groups/m/cpus_list")
        print(json.dumps([code, asked.text, kept, undone, tree() == before]))
    """
    code, text, (cpus, schemata), undone, as_before = inside(kernel, program)
    assert code == 5
    assert text == snapshot
    assert cpus == "5" and re.search(r"L3:0=0*3;", schemata)
    # The kernel has put CPU 3 into the root group, where neither side of the change has it.
    assert undone[0] == 5
    assert undone[1] == snapshot
    # All but that CPU is as before.
    assert as_before


_RECORD = """
import os, signal, subprocess, sys, time
from pathlib import Path
path = sys.argv[1]
with subprocess.Popen([sys.executable, "-m", "nftop", "record", "-o", path, "-d", "0.1"]) as nftop:
    def grow(count=8):
        end = time.monotonic() + 180
        size, grown = 0, 0
        while grown < count:
            assert time.monotonic() < end and nftop.poll() is None
            now = os.path.getsize(path) if os.path.exists(path) else 0
            grown, size = grown + (now > size), now
            time.sleep(0.05)
    some = (4, 5, 6, 7)
    for cpus, word in (((), "1"), ((3,), "0"), ((3,), "1"), (some, "0"), (some, "1")):
        for cpu in cpus:
            Path(f"/sys/devices/system/cpu/cpu{cpu}/online").write_text(word)
        grow()
    nftop.send_signal(signal.SIGINT)
"""


def test_a_recording_goes_on_while_cpus_come_and_go(tmp_path: Path) -> None:
    path = tmp_path / "hotplug.nftop"
    lab = ("--model", "icx", "--cpus", "8")
    done = enter(*lab, "--", sys.executable, "-c", _RECORD, str(path))
    assert done.returncode == 0, done.stderr
    items, ended, rest = everything(path)
    numbers = [item.number for item in ticks_of(items)]
    assert numbers == list(range(len(numbers))) and ended and rest is None
    replay = called("replay", str(path), "--batch", "--json")
    frames = [json.loads(line) for line in replay.stdout.splitlines()]
    assert (replay.returncode, len(frames)) == (0, len(numbers) - 1)
    seen = [[cpu["cpu"] for cpu in frame["cpus"] if not cpu["online"]] for frame in frames]
    # Four are switched one by one, and a tick may come in between.
    partly = [cpus for cpus in seen if 0 < len(cpus) < 4 and cpus != [3]]
    assert all({*cpus} < {4, 5, 6, 7} for cpus in partly)
    settled = [cpus for cpus in seen if cpus not in partly]
    assert [cpus for cpus, _ in itertools.groupby(settled)] == [[], [3], [], [4, 5, 6, 7], []]
    # Nothing but the CPUs' own rows misses, and one that is back has numbers two ticks later.
    for first, second, frame in zip(frames, frames[1:], frames[2:], strict=False):
        for at, cpu in enumerate(frame["cpus"]):
            if not (cpu["online"] or second["cpus"][at]["online"]):
                assert cpu["ipc"] is None and cpu["missing"]["busy_ratio"] == "undefined"
            elif cpu["online"] and first["cpus"][at]["online"] and second["cpus"][at]["online"]:
                assert cpu["busy_ratio"] is not None and "error" not in cpu["missing"].values()
