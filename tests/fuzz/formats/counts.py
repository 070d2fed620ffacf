"""Counts of other programs: JSON, `perf stat -j`, `perf stat -x`."""

from __future__ import annotations

import math
from pathlib import Path

from nftop.cli.commands.tma import tma_text
from nftop.derive.topdown.tma import tma_of_counts
from nftop.export.json.reports import tma_json
from nftop.sources.counts.read import read_counts
from nftop.uarch.table import load

_STREAMS = Path(__file__).parents[2] / "data/perf"
_UARCH = load("SKX")
WORDS = (
    b"<not counted>", b"<not supported>", b"cycles", b"instructions", b"CPU0", b"S0-D0-C0", b"nan",
    b"counter-value", b"event-runtime", b"pcnt-running", b"metric-value", b";", b",", b"|", b"\t",
    b"# started on", b"cpu/event=0x9c,umask=0x1/", b"ref-cycles", b'"', b"{", b"}", b"\n", b":u",
    b"CPU_CLK_UNHALTED.THREAD", b"\xef\xbb\xbf", b"\\ud800",
)  # fmt: skip


def seeds() -> list[bytes]:
    files = [path.read_bytes() for path in sorted(_STREAMS.iterdir()) if path.suffix != ".md"]
    short = [b"\n".join(data.splitlines()[:40]) + b"\n" for data in files]
    return [
        *short,
        b"1.000,CPU0,9,,cycles,5,100.00,,\n1.000,CPU1,<not counted>,,cycles,0,0.00,,\n",
        b"100;;cycles;50;50.00;;\n10;;UOPS_ISSUED.ANY;50;50.00;;\n300;;cycles;49;49.00;;\n",
        (
            b'{"counter-value" : "9.0", "unit" : "", "event" : "cycles", "event-runtime" : 5, '
            b'"pcnt-running" : 100.00}\n'
        ),
        b'{"cycles": 900, "instructions": 300, "CPU_CLK_UNHALTED.REF_TSC": null}',
    ]


def play(data: bytes) -> None:
    """Read, evaluate, and write as text and as JSON."""
    text = data.decode("utf-8", "replace")
    counts = read_counts(text, _UARCH)
    for count in counts.events.values():
        assert not isinstance(count, float) or (count >= 0 and not math.isnan(count))
    ratios = tma_of_counts(_UARCH, counts.events, smt=True)
    tma_text(_UARCH, ratios, smt=True, origin="a", notes=counts.notes).encode()
    tma_json(_UARCH.name, ratios, smt=True, notes=counts.notes, ignored=counts.unknown).encode()
