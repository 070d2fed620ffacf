"""Why a DPDK application reports no busy cycles, and what helps.

Sources: DPDK's release notes 23.03 (rte_lcore_register_usage_cb, telemetry /eal/lcore/usage) and
app/test-pmd (lcore_usage_callback answers for lcores that forward, with --record-core-cycles only).
"""

from __future__ import annotations

import re
from functools import lru_cache

from nftop.model.sample import DpdkApp
from nftop.model.struct import dataclass

FIRST_RELEASE = (23, 3)
_RELEASE = re.compile(r"DPDK (\d{1,4})\.(\d{1,2})\b")
_TESTPMD = ("testpmd", "dpdk-testpmd")
_OVS = "ovs-vswitchd"
_OPTION = "--record-core-cycles"


@dataclass(frozen=True, slots=True)
class BusyAdvice:
    """Why busy cycles are missing.

    Attributes:
        why: a clause without a full stop.
        fix: what the operator can do; "" if no option of the application helps.
    """

    why: str
    fix: str


def busy_advice(app: DpdkApp) -> BusyAdvice:
    """By the application's DPDK release, program and arguments, if known."""
    return _advice(app.name, app.version, is_recording=_OPTION in app.app_params)


@lru_cache(maxsize=64)  # a release and a program stay
def _advice(name: str, version: str, *, is_recording: bool) -> BusyAdvice:
    if name == _OVS:
        return BusyAdvice("OVS reports its own on its control socket (source ovs)", "")
    release = _RELEASE.match(version)
    first = f"{FIRST_RELEASE[0]}.{FIRST_RELEASE[1]:02}"
    if release is not None and (int(release[1]), int(release[2])) < FIRST_RELEASE:
        return BusyAdvice(
            f"{version} has no busy cycles, which came with {first}",
            f"for busy ratios: DPDK {first} or later",
        )
    since = "" if release is not None else f", with DPDK {first} or later"
    if name not in _TESTPMD:
        return BusyAdvice(
            "the application does not report busy cycles",
            f"for busy ratios: an application that registers lcore usage{since}",
        )
    if is_recording:
        return BusyAdvice(
            f"testpmd has {_OPTION}, but reports busy cycles only of lcores that forward{since}", ""
        )
    return BusyAdvice(
        "testpmd does not report busy cycles",
        f"for busy ratios: start testpmd with {_OPTION}{since}",
    )
