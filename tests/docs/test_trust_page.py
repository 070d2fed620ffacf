"""docs/trust.md against the code: who is trusted, limits, counts of inputs.

`python -m tests.docs.test_trust_page` writes the counts anew, after `make soak`.
"""

from __future__ import annotations

import re

from nftop.control.journal import DEFAULT
from nftop.export.http import server
from nftop.sources.ovs import jsonrpc
from nftop.sources.runtime import helper
from nftop.sources.trust import ownership
from tests.faults import combinations
from tests.fuzz import soak
from tests.fuzz.registry import TARGETS
from tests.fuzz.worker import MOST_BYTES, MOST_CPU_S
from tests.guard import MAY
from tests.house import ROOT
from tests.test_fault_peers import EVERY

PAGE = ROOT / "docs/trust.md"
_BEGIN, _END = "<!-- counts: python -m tests.docs.test_trust_page -->\n", "<!-- end -->"
# What a module may do if it has to do with others: talk, start, load, map, write to the host.
_OTHERS = re.compile(
    r"socket\.socket|subprocess\.Popen|mmap\.mmap|http\.client\.HTTPConnection|ctypes\.CDLL|pqos\.\*"
    r"|importlib\.machinery\.ExtensionFileLoader|vpp_papi\..*"
)
_WRITES = ("control/journal.py", "control/resctrl/writer.py", "control/cpufreq/cpufreq.py",
           "store/folders.py", "sources/perf/abi.py")  # fmt: skip
# The other end of a helper's own socket, which it inherits.
_INHERITED = frozenset({"sources/vpp/worker.py", "sources/pqos/worker.py"})


def table(heading: str) -> list[list[str]]:
    """Cells of the first table behind a heading, without its head."""
    behind = PAGE.read_text().partition(f"## {heading}\n")[2]
    rows = re.search(r"(?m)(^\|.*\n)+", behind)
    assert rows is not None
    return [
        [cell.strip() for cell in row.strip("|").split("|")] for row in rows[0].splitlines()[2:]
    ]


def counts_text() -> str:
    """The counts as a table."""
    counts = soak.read_counts()
    lines = ["| format | what gets it | inputs | of a goal of | finds |", "|---|---|---|---|---|"]
    for target in TARGETS:
        row = counts.get(target.name, {"inputs": 0, "finds": 0})
        entry = f"`{target.entry[0].removeprefix('nftop.')}`"
        numbers = f"{int(row['inputs']):,} | {target.goal:,} | {row['finds']}"
        lines.append(f"| {target.name} | {entry} | {numbers} |")
    return "\n" + "\n".join(lines) + "\n\n"


def test_every_module_that_has_to_do_with_others_is_in_the_table() -> None:
    rows = table("Who is trusted")
    assert all(len(row) == 5 and all(row) for row in rows)
    listed = {path for row in rows for path in re.findall(r"`([^`]+)`", row[4])}
    assert all((ROOT / "nftop" / path).is_file() for path in listed)
    allowed = {
        path
        for path, words in MAY.items()
        if path.endswith(".py") and any(map(_OTHERS.fullmatch, words.split()))
    }
    assert listed == (allowed - _INHERITED) | set(_WRITES)


def test_its_limits_are_those_of_the_code() -> None:
    text = PAGE.read_text()
    assert f"{ownership._MAX_OF_ONE_USER} of a user, {ownership.MAX_UNPRIVILEGED} of all" in text
    assert f"{jsonrpc._UNPRIVILEGED_REPLY_BYTES >> 10} KiB a reply" in text
    assert f"{server.MAX_CONNECTIONS} connections, {server.DEADLINE_S:.0f} s" in text
    assert f"journal of changes, `{DEFAULT}` | root's, mode 0700" in text
    assert f"({MOST_BYTES >> 30} GiB)" in text and f"({MOST_CPU_S:.0f} s)" in text
    assert set(helper.start.__kwdefaults__ or ()) >= {"memory_bytes"}


def test_its_processes_are_modules() -> None:
    modules = re.findall(r"`(nftop\.[a-z_.]+)`", PAGE.read_text())
    assert len(modules) >= 3
    for name in modules:
        assert (ROOT / f"{name.replace('.', '/')}.py").is_file()


def test_its_counts_are_those_of_the_file() -> None:
    text = PAGE.read_text()
    assert text.partition(_BEGIN)[2].partition(_END)[0] == counts_text(), __doc__
    assert f"| {len(list(combinations())):,} |" in text
    assert f"| {len(EVERY)} pairs |" in text


def main() -> None:
    before, _, rest = PAGE.read_text().partition(_BEGIN)
    PAGE.write_text(before + _BEGIN + counts_text() + _END + rest.partition(_END)[2])


if __name__ == "__main__":
    main()
