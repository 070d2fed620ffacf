"""Formats that are fuzzed: a row each."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal

FINDS = Path(__file__).parent / "finds"
# Inputs to play before a release, by kind of format.
GOALS = {"byte": 1_000_000, "text": 100_000}


@dataclass(frozen=True, slots=True)
class FuzzTarget:
    """One format.

    Attributes:
        name: of the format, of its module in `formats` and of its folder in `finds`.
        kind: byte or text: how many inputs are its goal.
        entry: the functions of nftop that get the input.
        refusals: what these document to raise; anything else is a find.
        packages: whose branches guide the search: what reads the input, not all that it reaches.
    """

    name: str
    kind: Literal["byte", "text"]
    entry: tuple[str, ...]
    refusals: tuple[str, ...] = ()
    packages: tuple[str, ...] = ("nftop",)

    @property
    def goal(self) -> int:
        return GOALS[self.kind]

    def load(self) -> LoadedTarget:
        """Import its module."""
        module = import_module(f"tests.fuzz.formats.{self.name}")
        refusals = tuple(resolved(name) for name in self.refusals)
        return LoadedTarget(self, module.seeds(), module.play, tuple(module.WORDS), refusals)  # type: ignore[arg-type]

    def finds(self) -> list[Path]:
        """Files of the inputs that were found."""
        return sorted(path for path in (FINDS / self.name).glob("*") if path.is_file())


@dataclass(frozen=True, slots=True)
class LoadedTarget:
    """A format with its code.

    Attributes:
        seeds: honest inputs, from which others are made.
        call: plays one input; raises what nftop raises, AssertionError for a wrong result.
        words: parts of the format, to be put into inputs.
        refusals: classes of `FuzzTarget.refusals`.
    """

    target: FuzzTarget
    seeds: Sequence[bytes]
    call: Callable[[bytes], None]
    words: tuple[bytes, ...]
    refusals: tuple[type[Exception], ...]

    def play(self, data: bytes) -> None:
        """Play one input; raises what is a find."""
        try:
            self.call(data)
        except self.refusals:
            return


def scratch(name: str) -> Path:
    """A folder for a format's files, in the folder for temporary files of the process."""
    folder = Path(tempfile.gettempdir()) / "nftop-fuzz" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def resolved(name: str) -> object:
    """The object of a dotted name."""
    module, _, last = name.rpartition(".")
    return getattr(import_module(module), last)


TARGETS: tuple[FuzzTarget, ...] = (
    FuzzTarget(
        "recordings", "byte",
        ("nftop.store.reading.scan.Scan", "nftop.store.reading.seek.last_before"),
    ),
    FuzzTarget(
        "records", "byte",
        ("nftop.store.reading.scan.Scan", "nftop.session.reader.Tape",
         "nftop.export.json.frame.frame_json"),
        packages=("nftop.store", "nftop.session.reader", "nftop.model.sample_bounds"),
    ),
    FuzzTarget(
        "vpp", "byte",
        ("nftop.sources.vpp.segment.Segment", "nftop.sources.vpp.reader.after"),
        ("nftop.sources.vpp.segment.UnreadableError", "builtins.ValueError"),
        packages=("nftop.sources.vpp", "vpp_papi"),
    ),
    FuzzTarget(
        "perf", "byte",
        ("nftop.sources.perf.source.PerfSource", "nftop.derive.cpu.counters.step_counters"),
        packages=("nftop.sources.perf", "nftop.derive.cpu"),
    ),
    FuzzTarget(
        "journal", "text",
        ("nftop.control.journal.FileJournal", "nftop.control.recovery.recover"),
        ("nftop.control.journal_damage.DamagedJournalError",),
    ),
    FuzzTarget(
        "configuration", "text",
        ("nftop.cli.config.read_config", "nftop.store.user.rules.rules_file",
         "nftop.store.user.chosen_columns.columns_file"),
    ),
    FuzzTarget(
        "profiles", "text",
        ("nftop.control.profile.formats.parse", "nftop.control.profile.validate.fit",
         "nftop.control.resctrl.plan.propose"),
    ),
    FuzzTarget(
        "counts", "text",
        ("nftop.sources.counts.read.read_counts", "nftop.derive.topdown.tma.tma_of_counts"),
        ("nftop.sources.counts.forms.BadCountsError",),
    ),
    FuzzTarget(
        "dpdk", "text",
        ("nftop.sources.dpdk.protocol.reply", "nftop.sources.dpdk.protocol.ask_facts",
         "nftop.sources.dpdk.protocol.ask_counters"),
        ("nftop.sources.nf_session.connection.ReplyError",),
    ),
    FuzzTarget(
        "ovs", "text",
        ("nftop.sources.ovs.jsonrpc.Framing", "nftop.sources.ovs.protocol.reply",
         "nftop.sources.ovs.protocol.counters"),
        ("nftop.sources.nf_session.connection.ReplyError",),
    ),
    FuzzTarget(
        "pcm", "text",
        ("nftop.sources.pcm.document.parse_json", "nftop.sources.pcm.document.parse_text",
         "nftop.sources.pcm.document.table_of"),
        ("nftop.sources.pcm.document.BadDocumentError",),
    ),
    FuzzTarget(
        "resctrl", "text",
        ("nftop.sources.resctrl.tree.parse_schemata", "nftop.sources.resctrl.files.parse_mounts"),
    ),
    FuzzTarget(
        "proc", "text",
        ("nftop.sources.process.threads.parse_stat", "nftop.sources.process.facts.container_of",
         "nftop.sources.process.scan.role_of", "nftop.sources.nf_session.discovery.listening"),
    ),
    FuzzTarget(
        "openmetrics", "text",
        ("nftop.export.openmetrics.page.page",),
        packages=("nftop.export", "nftop.store"),
    ),
    FuzzTarget(
        "requests", "text",
        ("nftop.export.http.request.answer",),
    ),
    FuzzTarget(
        "prometheus", "text",
        ("nftop.sources.prometheus.PrometheusSource", "nftop.derive.fleet.step",
         "nftop.render.fleet.fleet_text"),
        packages=("nftop.sources.prometheus", "nftop.derive.fleet", "nftop.render"),
    ),
    FuzzTarget(
        "http", "text",
        ("nftop.sources.runtime.http_client.HttpSession",),
        packages=("nftop.sources.runtime", "http.client"),
    ),
)  # fmt: skip
BY_NAME = {target.name: target for target in TARGETS}
