"""The journal inside: damage, entries without checksums, CPUs that go, resctrl mounted anew."""

from __future__ import annotations

from syrupy.assertion import SnapshotAssertion

from tests.command import wording
from tests.lab.tests.labs import needs_lab
from tests.lab.tests.test_changes import inside

pytestmark = needs_lab
# A change whose guard is killed before it is kept: `cut_off` returns what `pending.json` has.
_CUT_OFF = r"""
        pending = Path("/var/lib/nftop/pending.json")

        def cut_off():
            asked = Asked(*SET)
            asked.until("apply?")
            asked.say("y\n")
            asked.until("keep?")
            [guard] = guards()
            os.kill(guard, signal.SIGKILL)
            asked.code()
            return pending.read_bytes()
"""


def test_a_damaged_change_is_kept_and_blocks_until_it_is_moved_aside() -> None:
    program = f"""{_CUT_OFF}
        before = tree()
        data = cut_off()
        meanwhile, count = tree(), writes()
        at = data.index(b'"fff"') + 1
        for damaged in (data[:at] + b"g" + data[at + 1:], data[:-30], b""):
            pending.write_bytes(damaged)
            recovered = nftop("recover", "--yes")
            refused = nftop(*SET, "--yes")
            found = [recovered[0], refused[0], str(pending) + " of nftop" in recovered[1]]
            found += ["is damaged" in refused[1], f"mv {{pending}}" in recovered[1]]
            found += ["somebody else" in recovered[1], pending.read_bytes() == damaged]
            assert found == [1, 1, True, True, True, False, True], [found, recovered, refused]
        same = [tree() == meanwhile, writes() - count]
        raw = json.loads(data)
        for name in ("format", "verified", "offline", "sha256"):
            del raw[name]
        pending.write_text(json.dumps(raw) + "\\n")
        code, text = nftop("recover", "--yes")
        print(json.dumps([same, code, text, tree() == before, pending.exists()]))
    """
    same, code, text, as_before, is_pending = inside("7.2", program)
    assert same == [True, 0]
    assert code == 0
    assert "unverified: change 1: " in text
    assert (as_before, is_pending) == (True, False)


def test_a_cpu_that_went_offline_is_moved_back_when_it_is_online_again(
    snapshot: SnapshotAssertion,
) -> None:
    program = """
        before, switch = tree(), Path("/sys/devices/system/cpu/cpu3/online")
        code = outcome("cat", "create", "--group", "nftop.a", "--cpus", "3,5", "--yes")
        switch.write_text("0")
        first = nftop("undo", "--yes")
        switch.write_text("1")
        second = nftop("undo", "--yes")
        print(json.dumps([code, first, second, tree() == before, nftop("undo", "--yes")]))
    """
    code, first, second, as_before, third = inside("6.1", program)
    assert code == 0
    assert first[0] == 5
    assert first[1] == snapshot
    assert "somebody else" not in first[1]
    assert second[0] == 0
    assert as_before
    assert third[0] == 0
    assert third[1] == snapshot


def test_what_a_new_mount_has_reset_is_reported_and_nothing_is_written(
    snapshot: SnapshotAssertion,
) -> None:
    program = f"""{_CUT_OFF}
        def mount_anew():
            subprocess.run(["umount", TOP], check=True)
            subprocess.run(["mount", "-t", "resctrl", "resctrl", TOP], check=True)
            TOP.joinpath("vpp").mkdir()

        code = outcome(*SET, "--yes")
        mount_anew()
        count = writes()
        undone = nftop("undo", "--yes")
        written = writes() - count
        cut_off()
        mount_anew()
        count = writes()
        recovered = nftop("recover", "--yes")
        print(json.dumps([code, undone, recovered, written + writes() - count]))
    """
    code, undone, recovered, written = inside("7.2", program)
    assert code == 0
    assert undone[0] == 0
    assert undone[1] == snapshot
    assert recovered[0] == 0
    assert wording(recovered[1]) == snapshot
    assert written == 0
