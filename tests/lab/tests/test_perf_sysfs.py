"""The files of the PMUs: the names a real kernel has, texts that nftop's own reader takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from nftop.sources.perf.pmu import encode, read_pmu
from nftop.uarch import table as uarch_table
from nftop.uarch.table import Encoding, PmuTerms
from tests.lab import machine as machines
from tests.lab.perf.sysfs import perf_files

# `ls` of a kernel 6.1's own folders, Skylake and Ice Lake models; what the others have more or less
# is that kernel's source's.
FORMAT = "cmask edge event inv ldlat offcore_rsp pc umask".split()
GENERIC = (
    "branch-instructions branch-misses bus-cycles cache-misses cache-references cpu-cycles "
    "instructions ref-cycles"
).split()
SKX_EVENTS = (
    "topdown-fetch-bubbles topdown-recovery-bubbles topdown-recovery-bubbles.scale "
    "topdown-slots-issued topdown-slots-retired topdown-total-slots topdown-total-slots.scale"
).split()
SPR_EVENTS = "topdown-br-mispredict topdown-fetch-lat topdown-heavy-ops topdown-mem-bound".split()
ICX_EVENTS = "slots topdown-bad-spec topdown-be-bound topdown-fe-bound topdown-retiring".split()


def inside(files: dict[str, bytes], folder: str) -> list[str]:
    return sorted(path.removeprefix(folder) for path in files if path.startswith(folder))


@pytest.mark.parametrize(
    ("machine", "form", "own"),
    [
        ("bdx", ["any", "in_tx", "in_tx_cp"], SKX_EVENTS),
        ("skx-4", ["any", "frontend"], SKX_EVENTS),
        ("skx-7", ["any", "frontend"], SKX_EVENTS),
        ("icx", ["frontend"], ICX_EVENTS),
        ("spr", ["frontend"], [*ICX_EVENTS, *SPR_EVENTS]),
    ],
)
@pytest.mark.parametrize("smt", [True, False])
def test_names_are_the_kernels(machine: str, form: list[str], own: list[str], smt: bool) -> None:
    files = dict(perf_files(machines.load(machine), smt=smt))
    assert inside(files, "cpu/format/") == sorted([*FORMAT, *form])
    assert inside(files, "cpu/events/") == sorted([*GENERIC, *own])
    assert inside(files, "msr/events/") == ["aperf", "mperf", "tsc"]


def test_line_feeds_are_where_the_kernel_has_them() -> None:
    files = perf_files(machines.load("icx"))
    assert files["cpu/type"] == b"4\n"
    assert files["cpu/events/cpu-cycles"] == b"event=0x3c\n"
    assert files["cpu/events/slots"] == b"event=0x00,umask=0x4"
    assert files["cpu/caps/pmu_name"] == b"icelake\n"


@pytest.mark.parametrize("machine", machines.names())
def test_nftops_reader_understands_them(machine: str, tmp_path: Path) -> None:
    for name, text in perf_files(machines.load(machine)).items():
        path = tmp_path / "sys/bus/event_source/devices" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    cpu = read_pmu("cpu", tmp_path)
    for name in cpu.events:
        assert encode(cpu, name).config
    assert encode(read_pmu("msr", tmp_path), "aperf") == Encoding(12, 1)
    if machine.startswith("skx"):
        specs = uarch_table.load("SKX").events.values()
        for spec in specs:
            if isinstance(spec, PmuTerms):
                encode(read_pmu(spec.pmu, tmp_path), spec.terms)


def test_hyper_threading_makes_topdown_count_for_both_threads() -> None:
    machine = machines.load("skx-4")
    name = "cpu/events/topdown-total-slots"
    on, off = perf_files(machine), perf_files(machine, smt=False)
    assert (on[name], on[f"{name}.scale"]) == (b"event=0x3c,umask=0x0,any=1", b"2")
    assert (off[name], off[f"{name}.scale"]) == (b"event=0x3c,umask=0x0", b"4")
