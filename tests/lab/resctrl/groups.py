"""mkdir, rmdir and rename of groups."""

from __future__ import annotations

import errno

import numpy as np

from nftop.model.column import Floats
from tests.lab.resctrl import ledger, rmids, tasks
from tests.lab.resctrl.schemata import new_mask
from tests.lab.resctrl.state import (
    Group,
    Resctrl,
    begin,
    changed,
    closids,
    controls,
    default,
    io_closid,
    refused,
)
from tests.lab.tree import failed


def make_control(state: Resctrl, name: str, permissions: int) -> None:
    """mkdir in the root: the lowest free class, an RMID, and every way that is to be had."""
    begin(state, "mkdir")
    first_rmid = _take_rmid(state) if state.profile.rmid_first else None
    taken = {group.closid for group in controls(state)}
    taken |= {io_closid(state)} if state.io is not None else set()
    count = min(closids(state, schema) for schema in state.schemas)
    closid = next((index for index in range(count) if index not in taken), None)
    if closid is None:
        _give_back(state, first_rmid)
        raise refused(state, "out_of_closids", errno.ENOSPC)
    rmid = first_rmid if state.profile.rmid_first else _take_rmid(state)
    try:
        values = _new_values(state)
    except OSError:
        _give_back(state, rmid)
        raise
    state.groups[name] = Group(
        name, _serial(state), closid, rmid, values=values, permissions=permissions
    )
    changed(state)


def make_monitoring(state: Resctrl, parent: Group, name: str, permissions: int) -> None:
    """mkdir in a folder mon_groups."""
    begin(state, "mkdir")
    rmid = _take_rmid(state)
    parent.children[name] = Group(
        name, _serial(state), parent.closid, rmid, parent=parent, permissions=permissions
    )
    changed(state)


def refuse_elsewhere(state: Resctrl, *, in_info: bool) -> OSError:
    """The error of a mkdir where no group can be."""
    if in_info:
        return failed(state.profile.mkdir_in_info)
    begin(state, "mkdir")
    return failed(errno.EPERM)


def remove(state: Resctrl, group: Group) -> None:
    """rmdir: its CPUs and tasks go back to the parent or the root, its RMIDs to the pool."""
    if group.parent is not None:
        tasks.hand_over(state, group, group.parent)
        del group.parent.children[group.name]
    else:
        tasks.hand_over(state, group, state.root)
        state.root.cpus |= group.cpus
        del state.groups[group.name]
    changed(state)
    for child in (group, *group.children.values()):
        child.live = False
        _give_back(state, child.rmid)


def move(state: Resctrl, group: Group | None, parent: Group | None, name: str) -> None:
    """rename of a monitoring group, to another name or another control group.

    Args:
        state: to change.
        group: what is renamed; None if it is no monitoring group.
        parent: whose mon_groups it goes to; None if that is no such folder.
        name: its new name.
    """
    begin(state, "rename")
    if group is None or group.parent is None:
        raise refused(state, "move_source", errno.EPERM)
    if parent is None or name == "mon_groups":
        raise refused(state, "move_target", errno.EPERM)
    if group.cpus and parent is not group.parent:
        raise refused(state, "move_cpus", errno.EPERM)
    if name in parent.children:
        raise failed(errno.EEXIST)
    del group.parent.children[group.name]
    group.name, group.parent, group.closid = name, parent, parent.closid
    parent.children[name] = group
    changed(state)


def held_bytes(state: Resctrl) -> Floats:
    """What every RMID holds of every node, in the counter's steps; (r, 0) if nobody can tell."""
    monitoring = state.hardware.monitoring
    assert monitoring is not None
    if state.ledger is None or "llc_occupancy" not in monitoring.events:
        return np.zeros((monitoring.rmids, 0))
    held = ledger.held_bytes(state.ledger, state.now_ns())
    return np.asarray(held // monitoring.scale_bytes * monitoring.scale_bytes)


def _take_rmid(state: Resctrl) -> int | None:
    if state.pool is None or state.ledger is None:
        return None
    now_ns = state.now_ns()
    rmids.check(state.pool, now_ns, held_bytes(state), state.threshold_bytes)
    try:
        rmid = rmids.take(state.pool)
    except OSError as error:
        raise refused(state, "out_of_rmids", error.errno or errno.ENOSPC) from error
    ledger.forget(state.ledger, now_ns, rmid)
    return rmid


def _give_back(state: Resctrl, rmid: int | None) -> None:
    if rmid is None or state.pool is None:
        return
    always = state.profile.limbo_always
    held = held_bytes(state)[rmid]
    rmids.give_back(state.pool, rmid, state.now_ns(), held, state.threshold_bytes, always=always)


def _new_values(state: Resctrl) -> dict[str, dict[int, int]]:
    values: dict[str, dict[int, int]] = {}
    for schema in state.schemas:
        own = values[schema.name] = {}
        for domain in state.hardware.domains:
            value = new_mask(state, schema, domain) if schema.cache else default(state, schema)
            if schema.cache and value.bit_count() < _min_bits(state):
                raise refused(state, "no_space", errno.ENOSPC, name=schema.name, domain=domain)
            own[domain] = value
    return values


def _min_bits(state: Resctrl) -> int:
    assert state.hardware.allocation is not None
    return state.hardware.allocation.min_bits


def _serial(state: Resctrl) -> int:
    state.serials += 1
    return state.serials
