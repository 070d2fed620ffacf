"""Debian's `perf` counts boxes in the lab, to the last count, and lists their events."""

from __future__ import annotations

import csv
import functools
import shutil
from collections.abc import Iterator, Mapping, Sequence

import pytest

from nftop.model.sample import Counts
from nftop.sim.uncore import OF_PACKAGE_INDEX, box_counts, box_factors, package_counts
from nftop.uarch import table as uarch_table
from tests.lab import machine as machines
from tests.lab.tests.events import CPUS, S, model
from tests.lab.tests.labs import enter, needs_lab

pytestmark = [
    needs_lab,
    pytest.mark.skipif(shutil.which("perf") is None, reason="perf is missing: linux-perf"),
]
FROM_NS = 60 * S
STEP = "echo step 10 > /sys/fs/lab/live/ctl/clock"
# A machine of each microarchitecture, and events of its tables that go together in one box.
EVENTS: Mapping[str, tuple[str, ...]] = {
    "bdx": ("itom_total", "itom_miss", "cas_read", "cas_write", "link_drs_data_received"),
    "skx-4": ("pcirdcur_hit", "pcirdcur_miss", "cas_read", "cas_write", "link_data_sent"),
    "icx": ("pcirdcur_hit", "itom_miss", "wil_miss", "drd_hit", "cas_read", "link_data_received"),
    "spr": ("itomcachenear_hit", "rfo_hit", "ucrdf_miss", "cas_write", "link_data_sent"),
}
MIB = 2**20


@functools.cache
def grown(step: int = 0) -> Counts:
    """Of each package, in a step of the clock."""
    since, until = (package_counts(model(), FROM_NS + 10 * S * (step + i)) for i in (0, 1))
    return until - since


def perf(machine: str, *commands: str) -> str:
    """What some perf commands print, one after the other, while the clock stands or is stepped."""
    lab = ("--model", machine, "--cpus", str(CPUS), "--no-resctrl", "--freeze", "60")
    ran = enter(*lab, "--", "sh", "-ec", "exec 2>&1; export LC_ALL=C; " + "; ".join(commands))
    assert ran.returncode == 0, ran.stdout
    return ran.stdout


@pytest.mark.parametrize("machine", EVENTS)
def test_wildcards_add_up_and_names_of_the_kernel_s_are_known(machine: str) -> None:
    """The kernel's are listed, have a unit, and one box can be asked for by its number."""
    uarch = uarch_table.load(machines.load(machine).uarch)
    specs = {name: spec for unit in uarch.uncore for name, spec in unit.events.items()}
    wanted = [f"{specs[name].pmu}/{specs[name].terms},name={name}/" for name in EVENTS[machine]]
    arguments = " ".join(f"-e '{event}'" for event in wanted)
    one = "uncore_imc_1/cas_count_write/"
    text = perf(
        machine,
        f"perf stat -a -x, --per-socket {arguments} sh -c '{STEP}'",
        "echo end",
        "perf list --no-desc pmu",
        f"perf stat -a -x, -e uncore_imc/cas_count_read/ -e {one} sh -c '{STEP}'",
        f"perf stat -a -A -x, -e {one} sh -c '{STEP}'",
    )
    text, by_name = text.split("end\n", 1)
    rows = [row for row in csv.reader(text.splitlines()) if len(row) > 6]
    seen = {(row[0], row[4]): (row[2], row[6]) for row in rows}
    assert set(seen) == {(f"S{package}", name) for package in (0, 1) for name in EVENTS[machine]}
    for name in EVENTS[machine]:
        factors = box_factors(specs[name], uarch.name)
        assert factors
        for package in (0, 1):
            counts = grown()[package]
            whole = sum(by * int(counts[OF_PACKAGE_INDEX[key]]) for key, by in factors.items())
            assert seen[f"S{package}", name] == (str(whole), "100.00"), name
            assert whole > 0
    listed = {line.split()[0] for line in by_name.splitlines() if line.startswith("  uncore_")}
    assert one in listed
    rows = [row for row in csv.reader(by_name.splitlines()) if len(row) > 5]
    (reads, *unit_and_name), (_, *_), *by_cpu = ([*row[:3]] for row in rows)
    assert unit_and_name == ["MiB", "uncore_imc/cas_count_read/"]
    column = OF_PACKAGE_INDEX["cas_reads"]
    assert float(reads) == pytest.approx(int(grown(1)[:, column].sum()) * 64 / MIB, abs=0.006)
    # The third step: a count for each package, of the CPU that reads its boxes.
    ends = (FROM_NS + 30 * S, FROM_NS + 20 * S)
    until, since = (box_counts(model(), t, "uncore_imc", uarch.name)[:, 1] for t in ends)
    wrote = (until - since)[:, OF_PACKAGE_INDEX["cas_writes"]]
    assert [cpu for cpu, *_ in by_cpu] == ["CPU0", "CPU4"]
    for (_, value, *_), count in zip(by_cpu, wrote.tolist(), strict=True):
        assert float(value) == pytest.approx(count * 64 / MIB, abs=0.006)


# Names of perf's own tables, what they count, and how much for each.
BY_NAME: Mapping[str, Mapping[str, tuple[int, tuple[str, ...]]]] = {
    "bdx": {
        "LLC_MISSES.MMIO_READ": (64, ("mmio_reads",)),
        "LLC_MISSES.MMIO_WRITE": (64, ("mmio_writes",)),
        "LLC_MISSES.PCIE_READ": (64, ("pcirdcur_miss",)),
        "LLC_REFERENCES.PCIE_READ": (64, ("pcirdcur_hit", "pcirdcur_miss")),
        "UNC_Q_TXL_FLITS_G0.DATA": (8, ("link_lines_sent",)),
    },
    # Of PCIe it counts what goes through the ports, not through the cache.
    "skx-4": {
        "LLC_MISSES.PCIE_READ": (64, ("pcirdcur_hit", "pcirdcur_miss")),
        "LLC_MISSES.PCIE_WRITE": (
            64,
            (
                "itom_hit",
                "itom_miss",
                "rfo_hit",
                "rfo_miss",
                "itomcachenear_hit",
                "itomcachenear_miss",
            ),
        ),
        "LLC_MISSES.MEM_READ": (64, ("cas_reads",)),
        "LLC_MISSES.MEM_WRITE": (64, ("cas_writes",)),
        "UNC_UPI_TXL_FLITS.ALL_DATA": (9, ("link_lines_sent",)),
        "UNC_UPI_RXL_FLITS.ALL_DATA": (9, ("link_lines_received",)),
    },
}


def one_by_one(machine: str, events: Sequence[str]) -> Iterator[tuple[str, int, Counts]]:
    """What perf counts of each on all packages, in a step of its own; and the model meanwhile."""
    text = perf(machine, *(f"perf stat -a -x, -e {event} sh -c '{STEP}'" for event in events))
    rows = [row for row in csv.reader(text.splitlines()) if len(row) > 5]
    for at, (event, row) in enumerate(zip(events, rows, strict=True)):
        assert row[2] == event
        yield event, int(row[0]), grown(at).sum(axis=0)


@pytest.mark.parametrize("machine", ["icx", "spr"])
def test_perf_s_own_names_mean_the_same(machine: str) -> None:
    """The vendor's events as perf's tables encode them: all that nftop's have, one by one."""
    uarch = uarch_table.load(machines.load(machine).uarch)
    of = {uarch.vendor_names[n]: spec for u in uarch.uncore for n, spec in u.events.items()}
    assert len(of) == 20
    for name, count, grew in one_by_one(machine, list(of)):
        factors = box_factors(of[name], uarch.name)
        assert factors is not None
        assert count == sum(by * int(grew[OF_PACKAGE_INDEX[n]]) for n, by in factors.items()), name


@pytest.mark.parametrize("machine", BY_NAME)
def test_perf_s_own_names_on_older_machines(machine: str) -> None:
    for name, count, grew in one_by_one(machine, list(BY_NAME[machine])):
        factor, quantities = BY_NAME[machine][name]
        assert count == factor * sum(
            int(grew[OF_PACKAGE_INDEX[quantity]]) for quantity in quantities
        ), name


def test_boxes_are_read_by_another_cpu_once_theirs_has_gone() -> None:
    folder = "/sys/bus/event_source/devices/uncore_imc_0"
    offline = f"echo 0 > /sys/devices/system/cpu/cpu4/online; cat {folder}/cpumask"
    event = "uncore_imc_0/config=0x304/"
    text = perf(
        "skx-4",
        f"perf stat -a -x, -e {event} -e cycles -C 4 sh -c '{STEP}; {offline}; {STEP}'",
        f"perf stat -a -A -x, -e {event} sh -c '{STEP}'",
    )
    lines = text.splitlines()
    assert lines[0] == "0,5"
    rows = list(csv.reader(lines))[1:]
    (reads, _, _, ran_ns, *_), (cycles, _, _, core_ran_ns, *_) = rows[:2]
    # The box goes on; the core's counter stopped with its CPU.
    assert (int(ran_ns), int(core_ran_ns)) == (20 * S, 10 * S)
    until, since = (box_counts(model(), t, "uncore_imc", "SKX")[1, 0] for t in (80 * S, 60 * S))
    assert int(reads) == int((until - since)[OF_PACKAGE_INDEX["cas_reads"]])
    assert int(cycles) > 0
    assert [row[0] for row in rows[2:]] == ["CPU0", "CPU5"]


def test_opcodes_take_turns() -> None:
    """More opcodes than a box has filters for: each runs half of the time and is scaled up."""
    filters = "filter_rem=1,filter_loc=1,filter_nm=1,filter_not_nm=1"
    events = " ".join(
        f"-e 'uncore_cha/event=0x35,umask=0x14,{filters},filter_opc0={opcode},name={name}/'"
        for name, opcode in (("itom", "0x248"), ("pcirdcur", "0x21e"))
    )
    text = perf("skx-4", f"perf stat -a -x, {events} sh -c '{STEP}'")
    rows = {row[2]: row for row in csv.reader(text.splitlines()) if len(row) > 5}
    for name in ("itom", "pcirdcur"):
        value, _, _, _, percent, *_ = rows[name]
        assert float(percent) == pytest.approx(50, abs=0.1)
        whole = int(grown()[:, OF_PACKAGE_INDEX[f"{name}_hit"]].sum())
        assert int(value) == pytest.approx(whole, rel=0.01)
