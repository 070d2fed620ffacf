"""At what frequency the cores run, and by which clock the kernel tells the time.

Files: the kernel's Documentation/admin-guide/pm/cpufreq.rst and intel_pstate.rst.
"""

from __future__ import annotations

from collections.abc import Iterator

from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.reading import Reason
from nftop.sources.tuning.look import CPU, Found, Look, as_advised, cpus, otherwise

_NO_TURBO = f"{CPU}/intel_pstate/no_turbo"
_BOOST = f"{CPU}/cpufreq/boost"
_CLOCKSOURCE = "sys/devices/system/clocksource/clocksource0"


def turbo(look: Look) -> Iterator[Found]:
    """Whether cores may run faster than is guaranteed."""
    no_turbo, boost = look.tree.number(_NO_TURBO), look.tree.number(_BOOST)
    if no_turbo is None and boost is None:
        driver = _of_cpu(look, look.judged[0], "scaling_driver") if look.judged else None
        why = f"the kernel has no switch for turbo here (cpufreq driver {driver or 'none'})"
        yield Found(Reason.HARDWARE, why)
        return
    path, is_off = (_NO_TURBO, no_turbo == 1) if no_turbo is not None else (_BOOST, boost == 0)
    if is_off:
        yield as_advised(f"turbo is off (/{path})")
        return
    ranges = {cpu: (_khz(look, cpu, "base_frequency"), _khz(look, cpu, "scaling_max_freq"))
              for cpu in look.judged}  # fmt: skip
    if ranges and all(base and most and most <= base for base, most in ranges.values()):
        yield as_advised(f"turbo is on, but {cpus(look.judged)} may not run above base frequency")
        return
    tops = sorted({most for _, most in ranges.values() if most})
    upto = f": up to {tops[-1] / 1e6:.2f} GHz" if tops else ""
    bases = sorted({base for base, _ in ranges.values() if base})
    upto += f", {bases[0] / 1e6:.2f} GHz is guaranteed" if upto and bases else ""
    text = f"turbo is on{upto}"
    yield otherwise(text, f"echo {int(no_turbo is not None)} | sudo tee /{path}")


def governor(look: Look) -> Iterator[Found]:
    """Whether cores keep their frequency, busy or not."""
    by_governor: dict[str, list[Cpu]] = {}
    for cpu in look.judged:
        name = _of_cpu(look, cpu, "scaling_governor")
        if name:
            by_governor.setdefault(name, []).append(cpu)
    if not by_governor:
        yield Found(Reason.HARDWARE, "the kernel scales no core's frequency here")
        return
    text = "; ".join(
        f"{cpus(where)}: {name}, {_range(look, where)}"
        for name, where in sorted(by_governor.items(), key=lambda item: item[1][0])
    )
    scaled = [
        cpu
        for name, where in by_governor.items()
        for cpu in where
        if name != "performance" and not _is_fixed(look, cpu)
    ]
    if scaled:
        listed = format_cpu_list(scaled)
        yield otherwise(text, f"sudo cpupower -c {listed} frequency-set -g performance")
    else:
        yield as_advised(text)


def clock_source(look: Look) -> Iterator[Found]:
    """Whether the kernel tells the time by the TSC."""
    name = look.tree.text(f"{_CLOCKSOURCE}/current_clocksource")
    there = (look.tree.text(f"{_CLOCKSOURCE}/available_clocksource") or "").split()
    if name is None:
        yield Found(Reason.SOURCE, "the kernel does not name its clock source")
    elif name == "tsc":
        yield as_advised("the kernel tells the time by the TSC")
    elif "tsc" in there:
        text = f"the kernel tells the time by {name}, and has the TSC"
        yield otherwise(text, f"echo tsc | sudo tee /{_CLOCKSOURCE}/current_clocksource")
    else:
        yield otherwise(f"the kernel tells the time by {name}: it has no TSC, or distrusts it",
                        "dmesg | grep -i tsc says why")  # fmt: skip


def _of_cpu(look: Look, cpu: Cpu, name: str) -> str | None:
    return look.tree.text(f"{CPU}/cpu{cpu}/cpufreq/{name}", cpu=cpu)


def _khz(look: Look, cpu: Cpu, name: str) -> int | None:
    return look.tree.number(f"{CPU}/cpu{cpu}/cpufreq/{name}")


def _is_fixed(look: Look, cpu: Cpu) -> bool:
    least = _khz(look, cpu, "scaling_min_freq")
    return least is not None and least == _khz(look, cpu, "scaling_max_freq")


def _range(look: Look, where: list[Cpu]) -> str:
    least = [khz for cpu in where if (khz := _khz(look, cpu, "scaling_min_freq"))]
    most = [khz for cpu in where if (khz := _khz(look, cpu, "scaling_max_freq"))]
    if not least or not most:
        return "range unknown"
    return f"{min(least) / 1e6:.2f} to {max(most) / 1e6:.2f} GHz"
