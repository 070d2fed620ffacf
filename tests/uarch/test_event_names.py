"""Events by the names that others give them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.uarch.event_names import EventNames, NamedEvent, other_names
from tests.uarch.vectors import UARCHES, loaded


@pytest.mark.parametrize("uarch", UARCHES)
def test_every_event_has_an_entry_by_name_and_encoding(uarch: str) -> None:
    names = EventNames(loaded(uarch))
    vendors = loaded(uarch).vendor_names
    for event in loaded(uarch).events:
        for written in (event, vendors.get(event, event)):
            for name in (written, written.upper(), written.lower(), f" {written} "):
                assert names.find(name) == NamedEvent(event), name
            assert names.find(f"cpu/{written}/") == NamedEvent(event)
            assert names.find(f"cpu_core/{written}/u") == NamedEvent(event, "u")
            assert names.find(f"{written}:S") == NamedEvent(event)


@pytest.mark.parametrize(
    ("uarch", "written", "event", "code"),
    [
        ("SKX", "cpu-cycles", "cycles", ""),
        ("SKX", "ref-cycles", "ref_cycles", ""),
        ("SKX", "instructions:k", "instructions", "k"),
        ("SKX", "instructions:ukS", "instructions", ""),
        ("SKX", "instructions:GHu", "instructions", "GHu"),
        ("SKX", "r19c", "idq_uops_not_delivered_core", ""),
        ("SKX", "r019C:u", "idq_uops_not_delivered_core", "u"),
        ("SKX", "cpu/event=0x9c,umask=0x1/", "idq_uops_not_delivered_core", ""),
        ("SKX", "cpu/umask=1,event=0x9c,cmask=4/k",
         "idq_uops_not_delivered_cycles_0_uops_deliv_core", "k"),
        ("SKX", "cpu/event=0x3c,any=1/", "cycles_any", ""),
        ("SKX", "cpu/event=0x3c,any/", "cycles_any", ""),
        ("SKX", "cpu/event=0x1,name=UOPS_ISSUED.ANY/", "uops_issued_any", ""),
        ("SKX", "cpu_clk_unhalted.thread_any", "cycles_any", ""),
        ("ICX", "slots", "topdown_slots", ""),
        ("ICX", "cpu/topdown-fe-bound/", "perf_metrics_frontend_bound", ""),
        ("ICX", "cpu/INT_MISC.RECOVERY_CYCLES,cmask=1,edge/", "int_misc_clears_count", ""),
        ("EMR", "EXE_ACTIVITY.3_PORTS_UTIL:u0x80", "exe_activity_exe_bound_0_ports", ""),
        ("EMR", "EXE_ACTIVITY.2_PORTS_UTIL:u0xc", "exe_activity_2_3_ports_util", ""),
        ("SRF", "cycles", "cycles", ""),
    ],
)  # fmt: skip
def test_other_names(uarch: str, written: str, event: str, code: str) -> None:
    assert EventNames(loaded(uarch)).find(written) == NamedEvent(event, code)


@pytest.mark.parametrize(
    "written",
    [
        "", "cycles:", "nonsense", "r", "rxyz", "r0", "cpu//", "cpu/event=0x9c,umask=0x1,period=5/",
        "cpu/event=0x19c/", "cpu/event=x/", "cpu/event=-1/", "uncore_imc/cas_count_read/",
        "r19c9c9c9c9c9c9c9c9c", "EXE_ACTIVITY.3_PORTS_UTIL:u0x80",
    ],
)  # fmt: skip
def test_names_of_nothing(written: str) -> None:
    assert EventNames(loaded("HSX")).find(written) is None


@given(st.text())
def test_any_text_names_an_event_or_nothing(written: str) -> None:
    result = EventNames(loaded("SPR")).find(written)
    assert result is None or result.event in loaded("SPR").events


def test_every_other_name_is_one_of_some_table() -> None:
    events = {event for uarch in UARCHES for event in loaded(uarch).events}
    for name, meant in other_names().items():
        assert set(meant) <= events, name
