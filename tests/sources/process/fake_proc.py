"""A /proc of files, and a clock."""

from __future__ import annotations

import shutil
from pathlib import Path

from nftop.model.missing import Missing
from nftop.model.sample import ThreadTable
from nftop.model.threads import ThreadRow
from nftop.sources.process.facts import CulpritReader, FactsReader
from nftop.sources.process.source import ProcessSource

S = 1_000_000_000
HOST_NS, OTHER_NS = "mnt:[4026531832]", "mnt:[4026532999]"


class FakeHost:
    """A /proc of files, and a clock."""

    def __init__(
        self,
        root: Path,
        facts: FactsReader | None = None,
        culprits: CulpritReader | None = None,
    ) -> None:
        self.root = root
        self.now_ns = 100 * S
        self.source = ProcessSource(root, clock=lambda: self.now_ns, facts=facts, culprits=culprits)
        self.thread(1, 1, "init")
        self.thread(99, 99, "nftop")
        (root / "proc/self").symlink_to("99")

    def thread(
        self,
        pid: int,
        tid: int,
        comm: str,
        *,
        allowed: str = "0-7",
        run_ns: int = 1,
        wait_ns: int = 0,
        start: int = 5000,
        kernel: bool = False,
        state: str = "S",
        namespace: str | None = HOST_NS,
    ) -> Path:
        """Create the thread, or write its files anew."""
        folder = self.root / f"proc/{pid}/task/{tid}"
        folder.mkdir(parents=True, exist_ok=True)
        fields = ["0"] * 50
        fields[0], fields[6], fields[19], fields[36] = state, "0", str(start), "7"
        if kernel:
            fields[6] = str(0x208040)
        (folder / "stat").write_text(f"{tid} ({comm}) {' '.join(fields)}\n")
        (folder / "schedstat").write_text(f"{run_ns} {wait_ns} 9\n")
        (folder / "status").write_text(
            f"Name:\t{comm}\nState:\t{state} (x)\nCpus_allowed_list:\t{allowed}\n"
            "voluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t4\n"
        )
        link = self.root / f"proc/{pid}/ns/mnt"
        if namespace is not None and not link.is_symlink():
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(namespace)
        return folder

    def process(self, pid: int, threads: int, cpu_ticks: int, name: str = "main") -> None:
        """Write its own stat: the number of its threads, and what all of them have run."""
        fields = ["0"] * 50
        fields[0], fields[11], fields[17], fields[19] = "S", str(cpu_ticks), str(threads), "5000"
        (self.root / f"proc/{pid}/stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")

    def kill(self, pid: int) -> None:
        shutil.rmtree(self.root / f"proc/{pid}")

    def read(self, after_s: float = 0.0) -> ThreadTable:
        self.now_ns += int(after_s * S)
        table = self.source.read()
        assert isinstance(table, ThreadTable)
        return table

    def comms(self, after_s: float = 0.0) -> list[str]:
        return [row.comm for row in self.read(after_s).threads]


def rows_of(table: ThreadTable | Missing) -> dict[int, ThreadRow]:
    """The threads that are their process' only one, by process."""
    assert isinstance(table, ThreadTable)
    return {row.pid: row for row in table.threads if row.pid == row.tid}
