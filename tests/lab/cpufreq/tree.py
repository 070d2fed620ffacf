"""The folders below /sys/devices/system/cpu: cpufreq, intel_pstate, intel_uncore_frequency.

A policy without a CPU online keeps its folder, whose files can be neither read nor written (EBUSY,
`show` and `store` of drivers/cpufreq/cpufreq.c).
"""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable, Iterator, Mapping

from tests.lab.cpufreq.host import Cpufreq, Mesh, is_active
from tests.lab.cpufreq.policy import EPPS, Policy
from tests.lab.texts import Text
from tests.lab.tree import failed

SYSTEM_CPU = "/sys/devices/system/cpu"
# Gives the frequency (kHz) of a policy's CPUs as they run now.
Current = Callable[[Policy], int]


def texts(
    host: Cpufreq | None, online: Callable[[], frozenset[int]], current: Current
) -> Mapping[str, Text]:
    """Every file, by its path below `SYSTEM_CPU`."""
    if host is None:
        return {}
    files: dict[str, Text] = {}
    for number, policy in host.policies.items():
        for name, text in _of_policy(policy, online, current):
            guarded = functools.partial(_guarded, text, policy, online)
            files[f"cpufreq/policy{number}/{name}"] = guarded()
    if host.pstate:
        files |= {f"intel_pstate/{name}": text for name, text in _of_pstate(host)}
    for mesh in host.meshes:
        at = f"intel_uncore_frequency/package_{mesh.package:02}_die_{mesh.die:02}"
        files |= {f"{at}/{name}": text for name, text in _of_mesh(mesh)}
    return files


def folders(host: Cpufreq | None) -> tuple[str, ...]:
    """The folders that something is mounted on. Every kernel has the first, be it empty."""
    if host is None:
        return ("cpufreq",)
    return ("cpufreq", *["intel_pstate"] * host.pstate, "intel_uncore_frequency")


def links(host: Cpufreq | None) -> Mapping[str, str]:
    """Links below `SYSTEM_CPU`: of each CPU, online or not, to its policy."""
    policies = {} if host is None else host.policies
    return {
        f"cpu{cpu}/cpufreq": f"../cpufreq/policy{number}"
        for number, policy in policies.items()
        for cpu in policy.cpus
    }


def _guarded(text: Text, policy: Policy, online: Callable[[], frozenset[int]]) -> Text:
    def check() -> None:
        if not is_active(policy, online):
            raise failed(errno.EBUSY)

    def read() -> str:
        check()
        return text.read()

    def write(data: str) -> None:
        check()
        assert text.write is not None
        text.write(data)

    return Text(read, write if text.write is not None else None)


def _of_policy(
    policy: Policy, online: Callable[[], frozenset[int]], current: Current
) -> Iterator[tuple[str, Text]]:
    def fixed(value: object) -> Text:
        return Text(lambda: f"{value}\n")

    yield "affected_cpus", Text(lambda: _cpus(sorted(online() & frozenset(policy.cpus))))
    yield "related_cpus", Text(lambda: _cpus(policy.cpus))
    yield "cpuinfo_min_freq", fixed(policy.hardware_min_khz)
    yield "cpuinfo_max_freq", fixed(policy.hardware_max_khz)
    yield "cpuinfo_transition_latency", fixed(0 if not policy.table_khz else 10_000)
    yield "scaling_driver", fixed(policy.driver)
    yield "scaling_governor", Text(lambda: f"{policy.governor}\n", policy.set_governor)
    yield (
        "scaling_available_governors",
        Text(lambda: " ".join(policy.governors) + (" \n" if policy.table_khz else "\n")),
    )
    yield "scaling_min_freq", Text(lambda: f"{policy.limits_khz()[0]}\n", policy.write_min)
    yield "scaling_max_freq", Text(lambda: f"{policy.limits_khz()[1]}\n", policy.write_max)
    yield "scaling_cur_freq", Text(lambda: f"{current(policy)}\n")
    yield "scaling_setspeed", Text(lambda: "<unsupported>\n", _unsupported)
    if policy.table_khz:
        shown = "".join(f"{item} " for item in reversed(policy.table_khz))
        yield "scaling_available_frequencies", Text(lambda: f"{shown}\n")
    if policy.base_khz is not None:
        yield "base_frequency", fixed(policy.base_khz)
    if policy.epp is not None:
        names = "".join(f"{name} " for name in EPPS)
        yield "energy_performance_available_preferences", Text(lambda: f"{names}\n")
        yield (
            "energy_performance_preference",
            Text(lambda: f"{policy.shown_epp()}\n", policy.set_epp),
        )


def _of_pstate(host: Cpufreq) -> Iterator[tuple[str, Text]]:
    yield "status", Text(lambda: "active\n", host.set_status)
    yield "no_turbo", Text(lambda: f"{host.no_turbo}\n", host.set_no_turbo)
    yield (
        "min_perf_pct",
        Text(lambda: f"{host.min_percent}\n", functools.partial(host.set_percent, "min")),
    )
    yield (
        "max_perf_pct",
        Text(lambda: f"{host.max_percent}\n", functools.partial(host.set_percent, "max")),
    )
    yield "turbo_pct", Text(lambda: f"{host.turbo_percent}\n")
    yield "num_pstates", Text(lambda: f"{host.state_count}\n")
    if host.hwp:
        yield "hwp_dynamic_boost", Text(lambda: "0\n")


def _of_mesh(mesh: Mesh) -> Iterator[tuple[str, Text]]:
    yield "min_freq_khz", Text(lambda: f"{mesh.min_khz}\n", functools.partial(mesh.ask, "min"))
    yield "max_freq_khz", Text(lambda: f"{mesh.max_khz}\n", functools.partial(mesh.ask, "max"))
    yield "initial_min_freq_khz", Text(lambda: f"{mesh.initial_min_khz}\n")
    yield "initial_max_freq_khz", Text(lambda: f"{mesh.initial_max_khz}\n")
    yield "current_freq_khz", Text(lambda: f"{mesh.max_khz}\n")


def _cpus(cpus: tuple[int, ...] | list[int]) -> str:
    return " ".join(map(str, cpus)) + "\n"


def _unsupported(_text: str) -> None:
    raise failed(errno.EINVAL)
