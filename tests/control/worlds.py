"""Random hosts, and random wishes of operators who know more or less what they do."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from hypothesis import strategies as st

from nftop.control.resctrl.plan import propose
from nftop.model.change import (
    Action,
    CreateGroup,
    CreateMonitor,
    MoveCpus,
    MoveTasks,
    Proposal,
    RemoveGroup,
    RemoveMonitor,
    SetIoWays,
    SetSchemata,
)
from nftop.model.ids import Cpu
from nftop.model.rdt.rdt import ROOT
from tests.control.hosts import LabHost, lab_host
from tests.lab.resctrl import numbers, profile

_GROUPS = ["vpp", "ovs", "nftop.a", "nftop.b"]
_MONITORS = ["m", "nftop.m", "nftop.n"]
_ANY_GROUP = st.sampled_from([ROOT, *_GROUPS])
_CPUS = st.sets(st.integers(0, 7).map(Cpu), min_size=1, max_size=4).map(tuple)
_MASK = st.builds(lambda ways, low: ((1 << ways) - 1) << low, st.integers(1, 6), st.integers(0, 5))
_VALUES = {
    "L3": _MASK,
    "L3CODE": _MASK,
    "L3DATA": _MASK,
    "MB": st.integers(10, 100),
}


@st.composite
def hosts(draw: st.DrawFn, *, exclusive: bool = False) -> LabHost:
    """A host with some groups, masks, CPUs, monitors and threads in them already."""
    cdp = draw(st.booleans())
    kernel = draw(st.sampled_from(profile.kernels()))
    io_alloc = draw(st.booleans())
    host = lab_host(kernel, *["cdp"] * cdp, io_alloc=io_alloc)
    lab = host.lab
    line = "L3DATA" if cdp else "L3"
    names: list[str] = draw(st.lists(st.sampled_from(_GROUPS), unique=True))
    for name in names:
        lab.mkdir(f"/{name}")
        lab.echo(f"{line}:0={draw(_MASK):x};1={draw(_MASK):x}", f"/{name}/schemata")
        cpus = draw(st.sets(st.integers(0, 7), max_size=4))
        lab.echo(numbers.list_text(cpus), f"/{name}/cpus_list")
        monitors: list[str] = draw(st.lists(st.sampled_from(_MONITORS), unique=True, max_size=2))
        for monitor in monitors:
            lab.mkdir(f"/{name}/mon_groups/{monitor}")
            own = sorted(lab.state.groups[name].cpus)
            if own:
                component = draw(st.sets(st.sampled_from(own)))
                text = numbers.list_text(component)
                lab.echo(text, f"/{name}/mon_groups/{monitor}/cpus_list")
        for tid in draw(st.sets(st.sampled_from([100, 101, 200]))):
            lab.echo(str(tid), f"/{name}/tasks")
            children = list(lab.state.groups[name].children)
            if draw(st.booleans()) and children:
                lab.echo(str(tid), f"/{name}/mon_groups/{children[0]}/tasks")
        if exclusive and draw(st.booleans()):
            with contextlib.suppress(OSError):
                lab.echo("exclusive", f"/{name}/mode")
    rule = host.rules().io_alloc
    if rule is not None and draw(st.booleans()):
        lab.echo("1", f"/info/{rule.line}/io_alloc")
        if draw(st.booleans()):
            with contextlib.suppress(OSError):  # a group is exclusive
                lab.echo(f"1={draw(_MASK):x}", f"/info/{rule.line}/io_alloc_cbm")
    if draw(st.booleans()):
        lab.mkdir("/mon_groups/m")
        component = (
            draw(st.sets(st.sampled_from(sorted(lab.state.root.cpus))))
            if lab.state.root.cpus
            else set()
        )
        lab.echo(numbers.list_text(component), "/mon_groups/m/cpus_list")
        for tid in draw(st.sets(st.sampled_from([100, 101, 200]))):
            with contextlib.suppress(OSError):  # it is in a class
                lab.echo(str(tid), "/mon_groups/m/tasks")
    return host


def _set(group: str, resource: str, values: dict[int, int]) -> SetSchemata:
    return SetSchemata(group, resource, tuple(sorted(values.items())))


ACTION: st.SearchStrategy[Action] = st.one_of(
    st.sampled_from(sorted(_VALUES)).flatmap(
        lambda resource: st.builds(
            _set,
            _ANY_GROUP,
            st.just(resource),
            st.dictionaries(st.integers(0, 1), _VALUES[resource], min_size=1),
        )
    ),
    st.builds(MoveCpus, _CPUS, _ANY_GROUP),
    st.builds(
        MoveTasks, st.sets(st.sampled_from([100, 101, 200]), min_size=1).map(tuple), _ANY_GROUP
    ),
    st.builds(CreateGroup, st.sampled_from(_GROUPS)),
    st.builds(RemoveGroup, st.sampled_from(_GROUPS)),
    st.builds(
        CreateMonitor,
        _ANY_GROUP,
        st.sampled_from(_MONITORS),
        st.sets(st.integers(0, 7).map(Cpu), max_size=2).map(tuple),
    ),
    st.builds(RemoveMonitor, _ANY_GROUP, st.sampled_from(_MONITORS)),
    st.builds(
        SetIoWays,
        st.sampled_from([True, None, False]),
        st.dictionaries(st.integers(0, 1), _MASK).map(lambda masks: tuple(sorted(masks.items()))),
    ),
)
ACTIONS = st.lists(ACTION, min_size=1, max_size=5)


def planned(host: LabHost, actions: list[Action]) -> Proposal:
    """The actions that can be done, one after the other; those that are refused are left out."""
    rules = replace(host.rules(), tasks=host.tasks([ROOT, *host.lab.state.groups], []))
    good: list[Action] = []
    for action in actions:
        if not propose(host.state(), rules, [*good, action]).refusals:
            good.append(action)
    result = propose(host.state(), rules, good, ("nftop cat",))
    return replace(result, identity=host.identity)
