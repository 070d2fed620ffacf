"""What can become of a core PMU in a guest, and on a kernel that does not know it."""

from __future__ import annotations

import errno

import pytest

from tests.lab import machine as machines
from tests.lab.perf.access import EVERY_TASK
from tests.lab.perf.pmu import load
from tests.lab.perf.sysfs import perf_files
from tests.lab.perf.tree import PerfTree
from tests.lab.tests.events import HARDWARE, POLLER, RAW, Lab, S, model, words

MSR = 12
CYCLES, BRANCHES_OF_CACHE = 0, 0x5


def lab(machine: str, pmu: str) -> Lab:
    created = Lab(machine)
    kind = machines.with_tables(machines.load(machine), machines.PMUS[pmu])
    created.tree = PerfTree(kind, model(), lambda: created.now_ns, paranoid=lambda: EVERY_TASK)
    return created


@pytest.mark.parametrize(
    ("pmu", "codes"),
    [
        ("own", [0, 0, 0, 0, 0]),
        ("no-metrics", [0, 0, 0, errno.EINVAL, 0]),
        ("unknown", [0, errno.ENOENT, 0, 0, 0]),
        ("amd", [0, errno.ENOENT, 0, 0, 0]),
        ("none", [errno.ENOENT, errno.ENOENT, errno.ENOENT, errno.ENOENT, errno.EINVAL]),
    ],
)
def test_what_opens(pmu: str, codes: list[int]) -> None:
    """A generic event, one of caches, a raw one, the slots (to others a code like any), APERF."""
    host = lab("icx", pmu)
    events = [(HARDWARE, CYCLES), (3, BRANCHES_OF_CACHE), (RAW, 0x1C2), (RAW, 0x400), (MSR, 1)]
    assert [host.code(*event) for event in events] == codes
    assert host.code(MSR, 0) == 0


def test_metrics_of_the_slots_are_not_for_guests_without_the_register() -> None:
    for pmu in ("no-metrics", "hidden-metrics"):
        assert lab("spr", pmu).code(RAW, 0x8000) == errno.EINVAL


def test_what_sysfs_shows() -> None:
    shown = {}
    for pmu, changes in machines.PMUS.items():
        files = perf_files(machines.with_tables(machines.load("spr"), changes))
        names = {name.split("/")[0] for name in files}
        shown[pmu] = ("cpu" in names, "cpu/events/slots" in files, "msr/events/aperf" in files)
    assert shown == {
        "own": (True, True, True),
        "cores": (True, True, True),
        "no-metrics": (True, True, True),
        "hidden-metrics": (True, False, True),
        "late-registers": (True, True, True),
        "unknown": (True, False, True),
        "amd": (True, False, True),
        "none": (False, False, False),
    }


def test_config1_is_checked_for_a_register_and_ignored_without_one() -> None:
    microcode, bit, invalid = 0x4C2, 0x8, 1 << 63
    known, ignored = lab("spr", "own"), lab("spr", "late-registers")
    assert known.code(RAW, microcode, config1=bit) == 0
    assert known.code(RAW, microcode, config1=bit | invalid) == errno.EINVAL
    assert ignored.code(RAW, microcode, config1=bit | invalid) == 0
    counted = []
    for host, config1 in ((known, bit), (known, 0), (ignored, bit), (ignored, 0)):
        handle = host.raw(microcode, cpu=POLLER, config1=config1)
        host.now_ns += S
        counted.append(words(handle)[0])
    with_register, without, as_without, _ = counted
    assert with_register != pytest.approx(without, rel=0.01)
    assert as_without == pytest.approx(without, rel=0.01)


def test_without_a_pmu_nothing_is_shown_for_a_watchdog() -> None:
    none = machines.with_tables(machines.load("skx-4"), machines.PMUS["none"])
    assert load(none).held(watchdog=True) == ()
    assert not load(none).watchdog
