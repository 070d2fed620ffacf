"""What would mend an incident: legal drafts off the victims' ways, or commands nobody runs."""

from __future__ import annotations

from functools import lru_cache

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.control.resctrl.remedy import remedy
from nftop.model.frame import Frame
from nftop.model.incident import Incident, Party
from nftop.model.rdt.masks import Cbm
from nftop.model.remedy import Remedy
from nftop.model.struct import replace
from tests.sim.hosts import Frozen, S


@lru_cache(maxsize=4)
def frame_of(scenario: str, seconds: int) -> Frame:
    host = Frozen(scenario, traffic=None)
    host.tick(0)
    if seconds > 10:
        host.tick((seconds - 10) * S)
    return [host.tick(S) for _ in range(10)][-1]


def worst(frame: Frame) -> Incident:
    return frame.incidents[0]


def with_masks(frame: Frame, **bits: int) -> Frame:
    """The frame with other masks in its first cache; the root class is `root`."""

    def masked(name: str, width: int) -> Cbm | None:
        wanted = bits.get("root" if name == "/" else name)
        return None if wanted is None else Cbm(wanted, width)

    groups = []
    for group in frame.groups:
        caches = []
        for cache in group.caches:
            width = frame.domains[0].ways or 0
            mask = masked(group.name, width) if cache.l3 == 0 else None
            caches.append(cache if mask is None else replace(cache, cbm=mask))
        groups.append(replace(group, caches=tuple(caches)))
    return replace(frame, groups=tuple(groups))


def mask_of(plan: Remedy) -> tuple[int, int]:
    assert plan.mask is not None
    return plan.mask.old, plan.mask.new


def test_a_noisy_class_shrinks_off_the_ways_of_its_victims(snapshot: SnapshotAssertion) -> None:
    frame = frame_of("noisy", 70)
    plan = remedy(worst(frame), frame)
    assert (plan.kind, mask_of(plan)) == ("draft", (0xFE, 0x002))
    assert plan.commands == snapshot
    assert plan.proposal is not None and not plan.proposal.refusals
    assert [(change.old, change.new) for change in plan.proposal.changes] == [("fe", "2")]
    assert [check.good for check in plan.checks] == [True, True, True, False]
    assert "verdict" in plan.unproven
    assert plan.sweep.endswith("cat sweep --group tenant")


@pytest.mark.parametrize(
    ("masks", "new"),
    [
        # As few ways of devices (c0000) as possible, if there are no others.
        ({"vpp": 0x3FFE0, "switch": 0x01F}, 0x40000),
        # None of other classes (root: 3) before a larger one.
        ({"vpp": 0x180, "switch": 0x001}, 0x07C),
        ({"vpp": 0x180, "switch": 0x001, "root": 0x07E}, 0x07E),
    ],
)
def test_of_several_masks_one_without_others_then_the_largest(
    masks: dict[str, int], new: int
) -> None:
    frame = with_masks(frame_of("noisy", 70), **masks)
    assert mask_of(remedy(worst(frame), frame))[1] == new


@pytest.mark.parametrize("old", [0x008, 0x01C, 0x1F0, 0x7F0, 0x7FF])
@pytest.mark.parametrize("victims", [0x00F, 0x018, 0x1E0, 0x600])
def test_a_draft_frees_ways_and_never_adds_any(
    old: int, victims: int, snapshot: SnapshotAssertion
) -> None:
    frame = with_masks(frame_of("noisy", 70), vpp=victims, switch=victims, tenant=old)
    plan = remedy(worst(frame), frame)
    if not old & victims:
        assert plan.mask is None
        assert plan.advice == snapshot
        return
    assert plan.mask is not None
    new = plan.mask.new
    assert not new & victims and new.bit_count() <= old.bit_count()
    assert bool(new & ~old) is not bool(old & ~victims), "a part of the old mask if it has one"
    assert plan.advice.startswith("move" if new & ~old else "shrink")
    assert plan.checks[2].good and "frees 0" not in plan.checks[2].text


def test_an_incident_that_ended_has_no_draft_or_command() -> None:
    for scenario, seconds in (("noisy", 70), ("default", 10)):
        frame = frame_of(scenario, seconds)
        plan = remedy(replace(worst(frame), until_ns=frame.wall_ns), frame)
        assert (plan.kind, plan.commands, plan.actions) == ("advice", (), ())


def test_a_second_new_class_has_a_free_name() -> None:
    frame = frame_of("noisy", 70)
    spare = next(group for group in frame.groups if group.name == "switch")
    taken = replace(frame, groups=(*frame.groups, replace(spare, name="nftop.apart")))
    plan = remedy(replace(worst(frame), group="vpp"), taken)
    assert plan.mask is not None and plan.mask.group == "nftop.apart2"
    assert plan.proposal is not None and not plan.proposal.refusals


@pytest.mark.parametrize("victims", [0xFFFFF, 0xFFFFE, 0x3FFFF, 0x7FF])
def test_a_draft_is_always_legal_and_never_the_victims(victims: int) -> None:
    frame = with_masks(frame_of("noisy", 70), vpp=victims, switch=victims)
    least = replace(frame, limits=replace(frame.limits, min_bits=1))
    for one in (frame, least):
        plan = remedy(worst(one), one)
        if plan.mask is None:
            assert plan.kind == "advice" or "--mba" in plan.commands[0]
            continue
        new = Cbm(plan.mask.new, 20)
        assert new.contiguous and not new.bits & victims
        assert new.ways >= (one.limits.min_bits or 1)
        assert plan.proposal is not None and plan.proposal.changes


def test_a_culprit_that_shares_its_victims_class_gets_its_own() -> None:
    frame = frame_of("noisy", 70)
    same = replace(worst(frame), group="vpp")
    plan = remedy(same, frame)
    assert plan.kind == "draft" and plan.mask is not None
    assert plan.mask.group == "nftop.apart" and not plan.mask.new & 0x1FC
    assert "--group nftop.apart" in plan.commands[0]
    assert plan.sweep == ""
    assert any("11-14" in command for command in plan.commands)


def test_a_program_on_a_pollers_cpu_is_moved_to_cpus_without_any() -> None:
    frame = frame_of("default", 10)
    plan = remedy(worst(frame), frame)
    assert plan.kind == "command" and not plan.actions and plan.proposal is None
    first, second = plan.commands
    assert first.startswith("# taskset -acp ") and first.endswith(" 7900")
    assert second.startswith("# systemctl set-property --runtime backup.service AllowedCPUs=")
    cpus = first.split()[3]
    real = remedy(worst(frame), replace(frame, host=replace(frame.host, simulated=False)))
    assert tuple(f"# {command}" for command in real.commands) == plan.commands
    polled = {cpu for nf in frame.nfs for cpu in nf.cpus}
    named = {
        int(cpu)
        for component in cpus.split(",")
        for cpu in range(int(component.split("-")[0]), int(component.split("-")[-1]) + 1)
    }
    assert named and named.isdisjoint(polled)
    siblings = {other for cpu in polled for other in frame.topology.cpus[cpu].siblings}
    assert named.isdisjoint(siblings)


@pytest.mark.parametrize(
    ("container", "command"),
    [("docker 0123456789ab", "docker update --cpuset-cpus"), ("libpod 0123456789ab", "podman"),
     ("pod 0f1e2d3c containerd 0123456789ab", None), ("vm gw1", None),
     ("a\\x2db@1.service", "systemctl set-property --runtime 'a\\x2db@1.service' AllowedCPUs="),
     ("user a.service", None), ("unit a.service", None), ("x\x1b[2J.service", None),
     ("x\nreboot\n.service", None), ("--force.service", None), ("docker --help", None),
     ("user docker 0123456789ab", None), ("user x.service", None),
     ("libpod \x1b0123456789ab", None), ("a b.service", None)],
)  # fmt: skip
def test_a_container_is_moved_by_its_manager(container: str, command: str | None) -> None:
    frame = frame_of("default", 10)
    culprit = Party("process", "x", pid=5, container=container)
    plan = remedy(replace(worst(frame), culprit=culprit), frame)
    assert len(plan.commands) == (1 if command is None else 2)
    assert command is None or plan.commands[1].startswith(f"# {command}")


def test_other_causes_have_advice_and_no_command() -> None:
    frame = frame_of("default", 10)
    for kind in (
        "gone",
        "clock",
        "remote",
        "ddio",
        "channels",
        "registers",
        "descriptors",
        "load",
        "flows",
        "stopped",
        "hung",
        "throttled",
        "host",
        "nf",
    ):
        plan = remedy(replace(worst(frame), kind=kind), frame)
        assert (plan.kind, plan.commands) == ("advice", ()) and plan.advice
    for culprit in (None, Party("host", "hypervisor (steal)"), Party("host", "kernel")):
        plan = remedy(replace(worst(frame), culprit=culprit), frame)
        assert (plan.kind, plan.commands) == ("advice", ())
