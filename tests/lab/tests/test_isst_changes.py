"""`nftop sst bf` and `cp` inside, where the tests have an intel-speed-select."""

from __future__ import annotations

import textwrap
from typing import Any

from syrupy.assertion import SnapshotAssertion

from tests.lab.tests.labs import answer, needs_lab

pytestmark = needs_lab
_HELP = r"""
    import subprocess, sys
    from pathlib import Path
    sys.path.insert(0, os.getcwd())
    from nftop.sources.host.topology import read_topology
    from tests import forked
    from tests.isst.tool import NAME, Domain, State, Tool, install, load, save
    mount = ["mount", "-t", "tmpfs", "-o", "mode=755", "none", "/usr/local/sbin"]
    subprocess.run(mount, check=True)
    cpus = read_topology(Path("/")).cpus
    packages = sorted({info.package for info in cpus})
    own = {each: [int(i.cpu) for i in cpus if i.package == each] for each in packages}
    twins = {int(i.cpu): min([int(i.cpu), *map(int, i.siblings)]) for i in cpus}
    def tool():
        return Tool(
            State([Domain(int(p), own[p], own[p][1:2]) for p in packages],
                  dict.fromkeys(set(twins.values()), 3)), twins)
    state = install(Path("/"), tool(), "usr/local/sbin")

    def nftop(*arguments):
        words = ["sst"] if arguments[0] in ("show", "bf", "cp") else []
        done = forked.nftop(*words, *arguments)
        return [done.returncode, done.stdout + done.stderr]

    def now():
        told = load(state).state
        return [[each.bf for each in told.domains], told.classes[0]]

    def trouble(name, hangs_on_reads=False):
        one = load(state)
        one.trouble, one.hangs_on_reads = name, hangs_on_reads
        save(state, one)
    """


def inside(program: str) -> Any:
    script = f"{textwrap.dedent(_HELP)}\n{textwrap.dedent(program)}"
    return answer(script, "--model", "icx", "--cpus", "8")


def test_switched_shown_and_undone_by_the_guard() -> None:
    program = """
        codes, seen = [], [now()]
        for words in (["bf", "on"], ["cp", "--cpus", "0", "--class", "1"], ["undo"], ["undo"]):
            codes.append(nftop(*words, "--yes"))
            seen.append(now())
            if words[0] == "cp":
                told = json.loads(nftop("show", "--json")[1])
        asked = [each for each in codes if each[0]]
        print(json.dumps([asked, seen, told["packages"], told["cpus"][0]["sst_cp_class"]]))
    """
    failed, seen, packages, number = inside(program)
    assert failed == []
    first, on, classed, back, last = seen
    count = len(first[0])
    assert on == [[True] * count, 3] and classed == [[True] * count, 1]
    assert (back, last) == (on, first)
    assert {(package["sst_bf"], package["sst_cp"]) for package in packages} == {(True, True)}
    assert number == 1


def test_a_tool_that_fails_exits_or_vanishes_reports_it_by_its_code(
    snapshot: SnapshotAssertion,
) -> None:
    program = """
        found, before = [], now()
        for name in ("lie", "die-after"):
            trouble(name)
            found.append([name, *nftop("bf", "on", "--yes")])
            trouble("")
            found.append(nftop("recover", "--yes"))
            found.append(now() == before)
        (state.parent / NAME).chmod(0o775)
        found.append(nftop("bf", "on", "--yes"))
        print(json.dumps(found))
    """
    (_, ignored, text), nothing, same, (_, died, how), mended, end, gone = inside(program)
    assert (ignored, died, gone[0]) == (5, 5, 1), (text, how, gone)
    assert text == snapshot
    assert "it ended with -9" in how
    assert nothing[0] == 0
    assert nothing[1] == snapshot
    assert "reverted" in mended[1]
    assert mended[0] == 0 and same and end
    assert gone[1] == snapshot
