"""What interrupts or delays a core that polls: the scheduler, the tick, callbacks, idle states.

Files: the kernel's Documentation/ABI/testing/sysfs-devices-system-cpu (isolated, nohz_full,
cpuidle), Documentation/admin-guide/kernel-parameters.txt (isolcpus, nohz_full, rcu_nocbs) and
Documentation/power/pm_qos_interface.rst (/dev/cpu_dma_latency, pm_qos_resume_latency_us).
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from nftop.model.ids import Cpu, format_cpu_list, parse_cpu_list
from nftop.model.reading import Reason
from nftop.sources.host.sysfs import read_up_to
from nftop.sources.tuning.look import CPU, NOBODY_POLLS, Found, Look, as_advised, cpus, otherwise

_GRUB = "in the kernel's command line (GRUB_CMDLINE_LINUX of /etc/default/grub; then reboot)"
# The names that intel_idle and acpi_idle give: C1 and C1E wake up in a few microseconds.
_DEEP = re.compile(r"C([2-9]|[1-9][0-9]).*")
_STATE = re.compile(r"state([0-9]{1,2})")
_ANY_LATENCY, _NO_LATENCY = "0", "n/a"
# A request of 2000 s is none: PM_QOS_CPU_LATENCY_DEFAULT_VALUE.
_NO_REQUEST_US = 2_000_000_000


def isolation(look: Look) -> Iterator[Found]:
    """Whether the scheduler puts nothing else on the CPUs that poll."""
    isolated = look.tree.cpus(f"{CPU}/isolated")
    if isolated is None:
        yield Found(Reason.SOURCE, "the kernel does not say which CPUs are isolated")
        return
    found = set(isolated) | set(_partitions(look))
    yield _covered(look, found, "isolated from the scheduler", "isolcpus")
    # Of others that are busy all the time nothing says that they forward packets.
    roaming = {(p.program, p.pid, p.cpu) for p in look.pollers if p.kind and not p.pinned}
    for name, pid, last in sorted(roaming):
        yield otherwise(
            f"{name}[{pid}] polls and is not pinned: the scheduler has it on CPU {last} now",
            "give it cores of its own",
        )


def tick(look: Look) -> Iterator[Found]:
    """Whether the timer's tick is off on the CPUs that poll."""
    found = look.tree.cpus(f"{CPU}/nohz_full")
    if found is None:
        yield Found(Reason.HARDWARE, "this kernel can't switch the tick off (CONFIG_NO_HZ_FULL)")
    else:
        yield _covered(look, found, "without a tick (nohz_full)", "nohz_full")


def callbacks(look: Look) -> Iterator[Found]:
    """Whether RCU's callbacks run elsewhere than on the CPUs that poll."""
    line = look.tree.text("proc/cmdline")
    if line is None:
        yield Found(Reason.SOURCE, "the kernel's command line can't be read")
        return
    told = [word.partition("=")[2] for word in line.split() if word.startswith("rcu_nocbs=")]
    try:
        named = {cpu for text in told for cpu in _cpus_of(look, text)}
    except ValueError:
        yield Found(Reason.ERROR, f"rcu_nocbs={told[-1]} names no CPUs that can be read")
        return
    # What has no tick has no callbacks either: the kernel adds them by itself.
    named |= set(look.tree.cpus(f"{CPU}/nohz_full") or ())
    yield _covered(look, named, "without RCU callbacks (rcu_nocbs)", "rcu_nocbs")


def idle_states(look: Look) -> Iterator[Found]:
    """How deep the CPUs may sleep."""
    try:
        request_us, unseen = _request_us(look), ""
    except PermissionError:
        request_us = _NO_REQUEST_US
        unseen = ", unless a program forbids it by /dev/cpu_dma_latency, which only root can tell"
    except OSError as error:
        request_us, unseen = _NO_REQUEST_US, f"; /dev/cpu_dma_latency: {error.strerror}"
    usable = {cpu: _enabled(look, cpu, request_us) for cpu in look.judged}
    deepest = {cpu: states[-1] for cpu, states in usable.items() if states}
    if not deepest:
        driver = look.tree.text(f"{CPU}/cpuidle/current_driver") or "none"
        yield Found(Reason.HARDWARE, f"the kernel manages no idle states here (driver {driver})")
        return
    by_state: dict[_State, list[Cpu]] = {}
    for cpu, state in deepest.items():
        by_state.setdefault(state, []).append(cpu)
    text = "; ".join(
        f"{cpus(where)} may sleep as deep as {state.name}, {state.latency_us} us to wake up"
        for state, where in sorted(by_state.items(), key=lambda item: item[1][0])
    )
    if request_us < _NO_REQUEST_US:
        text += f"; a program holds all to {request_us} us by /dev/cpu_dma_latency"
    deep = [cpu for cpu in deepest if any(map(_is_deep, usable[cpu]))]
    if not deep:
        yield as_advised(text)
        return
    least = min(item.latency_us for cpu in deep for item in usable[cpu] if _is_deep(item))
    yield otherwise(text + unseen, f"sudo cpupower -c {format_cpu_list(deep)} idle-set -D {least}")


@dataclass(frozen=True, slots=True)
class _State:
    name: str
    latency_us: int


def _is_deep(state: _State) -> bool:
    return _DEEP.fullmatch(state.name) is not None


def _request_us(look: Look) -> int:
    """What programs allow all CPUs for waking up. OSError where that can't be read."""
    try:
        raw = read_up_to(os.fspath(look.root / "dev/cpu_dma_latency"), 4)
    except FileNotFoundError:
        return _NO_REQUEST_US
    return int(struct.unpack("=i", raw)[0]) if len(raw) == 4 else _NO_REQUEST_US


def _enabled(look: Look, cpu: Cpu, request_us: int) -> list[_State]:
    """The idle states that a CPU may enter, the deepest last."""
    at = f"{CPU}/cpu{cpu}"
    numbers = sorted(int(hit[1]) for hit in map(_STATE.fullmatch, look.tree.names(f"{at}/cpuidle"))
                     if hit)  # fmt: skip
    # Who wants a CPU to wake up sooner writes that here; the kernel keeps to it.
    limit = look.tree.text(f"{at}/power/pm_qos_resume_latency_us") or _ANY_LATENCY
    states = []
    for number in numbers:
        folder = f"{at}/cpuidle/state{number}"
        latency = look.tree.number(f"{folder}/latency")
        if latency is None or look.tree.number(f"{folder}/disable") != 0:
            continue
        if latency > request_us or (limit == _NO_LATENCY and latency > 0):
            continue
        if limit.isdecimal() and limit != _ANY_LATENCY and latency > int(limit):
            continue
        states.append(_State(look.tree.text(f"{folder}/name") or f"state {number}", latency))
    return states


def _covered(look: Look, found: Collection[Cpu], what: str, parameter: str) -> Found:
    there = f"{cpus(sorted(found)) if found else 'none'} {'are' if len(found) > 1 else 'is'} {what}"
    if not look.polled:
        nobody = NOBODY_POLLS if not look.pollers else "no thread that polls is pinned"
        return Found(Reason.IDLE, f"{nobody}; {there}")
    missing = sorted(set(look.polled) - set(found))
    if not missing:
        return as_advised(f"all that is polled on is {what}: {cpus(look.polled)}")
    wanted = format_cpu_list(sorted({*found, *look.polled}))
    who = ", ".join(sorted({p.program for p in look.pollers if p.pinned and p.cpu in missing}))
    text = f"polled on by {who} but not {what}: {cpus(missing)}; {there}"
    return otherwise(text, f"{parameter}={wanted} {_GRUB}")


def _partitions(look: Look) -> tuple[Cpu, ...]:
    """CPUs that control groups have isolated; Linux 6.8 and later says which."""
    text = look.tree.text("sys/fs/cgroup/cpuset.cpus.isolated")
    try:
        return parse_cpu_list(text) if text else ()
    except ValueError:
        return ()


def _cpus_of(look: Look, text: str) -> tuple[Cpu, ...]:
    if text == "all":
        return tuple(info.cpu for info in look.topology.cpus)
    # The last CPU may be called N, which is not a number anyone else needs.
    last = look.topology.cpus[-1].cpu if look.topology.cpus else 0
    return parse_cpu_list(re.sub(r"\bN\b", str(last), text))
