"""Which tasks are in a group: the file tasks.

A task that starts another does not hand its group on here: the kernel does so at fork(2), which
nobody tells the lab of.
"""

from __future__ import annotations

import errno

from tests.lab.resctrl.numbers import signed
from tests.lab.resctrl.state import (
    Group,
    Member,
    Resctrl,
    begin,
    failed,
    refused,
    say,
)
from tests.lab.tree import Caller


def show(state: Resctrl, group: Group) -> str:
    """The file: of a control group those of its monitoring groups too."""
    pids = [pid for pid in state.processes.ids() if _in(state, pid, group)]
    return "".join(f"{pid}\n" for pid in pids)


def write(state: Resctrl, group: Group, text: str, caller: Caller) -> None:
    """A write to it: one id, or on later kernels several, done one by one until one fails."""
    text = text.partition("\0")[0]
    if not state.profile.task_lists:
        pid = signed(text.strip())
        if pid is None or pid < 0:
            raise failed(errno.EINVAL)
        begin(state, "tasks")
        _move(state, group, pid, caller)
        return
    begin(state, "tasks")
    while text and text[0] != "\n":
        word, _, text = text.partition(",")
        word = word.strip()
        pid = signed(word)
        if pid is None:
            raise refused(state, "bad_pid", word=word)
        if pid < 0:
            raise refused(state, "negative_pid", pid=pid)
        try:
            _move(state, group, pid, caller)
        except OSError:
            say(state, "task_failed", pid=pid)
            raise


def hand_over(state: Resctrl, group: Group, heir: Group) -> None:
    """The group is going: its tasks, and its monitoring groups' if it has any, are the heir's."""
    for pid, member in list(state.members.items()):
        if group in (member.group, member.group.control):
            if heir is state.root:
                del state.members[pid]
            else:
                state.members[pid] = Member(heir, member.started)


def group_of(state: Resctrl, pid: int) -> Group:
    """The group that a thread is in."""
    member = state.members.get(pid)
    if member is None:
        return state.root
    task = state.processes.task(pid)
    if task is None or task.started != member.started:
        del state.members[pid]
        return state.root
    return member.group


def _in(state: Resctrl, pid: int, group: Group) -> bool:
    own = group_of(state, pid)
    return group in (own, own.control)


def _move(state: Resctrl, group: Group, pid: int, caller: Caller) -> None:
    task = state.processes.task(pid or caller.pid)
    if task is None:
        raise refused(state, "no_task", errno.ESRCH, pid=pid)
    if caller.uid not in (0, task.uid):
        raise refused(state, "not_your_task", errno.EPERM, pid=pid)
    own = group_of(state, pid or caller.pid)
    if group.parent is not None and own.control is not group.parent:
        raise refused(state, "other_class_task")
    if group is state.root:
        state.members.pop(pid or caller.pid, None)
    else:
        state.members[pid or caller.pid] = Member(group, task.started)
