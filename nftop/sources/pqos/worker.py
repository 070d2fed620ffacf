"""The process that has libpqos loaded: it answers each line of JSON with one.

It ends with its input, after removing its monitors.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from nftop.model.ids import format_cpu_list
from nftop.model.rdt.rdt import Event
from nftop.model.struct import dataclass, field
from nftop.sources.pqos.library import Library, UnusableError
from nftop.sources.pqos.protocol import MsrMetered, MsrReply, MsrRequest, MsrState, line

# libpqos' names of events, and members of its values: the current value, or the increment since the
# last poll. A monitor is an RMID in the register that also has a CPU's class (IA32_PQR_ASSOC). A
# failed start may leave a CPU in another class (a fault of PyPI's pqos and libpqos): starts known
# to fail are not tried, and after any failure every CPU is put back into its class.
_EVENTS: Mapping[Event, tuple[str, str]] = {
    "llc_occupancy": ("l3_occup", "llc"),
    "mbm_total_bytes": ("tmem_bw", "mbm_total_delta"),
    "mbm_local_bytes": ("lmem_bw", "mbm_local_delta"),
}
MeterKey: TypeAlias = tuple[int, int]
"""A class, and a cache by its first CPU."""


class Hardware(Protocol):
    """Interface of `library.Library`."""

    error: type[Exception]

    @property
    def classes(self) -> Any: ...

    @property
    def monitors(self) -> Any: ...

    def rmids(self, cores: Iterable[int]) -> dict[int, int]: ...


@dataclass(slots=True)
class _Meter:
    """A running monitor: its subject, libpqos' handle, and bytes so far."""

    cores: tuple[int, ...]
    handle: Any
    moved: dict[str, int]
    read_at_ns: int = 0


@dataclass(slots=True)
class Meters:
    """The monitors of this process: one for a class' CPUs of one cache."""

    hardware: Hardware
    _running: dict[MeterKey, _Meter] = field(default_factory=dict)
    _moved: dict[MeterKey, dict[str, int]] = field(default_factory=dict)
    # Those that could not begin with this look, and why: to try again costs every CPU a read.
    _state: MsrState | None = None
    _refused: dict[MeterKey, tuple[str, str]] = field(default_factory=dict)

    def read(self, state: MsrState) -> tuple[MsrMetered, ...]:
        """Values of every class; monitors follow CPUs that changed their class.

        A monitor that can't start is tried again with another `state`.
        """
        if state is not self._state:
            self._state = state
            self._refused.clear()
        wanted = _wanted(state)
        results = {key: self._poll_one(key, first=False) for key in self._running}
        polled = {key: ("ERROR", why) for key, why in results.items() if why}
        for key in list(self._running):
            if key in polled or self._running[key].cores != wanted.get(key):
                self._stop(key)
        values = []
        for key, cores in sorted(wanted.items()):
            why = polled.get(key) or self._refused.get(key) or ("", "")
            if key not in self._running and not why[1]:
                why = self._start(key, cores, state)
                if why[1]:
                    self._refused[key] = why
            if why[1]:
                values.append(MsrMetered(*key, why=why))
            else:
                at_ns = self._running[key].read_at_ns
                values.append(MsrMetered(*key, dict(self._moved[key]), at_ns))
        return tuple(values)

    def stop(self) -> None:
        """Stop all: every CPU has RMID 0 again."""
        for key in list(self._running):
            self._stop(key)

    def _start(self, key: MeterKey, cores: tuple[int, ...], state: MsrState) -> tuple[str, str]:
        """Start libpqos; on failure the name of a reason and a message."""
        clos, cache = key
        members = [cpu for cpu in state.cpus[cache] if cpu in state.class_of]
        try:
            busy = _busy(cores, self.hardware.rmids(members), state.rmids)
            if busy:
                return "TAKEN", busy
            before = {core: int(self.hardware.classes.assoc_get(core)) for core in members}
        except self.hardware.error as error:
            return "ERROR", f"libpqos can't read RMIDs: {error}"
        if any(before[core] != clos for core in cores):
            return "WARMING", "its CPUs changed their class meanwhile"
        events = [name for name, _ in _EVENTS.values()]
        try:
            handle = self.hardware.monitors.start(list(cores), events)
        except self.hardware.error as error:
            moved = self._restore(before)
            text = f"libpqos can't meter CPU {format_cpu_list(cores)}: {error}"
            return "ERROR", f"{text}; {moved}" if moved else text
        self._running[key] = _Meter(cores, handle, self._moved.setdefault(key, {}))
        # What was there before belongs to no class: the first poll is where counting begins.
        why = self._poll_one(key, first=True)
        if why:
            self._stop(key)
        return ("ERROR", why) if why else ("", "")

    def _restore(self, before: Mapping[int, int]) -> str:
        """Put every CPU back into its class; which were not in it, in words."""
        put: list[int] = []
        for core, clos in before.items():
            try:
                if int(self.hardware.classes.assoc_get(core)) != clos:
                    self.hardware.classes.assoc_set(core, clos)
                    put.append(core)
            except self.hardware.error as error:
                return f"CPU {core} may be in another class than COS{clos}, where it was: {error}"
        return f"it had moved CPU {format_cpu_list(put)}, now back in its class" if put else ""

    def _poll_one(self, key: MeterKey, *, first: bool) -> str:
        meter = self._running[key]
        try:
            self.hardware.monitors.poll([meter.handle])
        except self.hardware.error as error:
            return f"libpqos can't read the monitor of CPU {format_cpu_list(meter.cores)}: {error}"
        meter.read_at_ns = time.monotonic_ns()
        for event, (_, member) in _EVENTS.items():
            value = int(getattr(meter.handle.values, member))
            if event == "llc_occupancy":
                meter.moved[event] = value
            else:
                meter.moved[event] = meter.moved.get(event, 0) + (0 if first else value)
        return ""

    def _stop(self, key: MeterKey) -> None:
        meter = self._running.pop(key)
        try:
            meter.handle.stop()
        except self.hardware.error:
            return  # its RMID then counts as another program's


def _wanted(state: MsrState) -> dict[MeterKey, tuple[int, ...]]:
    """CPUs to meter together; those whose class was not read are left alone."""
    cores: dict[MeterKey, list[int]] = {}
    if not state.rmids:
        return {}
    for cache, cpus in state.cpus.items():
        for cpu in cpus:
            if cpu in state.class_of:
                cores.setdefault((state.class_of[cpu], cache), []).append(cpu)
    return {key: tuple(cpus) for key, cpus in cores.items()}


def _busy(cores: Sequence[int], rmids: Mapping[int, int], count: int) -> str:
    """Why a start is known to fail: a CPU has a monitor, or none is free."""
    taken = [core for core in cores if rmids.get(core)]
    if taken:
        return (
            f"another program meters CPU {format_cpu_list(taken)}, or one that died left its RMID "
            "there (`pqos --iface=msr -r` frees all)"
        )
    if len({rmid for rmid in rmids.values() if rmid}) >= count - 1:
        return f"all {count} RMIDs of this cache are in use"
    return ""


# Signals of a terminal are for nftop; when it exits, the input ends.
_IGNORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP)


def main() -> int:
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    channel = os.dup(1)
    os.dup2(2, 1)  # whatever libpqos prints is no answer
    try:
        library = Library()
    except UnusableError as error:
        os.write(channel, line(MsrReply(unusable=str(error))))
        return 0
    meters = Meters(library)
    state: MsrState | None = None
    try:
        for text in sys.stdin.buffer:
            request = msgspec.json.decode(text, type=MsrRequest)
            if not request.meter:
                meters.stop()
            try:
                if state is None or request.read_classes:
                    state = library.read_classes(request.quiet)
                reply = MsrReply(state, meters.read(state) if request.meter else ())
            except library.error as error:
                reply = MsrReply(failed=str(error))
            data = line(reply)
            while data:
                data = data[os.write(channel, data) :]
    except BrokenPipeError:
        pass  # the reader is gone
    finally:
        meters.stop()
        library.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
