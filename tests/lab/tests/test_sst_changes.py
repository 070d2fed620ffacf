"""`nftop sst` inside, on a Cascade Lake-N: all files are as they should be, and as before after."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.lab.tests.labs import answer, needs_lab

pytestmark = needs_lab
_HELP = r"""
    import signal, subprocess, sys, time
    from pathlib import Path
    from nftop.sources.runtime.readiness import wait_readable
    from tests import forked
    AT = Path("/sys/devices/system/cpu/cpufreq")
    NFTOP = [sys.executable, "-m", "nftop"]
    NAMES = ("scaling_governor", "energy_performance_preference", "scaling_min_freq",
             "scaling_max_freq")

    def read(path):
        try:
            return path.read_text()
        except OSError as error:
            return errno.errorcode[error.errno]

    def tree():
        return {f"{policy.name}/{name}": read(policy / name)
                for policy in sorted(AT.glob("policy*")) for name in NAMES}

    def limits():
        return [[int(read(AT / f"policy{cpu}/scaling_{end}_freq")) // 1000 for end in
                 ("min", "max")] for cpu in range(8)]

    def put(text, path):
        with open(AT / path, "w") as file:
            file.write(text)

    def nftop(*arguments):
        done = forked.nftop(*arguments)
        return [done.returncode, done.stdout + done.stderr]

    def outcome(*arguments):
        return nftop(*arguments)[0]
    """


def inside(program: str, *options: str) -> Any:
    script = f"{textwrap.dedent(_HELP)}\n{textwrap.dedent(program)}"
    return answer(script, "--model", "clx-n", "--cpus", "8", *options)


def test_everything_that_can_be_done_is_undone_byte_for_byte(snapshot: SnapshotAssertion) -> None:
    program = """
        put("1200000", "policy3/scaling_min_freq")
        put("performance", "policy2/scaling_governor")
        stages, codes, seen = [tree()], [], []
        for words in (["pin", "--cpus", "1"], ["apply", "--mode", "bf"],
                      ["apply", "--mode", "base"], ["release", "--cpus", "1,2"]):
            codes.append(outcome("sst", *words, "--yes"))
            stages.append(tree())
            seen.append([limits(), sorted({read(AT / f"policy{n}/scaling_governor").strip()
                                           for n in range(8)})])
        rows = json.loads(nftop("sst", "show", "--json")[1])["cpus"]
        back = []
        for stage in reversed(stages[:-1]):
            codes.append(outcome("undo", "--yes"))
            back.append(tree() == stage)
        last = nftop("undo", "--yes")
        print(json.dumps([codes, seen, back, last, [row["sst_priority"] for row in rows]]))
    """
    codes, seen, back, last, priorities = inside(program)
    assert codes == [0] * 8
    high = [cpu for cpu, priority in enumerate(priorities) if priority == "high"]
    assert 1 in high and 0 not in high
    (pinned, _), (bf, governors), (base, _), (released, _) = seen
    assert pinned[1] == [2700, 2700]
    assert bf == [[2700, 2700] if cpu in high else [2100, 2100] for cpu in range(8)]
    assert governors == ["powersave"]
    assert base == [[2300, 2300]] * 8
    assert released[1] == bf[1] and released[0] == [2300, 2300]
    assert back == [True] * 4
    assert last[0] == 0
    assert last[1] == snapshot


def test_a_guard_that_is_killed_and_classes_next_to_frequencies() -> None:
    program = """
        (Path("/sys/fs/resctrl") / "vpp").mkdir()
        before = tree()
        found = [outcome("sst", "pin", "--cpus", "1", "--yes")]
        found.append(outcome("cat", "set", "--group", "vpp", "--l3", "0=f", "--yes"))
        # The newest first, whichever part it is of.
        found.append(outcome("undo", "--yes"))
        mask = (Path("/sys/fs/resctrl/vpp/schemata")).read_text()
        pinned = limits()[1]
        found.append(outcome("undo", "--yes"))
        found.append(tree() == before)

        terminal, inner = os.openpty()
        asked = subprocess.Popen([*NFTOP, "sst", "apply", "--mode", "bf"], stdin=inner,
                                 stdout=inner, stderr=inner, start_new_session=True)
        text = ""
        def until(word):
            global text
            while word not in text:
                assert wait_readable([terminal], 180), text
                text += os.read(terminal, 4096).decode()
        until("apply?")
        os.write(terminal, b"y\\n")
        until("keep?")
        for each in Path("/proc").iterdir():
            try:
                if each.name.isdigit() and (each / "cmdline").read_bytes().endswith(
                        b"nftop.control.guard_process\\0"):
                    os.kill(int(each.name), signal.SIGKILL)
            except OSError:
                pass
        os.write(terminal, b"n\\n")
        code = asked.wait()
        there = tree() == before
        refused = nftop("sst", "pin", "--cpus", "1", "--yes")
        found += [code, there, refused[0], "nftop recover" in refused[1]]
        found += [outcome("recover", "--yes"), tree() == before]
        lines = nftop("history", "--json")[1].splitlines()
        print(json.dumps([found, mask.split(), pinned, json.loads(lines[-1])["outcome"]]))
    """
    result, mask, pinned, last = inside(program)
    assert result[:5] == [0, 0, 0, 0, True]
    assert any("7ff" in item for item in mask), "the mask was taken back first"
    assert pinned == [2700, 2700]
    assert result[5:] == [5, False, 1, True, 0, True]
    assert last == "reverted"


def test_an_undo_that_was_confirmed_stays_after_the_guards_time(
    snapshot: SnapshotAssertion,
) -> None:
    program = """
        before = tree()
        found = [outcome("sst", "pin", "--cpus", "1", "--yes"), tree() == before]
        terminal, inner = os.openpty()
        asked = subprocess.Popen([*NFTOP, "undo", "--keep-within", "1"], stdin=inner,
                                 stdout=inner, stderr=inner, start_new_session=True)
        text = ""
        while "apply?" not in text:
            assert wait_readable([terminal], 180), text
            text += os.read(terminal, 4096).decode()
        os.write(terminal, b"y\\n")
        found.append(asked.wait())  # nothing more is typed
        time.sleep(2)
        found += [tree() == before, nftop("recover", "--yes"), nftop("undo", "--yes")]
        print(json.dumps(found))
    """
    pinned, same, code, restored, recovered, again = inside(program)
    assert (pinned, same) == (0, False)
    assert (code, restored) == (0, True)
    assert recovered[0] == 0
    assert recovered[1] == snapshot
    assert again[0] == 0
    assert again[1] == snapshot


def test_killed_whenever_it_is_the_files_are_as_before_or_complete() -> None:
    program = """
        def guards():
            found = []
            for each in Path("/proc").iterdir():
                try:
                    command = (each / "cmdline").read_bytes() if each.name.isdigit() else b""
                    if command.endswith(b"nftop.control.guard_process\\0"):
                        state = (each / "stat").read_text().rpartition(")")[2].split()[0]
                        found += [int(each.name)] * (state != "Z")
                except OSError:
                    pass
            return found

        pending, history = (Path("/var/lib/nftop") / name
                            for name in ("pending.json", "history.jsonl"))
        before, bad, cut = tree(), [], 0
        for number in range(6):
            pid = forked.start("sst", "apply", "--mode", "bf", "--yes")
            while not forked.has_ended(pid) and not pending.exists():
                time.sleep(0.0005)
            time.sleep(0.004 * number)
            for guard in guards():
                os.kill(guard, signal.SIGKILL)
            os.waitpid(pid, 0)
            while guards():
                time.sleep(0.02)
            if pending.exists():
                cut += 1
                outcome("recover", "--yes")
            kept = json.loads(history.read_text().splitlines()[-1])["outcome"] == "kept"
            whole = all(low == high for low, high in limits())
            if pending.exists() or whole != kept:
                bad.append([whole, kept, limits()])
            if kept:
                outcome("undo", "--yes")
            if tree() != before:
                bad.append(tree())
        print(json.dumps([bad, cut]))
    """
    bad, cut = inside(program)
    assert bad == []
    assert cut > 0


@pytest.mark.parametrize(
    ("kind", "printed"),
    [
        ("none", "this host has no cpufreq"),
        ("acpi", "acpi-cpufreq reports no base_frequency"),
        ("no-base", "intel_pstate reports no base_frequency"),
    ],
)
def test_hosts_that_can_not_report_it_and_nothing_is_written(kind: str, printed: str) -> None:
    program = """
        before = tree()
        print(json.dumps([nftop("sst", "pin", "--cpus", "1", "--yes"), tree() == before]))
    """
    (code, text), same = inside(program, "--cpufreq", kind)
    assert (code, same) == (1, True)
    assert printed in text


def test_offline_and_without_turbo(snapshot: SnapshotAssertion) -> None:
    program = """
        found = []
        put("1", "../intel_pstate/no_turbo")
        Path("/sys/devices/system/cpu/cpu7/online").write_text("0")
        before = tree()
        found.append(outcome("sst", "apply", "--mode", "bf", "--yes"))
        found.append([row[0] for row in map(lambda n: [read(AT / f"policy{n}/scaling_max_freq")],
                                            range(7))])
        found.append(nftop("sst", "pin", "--cpus", "7", "--yes")[1])
        found.append(outcome("undo", "--yes"))
        found.append(tree() == before)
        print(json.dumps(found))
    """
    code, most, offline, undone, same = inside(program)
    assert (code, undone, same) == (0, 0, True)
    assert set(most) == {"2700000\n", "2100000\n"}
    assert offline == snapshot
