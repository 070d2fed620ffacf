"""`nftop cat` inside: what it sets others see, and it has a way back whatever happens."""

from __future__ import annotations

import re
import shutil
import textwrap
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.command import wording
from tests.lab.resctrl import profile
from tests.lab.tests.labs import answer, needs_lab

pytestmark = needs_lab
BOTH = pytest.mark.parametrize("kernel", profile.kernels())
needs_pqos = pytest.mark.skipif(
    shutil.which("pqos") is None, reason="no pqos here: apt-get install intel-cmt-cat"
)
# `Asked` is nftop on a terminal of its own, in a session that ends with it.
_HELP = r"""
    import re, signal, subprocess, sys, time
    from pathlib import Path
    from nftop.sources.runtime.readiness import wait_readable
    from tests import forked
    TOP = Path("/sys/fs/resctrl")
    NFTOP = [sys.executable, "-m", "nftop"]

    def tree():
        names = {"schemata", "cpus_list", "mode", "tasks"}
        return {
            str(path): path.read_text() if path.name != "tasks" or path.parent != TOP else ""
            for path in sorted(TOP.rglob("*")) if path.name in names
        }

    def writes():
        return int(Path("/sys/fs/lab/live/ctl/changes").read_text())

    def put(text, path):
        with open(TOP / path, "w") as file:
            file.write(f"{text}\n")

    def nftop(*arguments):
        done = forked.nftop(*arguments)
        return [done.returncode, done.stdout + done.stderr]

    def outcome(*arguments):
        return nftop(*arguments)[0]

    class Asked:
        def __init__(self, *arguments):
            self.pid, self.terminal = forked.on_terminal(*arguments)
            self.text = ""

        def until(self, word):
            while word not in self.text:
                assert wait_readable([self.terminal], 180), self.text
                self.text += os.read(self.terminal, 4096).decode()

        def say(self, text):
            os.write(self.terminal, text.encode())

        def kill(self, number):
            os.kill(self.pid, number)

        def code(self):
            try:
                while wait_readable([self.terminal], 180):
                    more = os.read(self.terminal, 4096)
                    if not more:
                        break
                    self.text += more.decode()
            except OSError:
                pass
            return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def guards():
        found = []
        for each in Path("/proc").iterdir():
            try:
                command = (each / "cmdline").read_bytes() if each.name.isdigit() else b""
                if command.endswith(b"nftop.control.guard_process\0"):
                    state = (each / "stat").read_text().rpartition(")")[2].split()[0]
                    found += [int(each.name)] * (state != "Z")
            except OSError:
                pass
        return found

    def wait(condition):
        deadline = time.monotonic() + 180
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    TOP.joinpath("vpp").mkdir()
    put("1-3", "vpp/cpus_list")
    TOP.joinpath("vpp/mon_groups/m").mkdir()
    put("2", "vpp/mon_groups/m/cpus_list")
    SET = ["cat", "set", "--group", "vpp", "--l3", "0=3f0", "--l3", "1=ff0"]
    """


def inside(kernel: str, program: str, machine: str = "icx") -> Any:
    script = f"{textwrap.dedent(_HELP)}\n{textwrap.dedent(program)}"
    return answer(script, "--model", machine, "--kernel", kernel, "--cpus", "16")


@needs_pqos
@BOTH
def test_pqos_prints_the_mask_that_was_set(kernel: str) -> None:
    program = """
        pqos = ["pqos", "-I", "-s"]
        show = lambda: subprocess.run(pqos, stdout=subprocess.PIPE, text=True).stdout
        TOP.joinpath("vpp/mon_groups/m").rmdir()
        TOP.joinpath("vpp").rmdir()
        show()  # which makes COS1 and all the others
        before = tree()
        code = outcome("cat", "set", "--group", "COS2", "--l3", "0=3f0", "--mba", "1=45", "--yes")
        code += outcome("cat", "move", "--group", "COS2", "--cpus", "4-5", "--yes")
        text = show()
        found = [code, re.findall(r"(?:L3CA|MBA) COS2 => .*", text)]
        found += [re.findall(r"Core (\\d+), L2ID \\d+, L3ID \\d+ => COS2", text)]
        found += [outcome("undo", "--yes"), outcome("undo", "--yes"), tree() == before]
        print(json.dumps(found))
    """
    code, masks, cores, *undone = inside(kernel, program)
    assert code == 0
    assert "L3CA COS2 => MASK 0x3f0" in masks
    assert any(mask.startswith("MBA COS2 => 50") for mask in masks)
    assert cores == ["4", "5"]
    assert undone == [0, 0, True]


@BOTH
def test_everything_that_can_be_done_is_taken_back_by_reset(kernel: str) -> None:
    program = """
        sleeper = subprocess.Popen(["sleep", "1000"])
        before = tree()
        codes = [outcome(*words, "--yes") for words in (
            SET,
            ["cat", "create", "--group", "nftop.a", "--l3", "0=3", "--cpus", "2,5", "--mba=0=20"],
            ["cat", "create", "--group", "nftop.a", "--monitor", "nftop.m", "--cpus", "5"],
            ["cat", "move", "--group", "nftop.a", "--tasks", str(sleeper.pid)],
            ["cat", "move", "--group", "/", "--cpus", "1"],
            ["cat", "remove", "--group", "nftop.a", "--monitor", "nftop.m"],
        )]
        tasks = (TOP / "nftop.a/tasks").read_text().split()
        there = [tasks == [str(sleeper.pid)], (TOP / "nftop.a/cpus_list").read_text()]
        mode = oct((TOP / "nftop.a").stat().st_mode)
        codes += [outcome("cat", "remove", "--group", "nftop.a", "--yes"), outcome("undo", "--yes")]
        again = (TOP / "nftop.a/tasks").read_text().split() == tasks
        codes += [outcome("cat", "reset", "--yes")]
        lines = nftop("history", "--json")[1].splitlines()
        numbers = [json.loads(line)["number"] for line in lines]
        print(json.dumps([codes, there, mode, again, tree() == before, numbers]))
        sleeper.kill()
    """
    codes, present, mode, again, same, numbers = inside(kernel, program)
    assert codes == [0] * 9
    assert present == [True, "2,5\n"]
    assert mode == "0o40755"
    assert again is True
    assert same is True
    assert numbers == list(range(1, 10))


@BOTH
def test_a_terminal_that_is_closed_before_keep_takes_it_back(
    kernel: str, snapshot: SnapshotAssertion
) -> None:
    program = """
        before = tree()
        asked = Asked(*SET, "--keep-within", "3600")
        asked.until("apply?")
        asked.say("y\\n")
        asked.until("keep?")
        meanwhile = (TOP / "vpp/schemata").read_text().split()[-1]
        os.close(asked.terminal)  # the kernel sends SIGHUP
        os.waitpid(asked.pid, 0)
        wait(lambda: tree() == before)
        wait(lambda: not guards())
        count = nftop("history")[1].count("reverted")
        print(json.dumps([meanwhile, nftop("recover", "--yes"), count]))
    """
    meanwhile, recovered, reverted = inside(kernel, program)
    assert meanwhile == "L3:0=3f0;1=ff0"
    assert recovered[0] == 0
    assert recovered[1] == snapshot
    assert reverted == 1


def test_what_is_kept_in_time_stays_and_what_is_not_does_not() -> None:
    program = """
        found, before = [], tree()
        for word in ("y", "n", ""):
            asked = Asked(*SET, "--keep-within", "3600" if word else "1")
            asked.until("apply?")
            asked.say("y\\n")
            asked.until("keep?")
            if word:
                asked.say(word + "\\n")
            found.append([asked.code(), tree() == before])
            if word == "y":
                found.append([outcome("undo", "--yes"), tree() == before])
        asked = Asked(*SET)
        asked.until("apply?")
        asked.say("n\\n")
        found.append([asked.code(), tree() == before])
        print(json.dumps(found))
    """
    kept, undone, refused, late, never = inside("7.2", program)
    assert kept == [0, False]
    assert undone == [0, True]
    assert refused == late == [5, True]
    assert never == [1, True]


def test_an_undo_that_was_confirmed_stays_after_the_guards_time(
    snapshot: SnapshotAssertion,
) -> None:
    """Final for the newest change; where that is passed over, the undo waits to be kept."""
    program = """
        before = tree()
        found = [outcome(*SET, "--yes")]
        asked = Asked("undo", "--keep-within", "1")
        asked.until("apply?")
        asked.say("y\\n")
        found.append(asked.code())  # nothing more is typed
        wait(lambda: not guards())
        time.sleep(2)
        found += [tree() == before, "keep?" in asked.text, nftop("recover", "--yes")[1]]
        last = json.loads(nftop("history", "--json")[1].splitlines()[-1])
        found += [last["outcome"], last["undoes"], nftop("undo", "--yes")[1]]

        outcome("cat", "set", "--group", "vpp", "--l3", "0=f", "--yes")
        outcome("cat", "set", "--group", "vpp", "--l3", "1=f", "--yes")
        put("L3:1=3", "vpp/schemata")
        there = tree()
        asked = Asked("undo", "--past", "--keep-within", "1")
        asked.until("apply?")
        asked.say("y\\n")
        asked.until("keep?")
        found += [asked.code(), tree() == there]
        print(json.dumps(found))
    """
    newest, older = (result := inside("7.2", program))[:8], result[8:]
    assert newest[:4] == [0, 0, True, False]
    assert newest[5:7] == ["kept", [1]]
    assert [newest[4], newest[7]] == snapshot
    assert older == [5, True]


def test_guard_outlives_signals_and_its_client_and_recovery_follows_a_killed_guard() -> None:
    program = """
        found, before = [], tree()
        # Stopped: nobody says keep, and the time is up.
        asked = Asked(*SET, "--keep-within", "1")
        asked.until("apply?")
        asked.say("y\\n")
        asked.until("keep?")
        asked.kill(signal.SIGSTOP)
        wait(lambda: tree() == before)
        asked.kill(signal.SIGKILL)
        os.waitpid(asked.pid, 0)
        wait(lambda: not guards())
        for victims in ("asked", "guard", "both"):
            asked = Asked(*SET, "--keep-within", "3600")
            asked.until("apply?")
            asked.say("y\\n")
            asked.until("keep?")
            [guard] = guards()
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
                os.kill(guard, number)
            changed = tree() != before
            if victims != "asked":
                os.kill(guard, signal.SIGKILL)
                wait(lambda: not guards())
            if victims != "guard":
                asked.kill(signal.SIGKILL)
            code = asked.code()
            wait(lambda: not guards())
            refused = outcome(*SET, "--yes") if victims != "asked" else 1
            recovered = nftop("recover", "--yes")
            found.append([changed, code, refused, recovered[0], "change" in recovered[1]])
            found.append([tree() == before, nftop("recover", "--yes")])
        print(json.dumps(found))
    """
    nothing = [0, "nothing was cut off\n"]
    result = inside("7.2", program)
    assert result[0] == [True, -9, 1, 0, False]
    assert result[2] == [True, 5, 1, 0, True]
    assert result[4] == [True, -9, 1, 0, True]
    assert result[1] == result[3] == result[5] == [True, nothing]


def test_a_monitoring_group_of_threads_has_a_way_back_whatever_happens() -> None:
    program = """
        every = [each for each in Path("/proc").iterdir() if each.name.isdigit()]
        pid = int(max(every, key=lambda each: len(list((each / "task").iterdir()))).name)
        tids = sorted(int(each.name) for each in Path(f"/proc/{pid}/task").iterdir())
        words = ["cat", "create", "--group", "default", "--monitor", "nftop.m"]
        path = TOP / "mon_groups/nftop.m"
        before = tree()
        found = [outcome(*words, "--threads", str(tids[-1]), "--yes")]
        found += [sorted(map(int, path.joinpath("tasks").read_text().split())) == tids[-1:]]
        found += [outcome("undo", "--yes"), tree() == before]
        found += [outcome(*words, "--tasks", str(pid), "--yes")]
        found += [sorted(map(int, path.joinpath("tasks").read_text().split())) == tids]
        remove = ["cat", "remove", "--group", "default", "--monitor", "nftop.m", "--yes"]
        found += [outcome(*remove), tree() == before]
        # Killed while it waits to be kept.
        asked = Asked(*words, "--tasks", str(pid), "--keep-within", "3600")
        asked.until("apply?")
        asked.say("y\\n")
        asked.until("keep?")
        [guard] = guards()
        os.kill(guard, signal.SIGKILL)
        wait(lambda: not guards())
        asked.kill(signal.SIGKILL)
        asked.code()
        found += [path.exists(), outcome("recover", "--yes"), tree() == before]
        # No monitor is free; one of a group that was removed is used again only after a while.
        count = int((TOP / "info/L3_MON/num_rmids").read_text())

        def taken():
            groups = [item for item in TOP.iterdir() if (item / "schemata").exists()]
            monitors = [item for top in (TOP, *groups) for item in (top / "mon_groups").iterdir()]
            try:
                for number in range(1 + len(groups) + len(monitors), count):
                    TOP.joinpath(f"mon_groups/m{number}").mkdir()
            except OSError:
                return False
            return True

        wait(taken)
        code, text = nftop(*words, "--yes")
        found += [code, "taken: all" in text]
        print(json.dumps(found))
    """
    result = inside("7.2", program)
    assert result == [0, True, 0, True, 0, True, 0, True, True, 0, True, 1, True]


def test_killed_whenever_it_is_the_tree_is_as_before_or_complete() -> None:
    program = """
        words = ["cat", "create", "--group", "nftop.a", "--l3", "0=3", "--cpus", "2-7", "--yes"]
        state = Path("/var/lib/nftop")
        pending, history = state / "pending.json", state / "history.jsonl"
        before, bad, cut = tree(), [], 0
        for number in range(6):
            pid = forked.start(*words)
            while not forked.has_ended(pid) and not pending.exists():
                time.sleep(0.0005)
            time.sleep(0.003 * number)
            for guard in guards():
                os.kill(guard, signal.SIGKILL)
            os.waitpid(pid, 0)
            wait(lambda: not guards())
            if pending.exists():
                cut += 1
                outcome("recover", "--yes")
            kept = json.loads(history.read_text().splitlines()[-1])["outcome"] == "kept"
            whole = TOP.joinpath("nftop.a").exists() and [
                (TOP / "nftop.a/schemata").read_text().split()[-1].replace("=00", "="),
                (TOP / "nftop.a/cpus_list").read_text(),
            ] == ["L3:0=3;1=fff", "2-7\\n"]
            if pending.exists() or whole != kept:
                bad.append([whole, kept])
            if kept:
                outcome("undo", "--yes")
            if tree() != before:
                bad.append(tree())
        print(json.dumps([bad, cut]))
    """
    bad, cut = inside("6.1", program)
    assert bad == []
    assert cut > 0


def test_a_concurrent_foreign_change_is_not_overwritten(snapshot: SnapshotAssertion) -> None:
    program = """
        asked = Asked(*SET)
        asked.until("apply?")
        put("L3:1=f", "vpp/schemata")
        count, before = writes(), tree()
        asked.say("y\\n")
        conflict = [asked.code(), "conflict" in asked.text, "in the preview, f now" in asked.text]
        conflict += [writes() - count, tree() == before]
        # After a crash.
        asked = Asked(*SET)
        asked.until("apply?")
        asked.say("y\\n")
        asked.until("keep?")
        [guard] = guards()
        os.kill(guard, signal.SIGKILL)
        asked.code()
        put("L3:0=1", "vpp/schemata")
        code, text = nftop("recover", "--yes")
        left = (TOP / "vpp/schemata").read_text().split()[-1]
        print(json.dumps([conflict, code, text, left, nftop("recover", "--yes")]))
    """
    conflict, code, text, left, again = inside("7.2", program)
    assert conflict == [5, True, True, 0, True]
    assert code == 5
    assert wording(text) == snapshot
    assert left == "L3:0=1;1=f"
    assert again[0] == 0
    assert again[1] == snapshot


def test_a_lock_that_another_program_holds_is_waited_for_and_named(
    snapshot: SnapshotAssertion,
) -> None:
    program = """
        handle = os.open(TOP, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)
        count = writes()
        code, text = nftop(*SET, "--yes")
        print(json.dumps([code, text.splitlines()[-1], writes() - count, os.getpid()]))
    """
    code, text, written, _ = inside("7.2", program)
    assert code == 1
    assert re.sub(r"pid \d+", "pid PID", text) == snapshot
    assert written == 0


def test_without_privilege_all_is_shown_and_nothing_is_done() -> None:
    program = """
        # It may still read all, or it could not where the interpreter is in root's own folder.
        NOBODY = "setpriv --reuid 65534 --regid 65534 --clear-groups".split()
        NOBODY += ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]
        def as_nobody(*arguments):
            done = subprocess.run([*NOBODY, *NFTOP, *arguments], capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL)
            return [done.returncode, done.stdout, done.stderr]
        count = writes()
        found = [as_nobody("cat", "show"), as_nobody(*SET, "--yes"), as_nobody("recover", "--yes")]
        found += [as_nobody("history"), as_nobody(*SET, "--dry-run"), writes() - count]
        print(json.dumps(found))
    """
    show, change, recover, _, dry, written = inside("7.2", program)
    assert show[0] == 0
    assert "  CPU   1-3" in show[1]
    root = "nftop: changes need root: run it with sudo\n"
    assert change[0] == 1
    assert "0=3f0" in change[1]
    assert change[2] == recover[2] == root
    assert dry[0] == 0
    assert written == 0


def test_a_host_without_resctrl_reports_how_to_get_it() -> None:
    program = """
        TOP.joinpath("vpp/mon_groups/m").rmdir()
        TOP.joinpath("vpp").rmdir()
        subprocess.run(["umount", TOP], check=True)
        print(json.dumps([nftop("cat", "show"), nftop(*SET, "--yes")]))
    """
    for code, text in inside("7.2", program):
        assert code == 1
        assert "mount -t resctrl resctrl /sys/fs/resctrl" in text


@pytest.mark.parametrize("cdp", [False, True], ids=["", "cdp"])
def test_ways_of_io_have_one_way_back_even_after_a_kill(cdp: bool) -> None:
    """Set, undone by one command, and restored after the guard and nftop were killed."""
    program = f"""
        if {cdp}:
            TOP.joinpath("vpp/mon_groups/m").rmdir()
            TOP.joinpath("vpp").rmdir()
            subprocess.run(["umount", TOP], check=True)
            subprocess.run(["mount", "-t", "resctrl", "-o", "cdp", "resctrl", TOP], check=True)
            TOP.joinpath("vpp").mkdir()
        INFO = TOP / "info" / ("L3DATA" if {cdp} else "L3")
        ON = ["cat", "io", "enable", "--l3", "0=600", "--l3", "1=3"]

        def io():
            status = INFO.joinpath("io_alloc").read_text().strip()
            masks = INFO.joinpath("io_alloc_cbm")
            return [status, masks.read_text().strip() if status == "enabled" else ""]

        before = tree()
        found = [nftop("cat", "io", "show")[1].splitlines()[-1].split()[1], io()]
        found += [outcome(*ON, "--yes"), io(), outcome("undo", "--yes"), io()]
        for act in (ON, ["cat", "io", "disable"]):
            if act != ON:
                found += [outcome(*ON, "--yes")]
            was = io()
            asked = Asked(*act, "--keep-within", "3600")
            asked.until("apply?")
            asked.say("y\\n")
            asked.until("keep?")
            meanwhile = io()
            [guard] = guards()
            os.kill(guard, signal.SIGKILL)
            asked.kill(signal.SIGKILL)
            os.waitpid(asked.pid, 0)
            wait(lambda: not guards())
            found.append([meanwhile != was, nftop("recover", "--yes")[0], io() == was])
        found += [outcome("cat", "io", "set", "--l3", "0=5", "--yes"), tree() == before]
        print(json.dumps(found))
    """
    script = f"{textwrap.dedent(_HELP)}\n{textwrap.dedent(program)}"
    lab = ("--model", "spr", "--kernel", "7.2", "--cpus", "16", "--io-alloc")
    shown, off, on, masks, undone, again, *killed = answer(script, *lab)
    assert (shown, off, on) == ("disabled:", ["disabled", ""], 0)
    assert masks == ["enabled", "0=600;1=3"]
    assert (undone, again) == (0, ["disabled", ""])
    assert killed == [[True, 0, True], 0, [True, 0, True], 1, True]
