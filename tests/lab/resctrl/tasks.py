"""Which tasks are in a group: the file tasks.

The kernel hands a task's group on at fork(2), of which nobody tells the lab. So whenever somebody
looks at tasks or moves one, those that are new are put where those are who started them.
"""

from __future__ import annotations

import errno

from tests.lab.resctrl.numbers import signed
from tests.lab.resctrl.state import Group, Member, Resctrl, begin, refused, set_status
from tests.lab.tree import Caller, failed


def show(state: Resctrl, group: Group) -> str:
    """The file: of a control group those of its monitoring groups too."""
    _inherit(state)
    groups = ((pid, _group_of(state, pid)) for pid in state.processes.tasks())
    return "".join(f"{pid}\n" for pid, own in groups if group in (own, own.control))


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
            set_status(state, "task_failed", pid=pid)
            raise


def hand_over(state: Resctrl, group: Group, heir: Group) -> None:
    """The group is going: its tasks, and its monitoring groups' if it has any, are the heir's."""
    _inherit(state)
    for pid, member in list(state.members.items()):
        if group in (member.group, member.group.control):
            state.members[pid] = Member(heir, member.started, state.processes.now())


def _inherit(state: Resctrl) -> None:
    """Forget who is gone; who is new has the group of who started it."""
    tasks = state.processes.tasks()
    for pid, member in list(state.members.items()):
        if pid not in tasks or tasks[pid].started != member.started:
            del state.members[pid]
    for pid, task in sorted(tasks.items(), key=lambda row: (row[1].started, row[0])):
        starter = state.members.get(task.parent)
        if pid not in state.members and starter is not None and task.started >= starter.since:
            state.members[pid] = Member(starter.group, task.started, task.started)


def _group_of(state: Resctrl, pid: int) -> Group:
    member = state.members.get(pid)
    return state.root if member is None else member.group


def _move(state: Resctrl, group: Group, pid: int, caller: Caller) -> None:
    _inherit(state)
    own = pid or caller.pid
    task = state.processes.tasks().get(own)
    if task is None:
        raise refused(state, "no_task", errno.ESRCH, pid=pid)
    if caller.uid not in (0, task.uid):
        raise refused(state, "not_your_task", errno.EPERM, pid=pid)
    if group.parent is not None and _group_of(state, own).control is not group.parent:
        raise refused(state, "other_class_task")
    state.members[own] = Member(group, task.started, state.processes.now())
