"""The files by which a machine's PMUs are found, as data.

Names and texts are those of Linux 6.1 on such models; the numbers of PMUs without a fixed one are
handed out at boot and so are each machine's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tests.lab.machine import Machine
from tests.lab.perf.pmu import load, sysfs_of

_SOFTWARE, _TRACEPOINT, _CORE, _BREAKPOINT = 1, 2, 4, 5
_MSR_EVENTS = MappingProxyType({"tsc": 0x00, "aperf": 0x01, "mperf": 0x02})


def perf_files(machine: Machine, *, smt: bool = True) -> Mapping[str, bytes]:
    """The files below /sys/bus/event_source/devices, by path from there: `cpu/format/umask`."""
    pmu = load(machine, smt=smt)
    table = sysfs_of(pmu)
    texts = {
        "software/type": str(_SOFTWARE),
        "tracepoint/type": str(_TRACEPOINT),
        "breakpoint/type": str(_BREAKPOINT),
        "msr/type": str(pmu.msr_type),
        "msr/format/event": "config:0-63",
    }
    texts |= {f"msr/events/{name}": f"event=0x{_MSR_EVENTS[name]:02x}" for name in pmu.msrs}
    if pmu.available:
        texts["cpu/type"] = str(_CORE)
        texts |= {f"cpu/{name}": text for name, text in table.items() if isinstance(text, str)}
        texts |= {f"cpu/format/{name}": text for name, text in table["format"].items()}
        events = table["events"] | table.get("events_smt_on" if smt else "events_smt_off", {})
        shown = {name: text for name, text in events.items() if name not in pmu.hidden}
        texts |= {f"cpu/events/{name}": text for name, text in shown.items()}
    return {path: _file(path, text) for path, text in texts.items()}


def _file(path: str, text: str) -> bytes:
    # What arch/x86/events/intel/core.c gives as a string is shown without a line feed.
    bare = path.startswith(("cpu/events/topdown-", "cpu/events/slots"))
    return (text if bare else f"{text}\n").encode("ascii")
