"""Events of boxes as perf_event_open has them: exact sums, one filter register, its errors."""

from __future__ import annotations

import errno

import pytest

from nftop.sim.uncore import OF_PACKAGE_INDEX, box_counts, box_factors, package_counts
from nftop.sources.perf.pmu import Pmu, encode
from nftop.uarch import table as uarch_table
from nftop.uarch.table import Encoding
from tests.lab import machine as machines
from tests.lab.tests.events import (
    DISABLED,
    ENABLE,
    EXCLUDE_KERNEL,
    GROUP,
    OTHER,
    PINNED,
    ROOT,
    TIMES,
    Lab,
    S,
    id_of,
    model,
    words,
)
from tests.lab.tree import Handle
from tests.lab.uncore.units import Unit, units_of

EVERY = pytest.mark.parametrize("machine", machines.names())
FIRST, SECOND = 0, 4  # a CPU of each package
PACKAGE_OF = {FIRST: 0, SECOND: 1}
MISS, HIT = 0x2435, 0x1435
ITOM, RFO = 0x4903300000000, 0x4003300000000
FREE_RUNNING, CLOCK = 0x20FF, 0xFF


def unit(machine: str, name: str) -> Unit:
    return next(item for item in units_of(machines.load(machine), model()) if item.name == name)


def encoding(of: Unit, box: int, terms: str) -> Encoding:
    return encode(Pmu(of.pmus[box], of.types[box], of.formats, of.events, None), terms)


def open_box(lab: Lab, event: Encoding, **how: int) -> Handle:
    return lab.open(event.pmu_type, event.config, config1=event.config1, **how)


def cha(machine: str = "skx-4", box: int = 0) -> int:
    return unit(machine, "uncore_cha").types[box]


@EVERY
def test_boxes_make_up_what_the_package_did(machine: str) -> None:
    """Of every uncore event that nftop counts, to the last count."""
    uarch = uarch_table.load(machines.load(machine).uarch)
    for of, events in ((unit(machine, item.pmu), item.events) for item in uarch.uncore):
        for name, spec in events.items():
            lab = Lab(machine, now_ns=60 * S)
            opened = {
                cpu: [
                    open_box(lab, encoding(of, box, spec.terms), cpu=cpu)
                    for box in range(len(of.numbers))
                ]
                for cpu in PACKAGE_OF
            }
            lab.now_ns = 70 * S + 123
            grown = package_counts(model(), lab.now_ns) - package_counts(model(), 60 * S)
            factors = box_factors(spec, uarch.name)
            assert factors is not None
            for cpu, boxes in opened.items():
                seen = [words(box) for box in boxes]
                wanted = sum(
                    factor * int(grown[PACKAGE_OF[cpu], OF_PACKAGE_INDEX[quantity]])
                    for quantity, factor in factors.items()
                )
                assert sum(value for value, *_ in seen) == wanted, (name, cpu)
                assert {tuple(times) for _, *times in seen} == {(10 * S + 123, 10 * S + 123)}


def test_a_box_counts_its_own_share() -> None:
    lab = Lab("icx")
    imc = unit("icx", "uncore_imc")
    reads = [open_box(lab, encoding(imc, box, "cas_count_read")) for box in range(12)]
    lab.now_ns = 30 * S
    counts = box_counts(model(), 30 * S, "uncore_imc", "ICX")[0, :, OF_PACKAGE_INDEX["cas_reads"]]
    assert [words(read)[0] for read in reads] == counts.tolist()
    assert [words(read)[0] for read in reads[2::3]] == [0] * 4


def test_any_cpu_of_a_package_does() -> None:
    """The kernel opens it on the one that reads the package's boxes."""
    lab = Lab()
    handles = [lab.open(cha(), MISS, config1=ITOM, cpu=cpu) for cpu in (0, 3, 8, 4, 15)]
    lab.now_ns = S
    counts = [words(handle)[0] for handle in handles]
    assert counts[0] == counts[1] == counts[2] != counts[3] == counts[4]


@pytest.mark.parametrize(
    ("config", "how"),
    [
        (MISS, {"cpu": -1, "pid": 7}),
        (MISS, {"cpu": 0, "pid": 7}),
        (MISS, {"period": 1000}),
        (MISS, {"bits": EXCLUDE_KERNEL}),
        (CLOCK, {}),
        (FREE_RUNNING, {}),
        (MISS, {"cpu": 16}),
    ],
)
def test_what_can_t_be(config: int, how: dict[str, int]) -> None:
    lab = Lab(ran_ns={7: 0})
    assert lab.code(cha(), config, **how) == errno.EINVAL


def test_it_takes_a_privilege() -> None:
    lab = Lab()
    assert lab.code(cha(), MISS, uid=OTHER, privileged=0) == errno.EACCES
    lab.paranoid = 0
    assert lab.code(cha(), MISS, uid=OTHER, privileged=0) == 0
    assert lab.code(cha() + 1000, MISS) == errno.ENOENT
    assert lab.code(cha(), MISS, uid=ROOT) == 0


def test_only_existing_free_running_counters_are_listed() -> None:
    lab = Lab()
    iio = unit("skx-4", "uncore_iio_free_running").types[1]
    handle = lab.open(iio, FREE_RUNNING)
    codes = [lab.code(iio, config) for config in (0x40FF, 0xFF, 0x2083)]
    assert codes == [errno.EINVAL] * 3
    lab.now_ns = 10 * S
    of = box_counts(model(), 10 * S, "uncore_iio_free_running", "SKX")[0, 1]
    wrote = [
        int(of[OF_PACKAGE_INDEX[f"{kind}_{how}"]])
        for kind in ("itom", "rfo", "itomcachenear")
        for how in ("hit", "miss")
    ]
    assert words(handle)[0] == 16 * sum(wrote)


def test_the_clock_has_a_counter_of_its_own() -> None:
    lab = Lab()
    imc = unit("skx-4", "uncore_imc").types[0]
    leader = lab.open(imc, CLOCK, form=TIMES | GROUP)
    for config in (0x304, 0xC04, 0x1, 0x2):
        lab.open(imc, config, leader=id_of(leader))
    with pytest.raises(OSError, match="Invalid argument"):
        lab.open(imc, 0x3, leader=id_of(leader))
    with pytest.raises(OSError, match="Invalid argument"):
        lab.open(imc, CLOCK, leader=id_of(leader))
    lab.now_ns = 3 * S
    assert words(leader)[3] == 3 * 1_200_000_000  # DDR4-2400: a tick for two transfers


def test_two_opcodes_don_t_go_into_one_register() -> None:
    lab = Lab()
    leader = lab.open(cha(), HIT, config1=ITOM, form=TIMES | GROUP)
    lab.open(cha(), MISS, config1=ITOM, leader=id_of(leader))
    with pytest.raises(OSError, match="Invalid argument"):
        lab.open(cha(), MISS, config1=RFO, leader=id_of(leader))
    # What uses no filter goes with any.
    lab.open(cha(), 0x0, config1=RFO, leader=id_of(leader))
    # Bits that the event's filter has no use for don't count.
    lab.open(cha(), MISS, config1=ITOM | 0x1FF, leader=id_of(leader))
    lab.now_ns = 2 * S
    assert words(leader)[1:3] == [2 * S, 2 * S]
    # The other box has a register of its own.
    other = lab.open(cha(box=1), MISS, config1=RFO)
    lab.now_ns = 3 * S
    assert words(other)[1:3] == [S, S]


def test_opcodes_take_turns() -> None:
    lab = Lab()
    handles = [lab.open(cha(), MISS, config1=config1) for config1 in (ITOM, RFO)]
    lab.now_ns = 8 * S
    for handle, kinds in zip(handles, (("itom",), ("rfo", "itomcachenear")), strict=True):
        value, enabled, running = words(handle)
        assert (enabled, running) == (8 * S, 4 * S)
        counts = box_counts(model(), 8 * S, "uncore_cha", "SKX")[0, 0]
        whole = sum(int(counts[OF_PACKAGE_INDEX[f"{kind}_miss"]]) for kind in kinds)
        assert value == pytest.approx(whole / 2, rel=0.01)
    # One that is pinned keeps the other off, and a second pinned one can't be. While it is the
    # other's turn, which finds no room, the kernel tries nobody else.
    pinned = lab.open(cha(), HIT, config1=ITOM, bits=PINNED)
    failed = lab.open(cha(), HIT, config1=RFO, bits=PINNED)
    assert failed.read(64, 0) == b""
    ran = [words(handle)[2] for handle in handles]
    lab.now_ns = 9 * S
    more = [words(item)[2] - before for item, before in zip(handles, ran, strict=True)]
    assert more == pytest.approx([S / 2, 0], abs=10)
    assert words(pinned)[1:3] == [S, S]


def test_ice_lake_has_no_such_register() -> None:
    lab = Lab("icx")
    of = unit("icx", "uncore_cha")
    umasks = (0xC8F3FD04, 0xC8F3FE04, 0xCC43FD04, 0xCC43FE04)
    events = [encoding(of, 0, f"event=0x35,umask={umask:#x}") for umask in umasks]
    leader = open_box(lab, events[0], form=TIMES | GROUP)
    for event in events[1:]:
        open_box(lab, event, leader=id_of(leader))
    with pytest.raises(OSError, match="Invalid argument"):
        open_box(lab, events[0], leader=id_of(leader))
    lab.now_ns = S
    count, enabled, running, *values = words(leader)
    assert (count, enabled, running) == (4, S, S)
    assert all(one > 0 for one in values)
    assert len(set(values)) == 4


def test_what_a_broadwell_box_filters_is_by_event() -> None:
    lab = Lab("bdx")
    of = unit("bdx", "uncore_cbox")
    device = "tid_en=1,filter_tid=0x3e"
    total = encoding(of, 0, f"event=0x35,umask=0x1,filter_opc=0x1c8,{device}")
    miss = encoding(of, 0, f"event=0x35,umask=0x3,filter_opc=0x1c8,{device}")
    of_cores = encoding(of, 0, "event=0x35,umask=0x3,filter_opc=0x1c8,filter_tid=0x1")
    leader = open_box(lab, total, form=TIMES | GROUP)
    open_box(lab, miss, leader=id_of(leader))
    # Without tid_en an event has no use for the thread, but still for the opcode.
    open_box(lab, of_cores, leader=id_of(leader))
    other = encoding(of, 0, "event=0x35,umask=0x3,filter_opc=0x19e")
    with pytest.raises(OSError, match="Invalid argument"):
        open_box(lab, other, leader=id_of(leader))


def test_some_events_have_but_one_counter() -> None:
    lab = Lab("icx")
    leader = lab.open(cha("icx"), 0x36, form=TIMES | GROUP)
    with pytest.raises(OSError, match="Invalid argument"):
        lab.open(cha("icx"), 0x136, leader=id_of(leader))
    lab.open(cha("icx"), 0x135, leader=id_of(leader))


def test_groups_stay_in_their_box() -> None:
    lab = Lab()
    leader = lab.open(cha(), MISS, config1=ITOM)
    core = lab.raw(0xC0)
    for pmu_type, config, of in (
        (cha(box=1), MISS, leader),
        (cha(), MISS, core),
        (4, 0xC0, leader),
    ):
        with pytest.raises(OSError, match="Invalid argument"):
            lab.open(pmu_type, config, leader=id_of(of))
    with pytest.raises(OSError, match="Invalid argument"):
        lab.open(cha(), MISS, config1=ITOM, cpu=SECOND, leader=id_of(leader))


def test_events_go_with_the_package_s_reader() -> None:
    lab = Lab()
    handle = lab.open(cha(), MISS, config1=ITOM)
    core = lab.raw(0xC0)
    lab.now_ns = S
    lab.online -= {0}
    first, seen = words(handle), words(core)
    lab.now_ns = 2 * S
    value, enabled, running = words(handle)
    assert value > first[0]
    assert (enabled, running) == (2 * S, 2 * S)
    assert words(core) == seen
    # It may even be opened on the CPU that is gone: that is in the package.
    again = lab.open(cha(), MISS, config1=ITOM, cpu=0)
    lab.now_ns = 3 * S
    assert words(again)[1] == S


def test_it_counts_what_happens_while_it_is_on() -> None:
    lab = Lab(now_ns=5 * S)
    handle = lab.open(cha(), MISS, config1=ITOM, bits=DISABLED)
    lab.now_ns = 6 * S
    assert words(handle) == [0, 0, 0]
    handle.ioctl(ENABLE, 0, None)
    counted = []
    for at_s in (7, 8):
        lab.now_ns = at_s * S
        counted.append(words(handle)[0])
    share = [box_counts(model(), at * S, "uncore_cha", "SKX")[0, 0] for at in (6, 7, 8)]
    column = OF_PACKAGE_INDEX["itom_miss"]
    assert counted == [int(item[column] - share[0][column]) for item in share[1:]]


def test_the_model_does_not_know_every_unit() -> None:
    lab = Lab("spr")
    types = [item.types[0] for item in units_of(machines.load("spr"), model())]
    handles = [lab.open(type_, 0x77) for type_ in types if not lab.code(type_, 0x77)]
    lab.now_ns = S
    assert [words(handle) for handle in handles] == [[0, S, S]] * 9
    # The other two are free running.
    assert len(types) == 11
    reported = lab.tree.unknown.splitlines()
    assert len(reported) == 9 and "uncore_cha/event=0x77/ 2" in reported
