"""Which counter the kernel gives each event of a group, by the tables' counters.

As arch/x86/events/core.c does it, perf_assign_events: events that few counters can count come
first, otherwise the order in which they were opened counts; each gets the lowest counter left.
"""

from __future__ import annotations

from collections.abc import Iterable

from nftop.sources.perf.pmu import Pmu, encode
from nftop.uarch.table import Encoding, EventSpec, PmuTerms
from tests.uarch import vectors
from tests.uarch.vectors import loaded

ANY = 0xFF
# /sys/bus/event_source/devices/cpu: `any` up to Cascade Lake, the events from Ice Lake on.
CORE = Pmu(
    "cpu",
    4,
    {
        "event": "config:0-7",
        "umask": "config:8-15",
        "edge": "config:18",
        "any": "config:21",
        "inv": "config:23",
        "cmask": "config:24-31",
        "offcore_rsp": "config1:0-63",
        "frontend": "config1:0-23",
    },
    {
        "slots": "event=0x00,umask=0x4",
        "topdown-retiring": "event=0x00,umask=0x80",
        "topdown-bad-spec": "event=0x00,umask=0x81",
        "topdown-fe-bound": "event=0x00,umask=0x82",
        "topdown-be-bound": "event=0x00,umask=0x83",
        "topdown-heavy-ops": "event=0x00,umask=0x84",
        "topdown-br-mispredict": "event=0x00,umask=0x85",
        "topdown-fetch-lat": "event=0x00,umask=0x86",
        "topdown-mem-bound": "event=0x00,umask=0x87",
    },
    None,
)


def on_core(spec: EventSpec) -> bool:
    return spec.pmu_type == 4 if isinstance(spec, Encoding) else spec.pmu == "cpu"


def in_perf_metrics(spec: EventSpec) -> bool:
    """It is a part of PERF_METRICS, which takes no counter beside that of slots."""
    return core_encoding(spec).config & ~0x0F00 == 0x8000


def core_encoding(spec: EventSpec) -> Encoding:
    encoding = encode(CORE, spec.terms) if isinstance(spec, PmuTerms) else spec
    plain = Encoding(4, encoding.config, encoding.config1)
    assert encoding == plain, "a raw event, if need be with a register beside it"
    return encoding


def assigned(
    uarch: str, events: Iterable[str], *, general: int, watchdog: bool
) -> dict[str, int] | None:
    """The general counter of each event that needs one; None if they don't fit.

    The NMI watchdog has the fixed counter of cycles.
    """
    known = loaded(uarch)
    assert known.counters
    free = [fixed for fixed in known.counters.fixed if not (watchdog and "cycles" in fixed)]
    waiting: list[tuple[int, str, int]] = []
    for event in events:
        spec = known.events[event]
        fixed = next((slot for slot in free if event in slot), None)
        if fixed is not None:
            free.remove(fixed)
        elif on_core(spec) and not in_perf_metrics(spec):
            mask = kernel_mask(uarch, event) & (1 << general) - 1
            # What may be on a fixed counter too has one more to choose from.
            choice = mask.bit_count() + any(event in slot for slot in known.counters.fixed)
            waiting.append((choice, event, mask))
    given: dict[str, int] = {}
    for _, event, mask in sorted(waiting, key=lambda item: item[0]):
        left = [at for at in range(general) if mask >> at & 1 and at not in given.values()]
        if not left:
            return None
        given[event] = left[0]
    return given


def kernel_mask(uarch: str, event: str) -> int:
    """The general counters that the kernel would use for an event."""
    return _masks(uarch, event)[0]


def counting_mask(uarch: str, event: str) -> int:
    """Those that can count it, by the vendor's event files."""
    return _masks(uarch, event)[1]


def _masks(uarch: str, event: str) -> tuple[int, int]:
    listed = vectors.facts(uarch)["events"].get(loaded(uarch).vendor_names[event])
    if listed is None or listed[1] == 0:  # not in the reference, or rather on a fixed counter
        return ANY, ANY
    return listed[1], listed[2]
