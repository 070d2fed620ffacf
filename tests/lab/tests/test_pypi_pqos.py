"""PyPI's pqos, unmodified, inside: what it reads, sets and meters through resctrl and perf."""

from __future__ import annotations

import ctypes
import importlib.util

import pytest

from nftop.sim import scenario
from nftop.sim.model import model_of
from nftop.sim.workloads import INDEX
from tests.lab import machine as machines
from tests.lab.resctrl import profile
from tests.lab.resctrl.host import host_of
from tests.lab.tests.labs import answer, needs_lab

_LIBRARY = "libpqos.so.4"  # which the binding asks for by that name


def _lacks() -> str:
    if importlib.util.find_spec("pqos") is None:
        return "PyPI's pqos is missing: pip install 'pqos==4.5.*'"
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError:
        return f"there is no {_LIBRARY}: it comes with intel-cmt-cat of Debian 12"
    return ""


pytestmark = [needs_lab, pytest.mark.skipif(bool(_lacks()), reason=_lacks())]
# Of those that need no boot parameter to have cache allocation and monitoring.
HOSTS = pytest.mark.parametrize("machine", ["skx-7", "icx"])
KERNELS = pytest.mark.parametrize("kernel", profile.kernels())
S = 10**9


@HOSTS
@KERNELS
def test_it_reads_sets_and_meters_classes(machine: str, kernel: str) -> None:
    program = """
        import json, os
        from pqos import Pqos
        from pqos.allocation import PqosAlloc
        from pqos.capability import PqosCap
        from pqos.cpuinfo import PqosCpuInfo
        from pqos.l3ca import PqosCatL3
        from pqos.mba import PqosMba
        from pqos.monitoring import PqosMon
        Pqos().init("OS", verbose="silent")
        has, cpus, masks, limits, classes = (
            PqosCap(), PqosCpuInfo(), PqosCatL3(), PqosMba(), PqosAlloc()
        )
        masks.set(1, [masks.COS(2, 0xf0)])
        limits.set(0, [limits.COS(3, 35)])
        classes.assoc_set(5, 2)
        classes.assoc_set_pid(os.getpid(), 4)
        def cat(path):
            return open(f"/sys/fs/resctrl/{path}").read().split()
        found = {
            "classes": [has.get_l3ca_cos_num(), has.get_mba_cos_num()],
            "sockets": [cpus.get_sockets(), len(cpus.get_cores(1))],
            "masks": [[each.mask for each in masks.get(socket)] for socket in (0, 1)],
            "limits": [[each.mb_max for each in limits.get(socket)] for socket in (0, 1)],
            "class of": [classes.assoc_get(5), classes.assoc_get(6)],
            "class of task": classes.assoc_get_pid(os.getpid()) == 4,
            "tasks": os.getpid() in classes.get_pids(4),
            "cpus": cat("COS2/cpus_list"),
            "least bits": masks.get_min_cbm_bits(),
        }
        monitor = PqosMon()
        group = monitor.start([4], ["tmem_bw", "lmem_bw", "l3_occup", "perf_ipc"])
        monitor.poll([group])
        with open("/sys/fs/lab/live/ctl/clock", "w") as clock:
            clock.write("step 10")
        monitor.poll([group])
        seen = group.values
        names = ("mbm_total_delta", "mbm_local_delta", "llc", "ipc_retired_delta", "ipc")
        found |= {name: getattr(seen, name) for name in names}
        group.stop()
        print(json.dumps(found))
    """
    result = answer(program, "--model", machine, "--kernel", kernel, "--freeze", "60")
    own = machines.load(machine).tables["resctrl"]
    ways, count = own["allocation"]["ways"], own["bandwidth"]["closids"]
    every = [(1 << ways) - 1] * count
    assert (
        result.items()
        >= {
            "classes": [count, count],
            "sockets": [[0, 1], 44],
            "masks": [every, [*every[:2], 0xF0, *every[3:]]],
            "limits": [[100, 100, 100, 40, *[100] * (count - 4)], [100] * count],
            "class of": [2, 0],
            "class of task": True,
            "tasks": True,
            "cpus": ["5"],
            "least bits": 1,
        }.items()
    )
    model = model_of(scenario.load("default"), 88)
    moved, _ = (host_of(model).traffic(70 * S) - host_of(model).traffic(60 * S))[4]
    counted = (model.exact(70 * S, [4]) - model.exact(60 * S, [4]))[0]
    instructions, cycles = (counted[INDEX[name]] for name in ("instructions", "cycles"))
    assert moved > 1e9
    assert result["mbm_total_delta"] == pytest.approx(moved, rel=0.01)
    assert result["mbm_local_delta"] == pytest.approx(moved, rel=0.01)
    assert result["llc"] > 0
    assert result["ipc_retired_delta"] == pytest.approx(instructions, rel=1e-6)
    assert result["ipc"] == pytest.approx(instructions / cycles, rel=1e-6)
