"""Scenarios: what ships is sound, and what is wrong gets a sentence."""

from __future__ import annotations

import pytest

from nftop.sim import scenario

HEAD = 'title = "x"\nassumes = "y"\nperiod_s = 10\nswing = 0.0\n'
TASK = """
[[tasks]]
name = "a"
kind = "l3fwd"
workload = "l3fwd"
package = 0
threads = 2
"""
GOOD = HEAD + TASK


def test_what_ships_is_sound_and_says_what_it_assumes() -> None:
    assert set(scenario.names()) >= {"default", "noisy"}
    for name in scenario.names():
        loaded = scenario.load(name)
        assert loaded.title
        assert "Table" in loaded.assumes or "paper" in loaded.assumes
    kinds = {task.kind for task in scenario.load("default").tasks}
    assert kinds == set(scenario.KINDS)
    (step,) = scenario.load("noisy").steps
    assert step.at_s == 60


def test_the_small_one_parses() -> None:
    (task,) = scenario.parse("t", GOOD).tasks
    assert (task.name, task.threads, task.load, task.ht, task.stolen) == ("a", 2, 1.0, False, None)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (GOOD.replace("title", "titel"), "scenario t: 'titel' is not known here"),
        (GOOD.replace('title = "x"', 'title = ""'), "title must be a text"),
        (GOOD.replace("period_s = 10", "period_s = 0"), "period_s must be a number from 1 to 3600"),
        (GOOD.replace("period_s = 10", "period_s = nan"), "period_s must be a number"),
        ("channel_weights = [1, 0]\n" + GOOD, "channel_weights must be a list of whole numbers"),
        ("channel_weights = 2\n" + GOOD, "channel_weights must be a list of whole numbers"),
        (GOOD.replace("swing = 0.0", "swing = true"), "swing must be a number from 0 to 0.1"),
        (HEAD, "it has no tasks"),
        (HEAD + 'tasks = "many"', r"tasks must be written as \[\[tasks\]\]"),
        (HEAD + "tasks = [1]", r"tasks must be written as \[\[tasks\]\]"),
        (GOOD + TASK, "two tasks have the same name"),
        (GOOD.replace('kind = "l3fwd"', 'kind = "snort"'), "tasks a: kind must be one of testpmd"),
        (GOOD.replace('workload = "l3fwd"', 'workload = "poll"'), "workload must be one of"),
        (GOOD.replace("threads = 2", "threads = 2.5"), "threads must be a whole number"),
        (GOOD.replace("threads = 2", "threads = 0"), "threads must be a number from 1 to 512"),
        (GOOD.replace("package = 0", "package = 2"), "package must be a number from 0 to 1"),
        (GOOD + "ht = 1", "ht must be true or false"),
        (GOOD + "load = 1.5", "load must be a number from 0 to 1"),
        (GOOD + "load_swing = 0.1", "load swings beyond what it can take"),
        (GOOD + "colour = 1", "tasks a: 'colour' is not known here"),
        (GOOD + "stolen = 1", "stolen must be a table"),
        (GOOD + "stolen = { thread = 2, share = 0.1 }", "thread must be a number from 0 to 1"),
        ('base = "nothing"\n' + GOOD, "no scenario is called 'nothing'"),
        (GOOD + 'sibling_of = "b"', "tasks a: sibling_of is a vm's, and names a task before it"),
        (GOOD + "stolen = { thread = 0, share = 0.1, by = 1 }", "by must be a text"),
        (GOOD + "[[steps]]\nat_s = 5\nstolen = { a = 0.1 }", "stolen: 'a' is not known here"),
        (GOOD + "[[steps]]\nat_s = 5\ntimes = { a = { x = 2 } }", "'x' is not known here"),
        (GOOD + "[[steps]]\nat_s = 5\ntimes = { a = { cas_reads = -1 } }", "must be a number"),
        (GOOD + "[[steps]]\nat_s = 5\nserver = 0", "server must be a number from 0.1 to 10"),
        (GOOD + "[[steps]]\nat_s = 0", "at_s must be a number"),
        (GOOD + "[[steps]]\nat_s = 5\n[[steps]]\nat_s = 5", "steps must come one after the other"),
        (GOOD + "[[steps]]\nat_s = 5\nload = { b = 1 }", "load: 'b' is not known here"),
        (GOOD + "[[steps]]\nat_s = 5\nslowed = { a = 0.5 }", "a must be a number from 1 to 10"),
        (
            GOOD.replace('kind = "l3fwd"\nworkload = "l3fwd"', 'kind = "vm"\nworkload = "l3fwd"'),
            "workload must be one of memtester",
        ),
        (
            GOOD.replace('kind = "l3fwd"', 'kind = "vpp"'),
            "workload must be one of vpp_l2_patch, vpp_l2_mac, vpp_ip4",
        ),
    ],
)
def test_what_is_wrong_gets_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        scenario.parse("t", text)


def test_what_has_a_base_says_only_what_differs() -> None:
    base = scenario.load("healthy")
    head = 'title = "x"\nassumes = "y"\nbase = "healthy"\n'
    same = scenario.parse("t", head)
    assert (same.tasks, same.groups, same.swing) == (base.tasks, base.groups, base.swing)
    other = scenario.parse("t", head + TASK.replace('"a"', '"vpp"') + TASK)
    assert [task.name for task in other.tasks] == [*(task.name for task in base.tasks), "a"]
    assert [task.kind for task in other.tasks if task.name == "vpp"] == ["l3fwd"]


def test_a_name_that_is_none() -> None:
    with pytest.raises(
        ValueError, match=r"no scenario is called .x.; there are .*default, .*noisy"
    ):
        scenario.load("x")


GROUP = '[[groups]]\nname = "g"\nclos = 1\nways = 0x0f0\n'


def test_groups_begin_with_the_root_group() -> None:
    (root,) = scenario.parse("t", GOOD).groups
    assert (root.name, root.clos, root.tasks, root.ways[0].hex) == ("/", 0, (), "7ff")
    text = GOOD + GROUP.replace("0x0f0", "[0x0f0, 3]") + 'tasks = ["a"]\nmba_percent = 40\n'
    root, group = scenario.parse("t", text).groups
    assert [mask.hex for mask in group.ways] == ["0f0", "003"]
    assert (group.tasks, group.mba_percent) == (("a",), 40)
    named = scenario.parse("t", GOOD + '[[groups]]\nname = "/"\nclos = 0\nways = 0x007').groups
    assert [(item.name, item.ways[0].hex) for item in named] == [("/", "007")]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (GROUP.replace("0x0f0", "0x800"), "groups g: ways must be masks of neighbours of 11 ways"),
        (GROUP.replace("0x0f0", "0x5"), "ways must be masks of neighbours"),
        (GROUP.replace("0x0f0", "0"), "ways must be masks of neighbours"),
        (GROUP.replace("0x0f0", '"f0"'), "ways must be masks of neighbours"),
        (GROUP.replace("0x0f0", "1.5"), "ways must be masks of neighbours"),
        (GROUP.replace("0x0f0", "true"), "ways must be masks of neighbours"),
        (GROUP.replace("0x0f0", "[]"), "ways must be masks of neighbours"),
        (GROUP.replace("clos = 1", "clos = 16"), "clos must be a number from 1 to 15"),
        (GROUP.replace('"g"', '"/"'), "groups /: clos must be a number from 0 to 0"),
        (GROUP.replace('"g"', '"/"') + 'tasks = ["a"]', "the root group has what no other has"),
        (GROUP + 'tasks = ["b"]', "groups g: tasks must be a list of a"),
        (GROUP + 'tasks = "a"', "groups g: tasks must be a list of a"),
        (GROUP + "mba_percent = 5", "mba_percent must be a number from 10 to 100"),
        (GROUP + "colour = 1", "groups g: 'colour' is not known here"),
        (GROUP + GROUP.replace("clos = 1", "clos = 2"), "two groups have the same name"),
        (GROUP + GROUP.replace('"g"', '"h"'), "two groups have the same clos"),
        (
            GROUP + 'tasks = ["a"]\n' + GROUP.replace('"g"', '"h"').replace("1", "2")
            + 'tasks = ["a"]',
            "two groups have the same task",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_group_gets_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        scenario.parse("t", GOOD + text)
