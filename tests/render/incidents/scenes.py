"""Frames with incidents, for tests of what is drawn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nftop.model.frame import Frame
from nftop.model.ids import Cpu, L3Domain
from nftop.model.incident import (
    EvidenceLink,
    Incident,
    Party,
    Price,
    RuledOut,
    Severity,
    Victim,
)
from tests.frames import HOSTILE, SECOND_NS, WALL_NS, frame, monotonic_of, nic_drops

CULPRIT = Party(
    "process",
    "qemu-system-x86",
    cpus=(Cpu(5), Cpu(6)),
    group="tenant",
    pid=4242,
    user="libvirt-qemu",
    container="vm gw1",
)


def victim(name: str = "fwd", change: float = -0.09, drops: float = 3.82e6) -> Victim:
    return Victim(
        Party("nf", name, key=f"key {name}", cpus=(Cpu(1), Cpu(2))),
        "tx_packets_per_s",
        42e6,
        42e6 * (1 + change),
        change,
        drops_per_s=drops,
        cpp_before=210.0,
        cpp_now=230.0,
    )


def incident(number: int = 1, **changes: Any) -> Incident:
    plain = Incident(
        f"neighbour-{number:08x}",
        Severity.BAD,
        "48.0 GB/s through 6 shared ways",
        CULPRIT,
        (victim(), victim("vpp", -0.02, 630e3)),
        Price(7.23e6, 4e6),
        WALL_NS - 120 * SECOND_NS,
        kind="neighbour",
        worst=Price(7.35e6, 4e6),
        worst_ns=WALL_NS - 60 * SECOND_NS,
        dropped=936e6,
        findings=(("noisy-neighbour", "class vpp, L3 0"),),
        chain=(
            EvidenceLink(WALL_NS - 300 * SECOND_NS, "change", "L3 0 of tenant: 3 -> fe", "resctrl"),
            EvidenceLink(WALL_NS - 120 * SECOND_NS, "cause", "48.0 GB/s of traffic", "MBM of COS3"),
            EvidenceLink(WALL_NS - 118 * SECOND_NS, "effect", "CPP 210 -> 230", "perf on cpu 1"),
        ),
        ruled_out=(RuledOut("arriving load", True, "0%"), RuledOut("wait", None, "not counted")),
        group="tenant",
        l3=L3Domain(0),
    )
    return timed(replace(plain, **changes))


def timed(incident: Incident) -> Incident:
    """With the CLOCK_MONOTONIC of its wall times."""
    until_ns = incident.until_ns
    ended_ns = None if until_ns is None else monotonic_of(until_ns)
    return replace(incident, began_ns=monotonic_of(incident.since_ns), ended_ns=ended_ns)


def frame_with(*incidents: Incident, past: tuple[Incident, ...] = ()) -> Frame:
    base = frame(8, 0)
    nfs = tuple(replace(nf, readings={**nf.readings, **nic_drops(0.0)}) for nf in base.nfs)
    return replace(base, nfs=nfs, incidents=incidents, past_incidents=past)


def hostile() -> Incident:
    party = replace(CULPRIT, name=HOSTILE[0], group=HOSTILE[1], container=HOSTILE[4])
    one = replace(victim(HOSTILE[2]), party=Party("nf", HOSTILE[3], key="k"))
    return incident(culprit=party, victims=(one,), title=HOSTILE[0], basis=HOSTILE[2])
