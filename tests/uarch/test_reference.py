"""Every table against the facts it restates."""

from __future__ import annotations

import pytest

from nftop.sources.perf.pmu import Pmu, encode
from nftop.uarch import grammar, table
from nftop.uarch.event_names import EventNames, NamedEvent
from nftop.uarch.events import Encoding
from nftop.uarch.explain import perf_name
from nftop.uarch.sections import Uncore
from nftop.uarch.table import Uarch
from tests.uarch.counters import CORE, core_encoding, on_core
from tests.uarch.vectors import UARCHES, facts, loaded

# Not in the reference: the architectural events "LLC misses" and "unhalted reference cycles", Intel
# SDM volume 3, and CPU_CLK_UNHALTED.ONE_THREAD_ACTIVE of the vendor's event files.
ARCHITECTURAL = {"llc_misses": 0x412E, "ref_xclk": 0x13C, "one_thread_active": 0x23C}
# A factor that is the same above and below the line.
CANCELLED = {"MEM_LOAD_RETIRED.FB_HIT"}
# How the reference calls the units and, where it has a name of its own, their events.
UNITS = {"cha": "cha", "cbox": "cha", "imc": "imc", "upi": "link", "qpi": "link"}
OWN_NAMES = {
    "cas_read": "rd",
    "cas_write": "wr",
    "cas_read_sch0": "rd_sch0",
    "cas_read_sch1": "rd_sch1",
    "cas_write_sch0": "wr_sch0",
    "cas_write_sch1": "wr_sch1",
    "link_data_sent": "tx_data",
    "link_data_received": "rx_data",
    "link_drs_data_received": "pcm_rx_drs_data",
    "link_ncb_data_received": "pcm_rx_ncb_data",
    "mmio_read": "PRd.perfmon_variant",
    "mmio_write": "WiL.perfmon_variant",
}
OPCODES = {"CRd_core": "crd", "DRd_core": "drd"}


def test_a_table_for_every_microarchitecture() -> None:
    assert set(table.names()) == {"generic", *UARCHES}


@pytest.mark.parametrize("uarch", UARCHES)
def test_every_core_event_is_the_reference_s(uarch: str) -> None:
    known, listed = loaded(uarch), facts(uarch)["events"]
    differences = []
    for event, spec in known.events.items():
        if on_core(spec):
            name = known.vendor_names[event]
            config, _, _, *register = listed.get(name, ["-1", 0, 0])
            code = ARCHITECTURAL.get(event) or int(config, 0)
            theirs = (code, int(register[0], 0) if register else 0)
            ours = core_encoding(spec)
            if (ours.config, ours.config1) != theirs:
                differences.append((event, name, ours, theirs))
    assert differences == []
    # Two names for one code would be counted twice.
    codes = [core_encoding(spec) for spec in known.events.values() if on_core(spec)]
    assert len(codes) == len(set(codes))


# By event and umask, the term of sysfs for the register that an event needs beside its counter.
REGISTER_TERMS = {
    0x1B7: "offcore_rsp",
    0x1BB: "offcore_rsp",
    0x12A: "offcore_rsp",
    0x12B: "offcore_rsp",
    0x4C2: "frontend",
    0x40AD: "frontend",
}


@pytest.mark.parametrize("uarch", UARCHES)
def test_perf_is_given_the_reference_s_encodings(uarch: str) -> None:
    """Of every event config and config1, the latter by the name of its register."""
    known = loaded(uarch)
    for event, spec in known.events.items():
        printed = perf_name(spec)
        if not on_core(spec) or not printed.startswith("cpu/"):
            continue
        terms = printed.removeprefix("cpu/").rstrip("/")
        assert encode(CORE, terms) == core_encoding(spec), event
        register = core_encoding(spec).config1
        wanted = {REGISTER_TERMS[core_encoding(spec).config & 0xFFFF]} if register else set()
        named = {term.partition("=")[0] for term in terms.split(",")}
        assert named & set(REGISTER_TERMS.values()) == wanted, event


@pytest.mark.parametrize("uarch", ["SPR", "EMR", "GNR"])
def test_microcode_is_counted_with_the_frontend_s_register(uarch: str) -> None:
    spec = loaded(uarch).events["uops_retired_ms"]
    assert core_encoding(spec) == Encoding(4, 0x4C2, 0x8)
    assert "frontend=0x8" in perf_name(spec).split(",")[-1]
    names = EventNames(loaded(uarch))
    assert names.find("cpu/event=0xc2,umask=0x4,frontend=0x8/") == NamedEvent("uops_retired_ms")
    # Without the register the same code counts something else.
    assert names.find("r4c2") is None
    assert names.find("cpu/event=0xc2,umask=0x4/") is None


@pytest.mark.parametrize("uarch", UARCHES)
def test_the_formulas_read_what_the_reference_s_do(uarch: str) -> None:
    known, nodes = loaded(uarch), facts(uarch)["nodes"]
    needed = {event for node in nodes.values() for events in node[3:] for event in events}
    ours = {name for event, name in known.vendor_names.items() if event in known.events}
    assert needed - ours <= CANCELLED
    # And every event of the table is counted by a plan or read by a formula.
    read = {event for plan in known.plans for group in plan.groups for event in group}
    assert known.topdown
    for terms in (known.topdown.terms_smt_on, known.topdown.terms_smt_off):
        for text in (*terms.values(), *known.topdown.nodes.values(), *known.probes.values()):
            read |= set(grammar.names(grammar.parse(text)))
    assert set(known.events) - read == set()


@pytest.mark.parametrize("uarch", UARCHES)
def test_every_uncore_event_is_the_reference_s(uarch: str) -> None:
    known = loaded(uarch)
    differences: list[object] = []
    for unit in known.uncore:
        facts_of = facts(uarch)["uncore"][UNITS[unit.name]]
        assert f"{unit.pmu}_%d" == facts_of["pmu"]
        pmu = Pmu(unit.pmu, 30, facts_of["format"], {}, None)
        theirs = {own_name(name): event for name, event in facts_of["events"].items()}
        for event, spec in unit.events.items():
            ours = encode(pmu, spec.terms)
            config, config1, vendor = theirs.get(event, ("-1", None, None))
            if (ours.config, ours.config1) != (int(config, 0), int(config1 or "0", 0)):
                differences.append((event, ours, config, config1))
            if known.vendor_names.get(event) != vendor:
                differences.append((event, known.vendor_names.get(event), vendor))
    assert differences == []


def own_name(theirs: str) -> str:
    """Our name for an uncore event of the reference."""
    for ours, name in OWN_NAMES.items():
        if name == theirs:
            return ours
    opcode, _, end = theirs.partition(".")
    return f"{OPCODES.get(opcode, opcode.lower())}_{end}"


@pytest.mark.parametrize("uarch", UARCHES)
def test_identity_counters_and_nodes_are_the_reference_s(uarch: str) -> None:
    known, output = loaded(uarch), facts(uarch)
    assert known.counters and known.topdown
    assert {cpu.vendor for cpu in known.cpuid} == {"GenuineIntel"}
    assert [
        [cpu.family, cpu.model, cpu.first_stepping, cpu.last_stepping] for cpu in known.cpuid
    ] == [[6, *cpu] for cpu in output["cpuid"]]
    general = [known.counters.general_smt_on, known.counters.general_smt_off]
    assert (general, known.counters.width_bits) == (output["general"], output["width"])
    assert known.topdown.slots_per_cycle == output["slots"]
    ours = {
        name: [level, known.topdown.parent.get(name), known.topdown.threshold.get(name)]
        for name, level in known.topdown.level.items()
    }
    theirs = {
        name.lower(): [level, parent and parent.lower(), threshold]
        for name, (level, parent, threshold, *_) in output["nodes"].items()
    }
    assert ours == theirs


def test_cpus_are_distinguished() -> None:
    seen: dict[tuple[int, int], str] = {}
    for uarch in UARCHES:
        for model, first, last in facts(uarch)["cpuid"]:
            for stepping in range(first, last + 1):
                assert seen.setdefault((model, stepping), uarch) == uarch
    models = {model + near for model, _ in seen for near in (-1, 0, 1)}
    for model in sorted(models):
        for stepping in (0, 3, 4, 5, 7, 11, 15):
            wanted = seen.get((model, stepping), "generic")
            assert table.identify("GenuineIntel", 6, model, stepping) == wanted, (model, stepping)
    assert table.identify("AuthenticAMD", 6, 0x55, 4) == "generic"
    assert table.identify("GenuineIntel", 7, 0x55, 4) == "generic"


def filters(known: Uarch, unit: Uncore, name: str) -> set[int]:
    listed = facts(known.name)["uncore"][UNITS[unit.name]]["format"]
    pmu = Pmu(unit.pmu, 30, listed, {}, None)
    turns = [turn for turn in (*unit.turns, *unit.on_demand) if name in turn]
    return {encode(pmu, unit.events[event].terms).config1 for turn in turns for event in turn}


@pytest.mark.parametrize("uarch", UARCHES)
def test_a_filter_serves_one_opcode_at_a_time(uarch: str) -> None:
    known = loaded(uarch)
    for unit in known.uncore:
        for event in unit.events:
            assert len(filters(known, unit, event)) == 1


@pytest.mark.parametrize("uarch", UARCHES)
def test_traffic_reads_every_uncore_event(uarch: str) -> None:
    known = loaded(uarch)
    read = {name for text in known.traffic.values() for name in grammar.names(grammar.parse(text))}
    assert read == {event for unit in known.uncore for event in unit.events}
    wanted = {
        f"pcie.{opcode}.{end}_per_s"
        for opcode in ("itom", "rfo", "pcirdcur")
        for end in ("hit", "miss", "total")
    } | {f"{what}.{way}_bytes_per_s" for what in ("pcie", "memory") for way in ("read", "write")}
    assert wanted <= set(known.traffic)
