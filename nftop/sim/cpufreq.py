"""What the simulated host's cpufreq tells, in the shape in which a source hands it over."""

from __future__ import annotations

from nftop.model.ids import Cpu
from nftop.model.reading import Missing, Reason
from nftop.model.sst import CpufreqTable, CpuFrequency, PstateDriver, UncoreLimits
from nftop.sim.frequency import DRIVER, EPPS, GOVERNORS, Frequencies

# The limits of the mesh, whose clock stands at the upper one (`pcm`); assumptions.
_MESH_HZ = (1_200_000_000, 2_400_000_000)
_NO_TOOL = Missing(Reason.SOURCE, "the simulated host has no intel-speed-select")


def cpufreq_table(frequencies: Frequencies, at_ns: int) -> CpufreqTable:
    """Every CPU with a policy of its own, as intel_pstate has them; `at_ns` is when it is read."""
    processor = frequencies.processor
    rows = zip(frequencies.settings, frequencies.base_hz, strict=True)
    return CpufreqTable(
        cpus=tuple(
            CpuFrequency(
                cpu=Cpu(cpu),
                policy=cpu,
                together=(Cpu(cpu),),
                driver=DRIVER,
                governor=setting.governor,
                governors=GOVERNORS,
                epp=setting.epp,
                epps=EPPS,
                min_hz=setting.min_hz,
                max_hz=setting.max_hz,
                hardware_min_hz=processor.min_hz,
                hardware_max_hz=processor.max_hz,
                base_hz=base_hz,
            )
            for cpu, (setting, base_hz) in enumerate(rows)
        ),
        without=(),
        pstate=PstateDriver(
            "active", frequencies.turbo, -(-100 * processor.min_hz // processor.max_hz), 100
        ),
        uncore=tuple(
            UncoreLimits(package, 0, *_MESH_HZ, *_MESH_HZ)
            for package in frequencies.topology.packages
        ),
        sst=_NO_TOOL,
        keepers=(),
        hybrid=False,
        base_read_at_ns=at_ns,
    )
