"""The tree of files: what is where, who may write it, what reads and writes it.

A new file is a row of a table here.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Literal, TypeAlias

from tests.lab.resctrl import counters, cpus, info, schemata, tasks
from tests.lab.resctrl.state import Group, Resctrl, Schema, begin, refused, status_text, whole_line
from tests.lab.tree import Caller, failed

Write: TypeAlias = Callable[[str, Caller], None]
READ_ONLY, WRITABLE = 0o444, 0o644
# A page: no write may be longer.
LONGEST_BYTES = 4096


@dataclass(frozen=True, slots=True)
class File:
    """A file: its text, and what a write does; a write raises OSError if it is refused."""

    read: Callable[[], str]
    write: Write | None = None

    @property
    def mode(self) -> int:
        """Permission bits; nobody, not even root, may write what has none for it."""
        return READ_ONLY if self.write is None else WRITABLE


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder.

    Attributes:
        kind: what can be made or removed in it depends on that.
        group: whose it is; None of info and below.
        nodes: what is in it by name; folders are built when they are entered.
    """

    kind: Literal["group", "mon_groups", "mon_data", "info"]
    group: Group | None
    nodes: Mapping[str, File | Callable[[], Folder]]

    def child(self, name: str) -> Node:
        """What is called `name` in it; KeyError if nothing is."""
        node = self.nodes[name]
        return node if isinstance(node, File) else node()


Node: TypeAlias = File | Folder
Nodes: TypeAlias = dict[str, File | Callable[[], Folder]]


def find(state: Resctrl, path: str) -> Node:
    """What is at an absolute path.

    Raises:
        OSError: ENOENT if nothing is, ENOTDIR below a file.
    """
    node: Node = folder(state, state.root)
    for name in path.split("/"):
        if not name:
            continue
        if isinstance(node, File):
            raise failed(errno.ENOTDIR)
        if name not in node.nodes:
            raise failed(errno.ENOENT)
        node = node.child(name)
    return node


def write(file: File, data: bytes, caller: Caller) -> None:
    """One write(2).

    Raises:
        OSError: E2BIG for more than a page, EINVAL where nothing takes it, or what the file says.
    """
    if len(data) > LONGEST_BYTES:
        raise failed(errno.E2BIG)
    if file.write is None:
        raise failed(errno.EINVAL)
    file.write(data.decode("latin-1"), caller)


def folder(state: Resctrl, group: Group) -> Folder:
    """A group's folder."""
    nodes: Nodes = {
        "cpus": _file(state, group, cpus.show, cpus.write),
        "cpus_list": _file(state, group, cpus.show_list, cpus.write_list),
        "tasks": File(partial(tasks.show, state, group), partial(tasks.write, state, group)),
    }
    if group.parent is None and state.schemas:
        nodes["schemata"] = _file(state, group, schemata.show, schemata.write)
        nodes["mode"] = _file(state, group, _show_mode, schemata.write_mode)
        nodes["size"] = File(partial(schemata.show_size, state, group))
        if "mba_MBps" in state.options and state.profile.mbps_event:
            nodes["mba_MBps_event"] = _file(state, group, _show_event, _write_event)
    if "debug" in state.options:
        nodes |= _debug(state, group)
    if group.rmid is not None:
        nodes["mon_data"] = partial(_mon_data, state, group)
        if group.parent is None:
            nodes["mon_groups"] = partial(_mon_groups, state, group)
    if group is state.root:
        nodes["info"] = partial(_info, state)
        nodes |= {name: partial(folder, state, item) for name, item in state.groups.items()}
    return Folder("group", group, nodes)


def _mon_groups(state: Resctrl, group: Group) -> Folder:
    nodes: Nodes = {name: partial(folder, state, own) for name, own in group.children.items()}
    return Folder("mon_groups", group, nodes)


def _mon_data(state: Resctrl, group: Group) -> Folder:
    nodes: Nodes = {
        f"mon_L3_{domain:02d}": partial(_mon_domain, state, group, domain)
        for domain in state.hardware.domains
    }
    return Folder("mon_data", group, nodes)


def _mon_domain(state: Resctrl, group: Group, domain: int) -> Folder:
    """A cache; where it is divided, what its parts hold together, and each part."""
    node_ids = state.hardware.nodes_in(domain)
    nodes = _events(state, group, node_ids)
    if len(node_ids) > 1:
        nodes |= {
            f"mon_sub_L3_{component:02d}": partial(_mon_component, state, group, component)
            for component in node_ids
        }
    return Folder("mon_data", group, nodes)


def _mon_component(state: Resctrl, group: Group, component: int) -> Folder:
    return Folder("mon_data", group, _events(state, group, (component,)))


def _events(state: Resctrl, group: Group, node_ids: tuple[int, ...]) -> Nodes:
    assert state.hardware.monitoring is not None
    return {
        event: File(partial(counters.show, state, group, node_ids, event))
        for event in state.hardware.monitoring.events
    }


def _info(state: Resctrl) -> Folder:
    nodes: Nodes = {"last_cmd_status": File(partial(status_text, state))}
    nodes |= {schema.name: partial(_info_schema, state, schema) for schema in state.schemas}
    if state.hardware.monitoring is not None:
        nodes["L3_MON"] = partial(_info_monitoring, state)
    return Folder("info", None, nodes)


def _info_schema(state: Resctrl, schema: Schema) -> Folder:
    names = state.profile.files["L3" if schema.cache else schema.name]
    files: Nodes = {name: File(partial(info.show_schema, state, schema, name)) for name in names}
    cat = state.hardware.allocation
    if schema.cache and cat is not None and cat.io_alloc and state.profile.io_alloc:
        files["io_alloc"] = File(
            partial(info.show_io_alloc, state), _writer(state, info.write_io_alloc)
        )
        files["io_alloc_cbm"] = File(
            partial(info.show_io_cbm, state, schema),
            lambda text, _: info.write_io_cbm(state, schema, text),
        )
    return Folder("info", None, files)


def _info_monitoring(state: Resctrl) -> Folder:
    files: Nodes = {
        name: File(partial(info.show_monitoring, state, name), _writer(state, _INFO.get(name)))
        for name in state.profile.files["L3_MON"]
    }
    return Folder("info", None, files)


_INFO: Mapping[str, Callable[[Resctrl, str], None]] = MappingProxyType(
    {
        "max_threshold_occupancy": info.write_threshold,
        "mbm_assign_mode": info.write_assign_mode,
    }
)


def _writer(state: Resctrl, function: Callable[[Resctrl, str], None] | None) -> Write | None:
    return None if function is None else lambda text, _: function(state, text)


def _file(
    state: Resctrl,
    group: Group,
    show: Callable[[Resctrl, Group], str],
    put: Callable[[Resctrl, Group, str], None],
) -> File:
    return File(partial(show, state, group), lambda text, _: put(state, group, text))


def _show_mode(state: Resctrl, group: Group) -> str:
    return f"{group.mode}\n"


def _show_event(state: Resctrl, group: Group) -> str:
    return f"{group.mbps_event}\n"


def _write_event(state: Resctrl, group: Group, text: str) -> None:
    event = whole_line(text)
    begin(state, "event")
    monitoring = state.hardware.monitoring
    if monitoring is None or event not in monitoring.events or event == "llc_occupancy":
        raise refused(state, "unknown_event", word=event)
    group.mbps_event = event


def _debug(state: Resctrl, group: Group) -> Nodes:
    """The hardware's ids, which the mount option `debug` shows."""
    ids: Nodes = {}
    if group.parent is None and state.schemas:
        ids["ctrl_hw_id"] = File(lambda: f"{group.closid}\n")
    if group.rmid is not None:
        ids["mon_hw_id"] = File(lambda: f"{group.rmid}\n")
    return ids
