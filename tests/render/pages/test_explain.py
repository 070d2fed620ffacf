"""Every header of a table and every label of the detail line is explained."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

import nftop.render
from nftop.model.ids import Cpu
from nftop.render.base.line import Tone
from nftop.render.base.table import TableColumn
from nftop.render.cores.detail import detail_line
from nftop.render.cores.resources import _SOCKET_ROWS
from nftop.render.nfs.detail import _THREAD_WIDTHS
from nftop.render.pages.explain import (
    explain_metric,
    metrics_called,
    near_names,
    words_called,
)
from nftop.render.traffic.page import sections
from nftop.uarch.table import load
from tests.frames import frame
from tests.sim.hosts import Frozen, S, span_s


def labels(item: object, depth: int = 0) -> Iterator[str]:
    """Labels of the columns in a value of a module."""
    head = getattr(item, "head", None)
    if isinstance(item, TableColumn):
        yield item.label
    elif isinstance(head, TableColumn):
        yield head.label
    elif isinstance(head, str) and hasattr(item, "right"):
        yield head
    elif isinstance(item, (tuple, list, dict)) and depth < 3:
        for value in item.values() if isinstance(item, dict) else item:
            yield from labels(value, depth + 1)


def headers() -> set[str]:
    names = (info.name for info in pkgutil.walk_packages(nftop.render.__path__, "nftop.render."))
    modules = map(importlib.import_module, names)
    return {
        label for module in modules for value in vars(module).values() for label in labels(value)
    }


def is_explained(label: str) -> bool:
    return bool(metrics_called(label) or words_called(label))


def test_every_header_is_explained() -> None:
    known = headers()
    assert {"vs.10m", "IN Mpps", "CPP", "MASK", "QUEUE", "MiB USED/CAP", "KIND"} <= known
    assert len(known) > 100
    assert sorted(label for label in known if label and not is_explained(label)) == []


# Headers that are drawn without a `TableColumn`: panel, verdict, timeline, incident.
@pytest.mark.parametrize(
    "label",
    [
        "CACHE", "I/O", "VALUE", "BEFORE", "AFTER", "CHANGE", "n", "+-", "BEGIN", "END", "LASTED",
        "WORST", "STATE", "SOCKET", "CULPRIT", "VICTIM", "PRICE", "Mpps 5 min", "IN", "OUT",
        "vs10m", "PAPERS", "Mpps/core", "BASELINE", "spread", "ticks", "then", "now", "RMID",
        "WHAT", "NODE", "PORT", "COUNT", "per s", "polls", "together", "OF", "PEERS", "PROBES",
        "CORES", "SOCK", "SETTING", "LAST CHANGE", "Channels", "Links", "Accelerators", "hit",
        "miss", "hit%", "all", "self", "LIVE", "line rate", "room", "saturated",
    ],
)  # fmt: skip
def test_other_headers_are_explained(label: str) -> None:
    assert is_explained(label) and is_explained(label.lower())


def test_every_section_and_row_of_traffic_and_every_column_of_threads_is_explained() -> None:
    named = {
        label
        for section in sections()
        for label in (section.title, *(row.label for row in section.rows))
    }
    assert {"Memory", "Per packet", "Share of peak", "ItoM", "write lines"} <= named
    named |= set(_THREAD_WIDTHS) | {label for label, _ in _SOCKET_ROWS}
    assert [label for label in sorted(named) if not is_explained(label)] == []
    ids = metrics_called("Per packet")
    assert ids and all(name.startswith("per_packet.") for name in ids)


def test_every_label_of_the_detail_line_is_explained() -> None:
    base = frame(8)
    row = base.cpus.topology.row_of[Cpu(1)]
    cpus = replace(base.cpus)
    spans = detail_line(cpus, row, 180.0, 200).spans
    drawn = [
        span.text.strip() for span in spans if span.tone is Tone.MUTED and "=" not in span.text
    ]
    assert "usual" in drawn and len(drawn) >= 4
    assert [label for label in drawn if not is_explained(label)] == []


@pytest.mark.parametrize(("scenario", "task"), [("shared", "south"), ("default", "north")])
def test_the_equation_of_a_cost_is_true_of_a_shared_cpu(scenario: str, task: str) -> None:
    host = Frozen(scenario)
    begins_s = span_s(scenario)[0] if scenario == "shared" else 5
    host.tick(0)
    host.tick((begins_s + 2) * S)
    cpus = host.tick(S).cpus
    seen = 0
    for cpu in host.cpus_of(task):
        text = detail_line(cpus, cpus.topology.row_of[Cpu(cpu)], 180.0, 200).text
        terms = re.search(
            r"CPP +<?~?([\d.]+) = ([\d.]+) GHz(?: x ([\d.]+)% RUN)? / ([\d.]+) ", text
        )
        if terms is None:
            continue
        cost, ghz, run, mpps = (float(item or 100) for item in terms.groups())
        assert cost == pytest.approx(1e3 * ghz * run / 100 / mpps, rel=0.015)
        seen += terms[3] is not None
    assert seen == 1


def test_what_changed_since_before_an_incident_has_both_values() -> None:
    cpus = frame(8).cpus
    row = cpus.topology.row_of[Cpu(1)]
    before = {"ipc": 2.39, "wait_ratio": 0.0}
    text = detail_line(cpus, row, 180.0, 200, before).text
    assert "IPC 2.39 → 1.05" in text and "WAIT 0%" in text and text.count("→") == 1
    for width in (60, 80):
        assert "…" not in detail_line(cpus, row, 180.0, width, before).text


def test_words_are_offered_too() -> None:
    assert "vs.10m" in near_names("vs.10") and "culprit" in near_names("culprits")
    assert words_called("no such word") == ""


def test_columns_of_devices_and_rows_of_packages_share_names() -> None:
    assert metrics_called("READ")[-1] == "dma_read_bytes_per_s"
    assert metrics_called("write")[0] == "memory.write_bytes_per_s"
    assert metrics_called("write")[-1] == "dma_write_bytes_per_s"
    for word in ("frame_bytes", "throttling", "power", "energy", "C-states"):
        assert words_called(word)
    text = explain_metric("dma_write_bytes_per_s", (load("SKX"),))
    assert "uncore_iio/event=0x83,umask=0x1,fc_mask=0x7/" in text
