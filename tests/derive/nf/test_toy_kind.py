"""A kind of network function from outside of the package is shown, exported, recorded, replayed."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

from nftop.derive.nf import kinds, registry
from nftop.model.nf.kinds import NF_ADDRESSES, NF_KINDS, NfKind, ThreadRole, register_nf_kind
from tests.command import python

# A kind of network function, and what an operator does with it: JSON, OpenMetrics, recording.
TOY = """
import json, os, sys, time
from dataclasses import dataclass
from typing import ClassVar

from nftop.derive.nf.rates import NfRates
from nftop.derive.nf.registry import register as register_fold
from nftop.model.nf.kinds import NfKind, ThreadRole, register_nf_kind
from nftop.model.missing import Missing, Reason
from nftop.model.sources import SourceKind, register_kind
from nftop.sources.registry import register

@dataclass(frozen=True)
class ToyTable:
    packets: int
    at_ns: int
    hidden: tuple[str, ...] = ()
    gaps: ClassVar[str] = ""

class Toy:
    name, inline = "toy", True
    def read(self):
        now_ns = time.monotonic_ns()
        return ToyTable(now_ns // 1000, now_ns)  # a packet per microsecond
    def check(self): return ()
    def close(self): pass

NONE = Missing(Reason.SOURCE, "a toy has none")

def rate(before, table, context):
    seconds = 0 if before is None else (table.at_ns - before.at_ns) / 1e9
    rx = Missing(Reason.WARMING) if not seconds else (table.packets - before.packets) / seconds
    return table, (
        NfRates(
            key="toy", name="toy one", owner=None, prefix="", kind="toy", pid=os.getpid(),
            interval_s=seconds or None, attribution="", problem=None, rx_packets_per_s=rx,
            tx_packets_per_s=NONE, missed_packets_per_s=NONE, packets_per_s=rx, direction="rx",
            cores=(), uncounted=None, ports=(), queues=NONE, nodes=NONE,
        ),
    )

register_kind(SourceKind("toy", ToyTable, "packets"))
register("toy", lambda setup: Toy())
register_nf_kind(NfKind("toy", (ThreadRole("toy_worker", "toy:w([0-9]+)"),), address="a toy"))
register_fold("toy", ToyTable, ToyTable, rate=rate, with_problem=lambda table, why: table)

from nftop.cli.compose.hosts import open_host
from nftop.cli.main import run
from nftop.export.openmetrics.page import Tally, page
from nftop.export.openmetrics.writer import TextFormat
from nftop.sources.process.scan import role_of

feed = open_host().feed(interval_s=0.1)
frames = feed.frames()
frame = [next(frames) for _ in range(3)][-1]
feed.stop()
frames.close()
print(json.dumps({
    "role": [role_of("toy:w3").name, role_of("toy:w3").index],
    "frame": [nf.name for nf in frame.nfs if nf.kind == "toy"],
    "openmetrics": [row for row in page(frame, Tally(), TextFormat.OPENMETRICS).splitlines()
                    if "toy one" in row and not row.startswith("#")],
}), flush=True)
run(["-n", "2", "-d", "0.1", "--json"])
run(["record", "-o", sys.argv[1], "-d", "0.1", "--duration", "1"])
run(["replay", sys.argv[1], "-n", "3", "--json"])
"""


def test_a_registered_kind_is_in_every_output(tmp_path: Path) -> None:
    done = python(TOY, str(tmp_path / "toy.nftop"))
    assert done.returncode == 0, done.stderr
    shown, *frames = (json.loads(row) for row in done.stdout.splitlines() if row.startswith("{"))
    assert shown["role"] == ["toy_worker", 3]
    assert shown["frame"] == ["toy one"]
    assert any("packets" in row for row in shown["openmetrics"])
    assert len(frames) == 5
    live, replayed = frames[1], frames[-1]
    for frame in (live, replayed):
        (toy,) = (nf for nf in frame["nfs"] if nf["kind"] == "toy")
        assert toy["name"] == "toy one"
        assert toy["rx_packets_per_s"] == pytest.approx(1e6, rel=1e-3)


def test_every_kind_with_a_module_has_a_row_and_a_fold() -> None:
    modules = {name for name in kinds.__all__ if inspect.ismodule(getattr(kinds, name))}
    assert modules == set(registry.NF_FOLDS) <= set(NF_ADDRESSES)
    assert set(registry.NF_FOLDS) <= set(NF_KINDS.values())


@pytest.mark.parametrize(
    "kind",
    [NfKind("vpp"), NfKind("other", (ThreadRole("ovs_pmd"),)), NfKind("kernel", source="ovs")],
)
def test_no_kind_is_registered_twice(kind: NfKind) -> None:
    with pytest.raises(ValueError, match=kind.id):
        register_nf_kind(kind)
