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


def test_what_ships_is_sound_and_reports_what_it_assumes() -> None:
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
        (GOOD.replace("title", "titel"), "scenario t: .*`title`"),
        (GOOD.replace('title = "x"', 'title = ""'), r"\$\.title"),
        (GOOD.replace("period_s = 10", "period_s = 0"), r"\$\.period_s"),
        (GOOD.replace("period_s = 10", "period_s = nan"), r"\$\.period_s"),
        ("channel_weights = [1, 0]\n" + GOOD, r"\$\.channel_weights"),
        ("channel_weights = 2\n" + GOOD, r"\$\.channel_weights"),
        (GOOD.replace("swing = 0.0", "swing = true"), r"\$\.swing"),
        (HEAD, "needs .*tasks"),
        (HEAD + 'tasks = "many"', r"\$\.tasks"),
        (HEAD + "tasks = [1]", r"\$\.tasks"),
        (GOOD + TASK, "tasks: two have the same name"),
        (GOOD.replace('kind = "l3fwd"', 'kind = "snort"'), r"\$\.tasks\[0\]\.kind"),
        (
            GOOD.replace('workload = "l3fwd"', 'workload = "poll"'),
            "tasks.a: workload must be one of",
        ),
        (GOOD.replace("threads = 2", "threads = 2.5"), r"\$\.tasks\[0\]\.threads"),
        (GOOD.replace("threads = 2", "threads = 0"), r"\$\.tasks\[0\]\.threads"),
        (GOOD.replace("package = 0", "package = 2"), r"\$\.tasks\[0\]\.package"),
        (GOOD + "ht = 1", r"\$\.tasks\[0\]\.ht"),
        (GOOD + "load = 1.5", r"\$\.tasks\[0\]\.load"),
        (GOOD + "load_swing = 0.1", "tasks.a: load_swing"),
        (GOOD + 'errors = { "a/b" = 5 }', "tasks.a: errors are a vpp's"),
        (
            GOOD.replace('"l3fwd"', '"vpp"', 1).replace('"l3fwd"', '"vpp_ip4"')
            + "errors = { b = 5 }",
            "tasks.a: errors are a vpp's",
        ),
        (GOOD + 'errors = { "a/b" = 1 }', r"\$\.tasks\[0\]\.errors"),
        (GOOD + "colour = 1", "tasks.0.'colour' is unknown"),
        (GOOD + "stolen = 1", r"\$\.tasks\[0\]\.stolen"),
        (GOOD + "stolen = { thread = 2, share = 0.1 }", "tasks.a: stolen.thread"),
        ('base = "nothing"\n' + GOOD, "no scenario is called 'nothing'"),
        (GOOD + 'sibling_of = "b"', "tasks.a: sibling_of"),
        (GOOD + "stolen = { thread = 0, share = 0.1, by = 1 }", r"\$\.tasks\[0\]\.stolen\.by"),
        (GOOD + "[[steps]]\nat_s = 5\nstolen = { a = 0.1 }", "steps: a is unknown"),
        (GOOD + "[[steps]]\nat_s = 5\ntimes = { a = { x = 2 } }", "steps: x is unknown"),
        (
            GOOD + "[[steps]]\nat_s = 5\ntimes = { a = { cas_reads = -1 } }",
            r"\$\.steps\[0\]\.times",
        ),
        (GOOD + "[[steps]]\nat_s = 5\nserver = 0", r"\$\.steps\[0\]\.server"),
        (GOOD + "[[steps]]\nat_s = 0", r"\$\.steps\[0\]\.at_s"),
        (GOOD + "[[steps]]\nat_s = 5\n[[steps]]\nat_s = 5", "steps: at_s must increase"),
        (GOOD + "[[steps]]\nat_s = 5\nload = { b = 1 }", "steps: b is unknown"),
        (GOOD + "[[steps]]\nat_s = 5\nslowed = { a = 0.5 }", r"\$\.steps\[0\]\.slowed"),
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


def test_what_has_a_base_reports_only_what_differs() -> None:
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
    assert (root.name, root.clos, root.tasks, root.ways[0].hex) == ("/", 0, (), "fffff")
    text = GOOD + GROUP.replace("0x0f0", "[0x0f0, 3]") + 'tasks = ["a"]\nmba_percent = 40\n'
    root, group = scenario.parse("t", text).groups
    assert [mask.hex for mask in group.ways] == ["000f0", "00003"]
    assert (group.tasks, group.mba_percent) == (("a",), 100)  # Broadwell has no MBA
    root, group = scenario.parse("t", text, "gold-6252n").groups
    assert [mask.hex for mask in (*root.ways, *group.ways)] == ["7ff", "00c", "001"]
    assert (group.tasks, group.mba_percent) == (("a",), 40)
    named = scenario.parse("t", GOOD + '[[groups]]\nname = "/"\nclos = 0\nways = 0x007').groups
    assert [(item.name, item.ways[0].hex) for item in named] == [("/", "00007")]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (GROUP.replace("0x0f0", "0x100000"), r"\$\.groups\[0\]\.ways"),
        (GROUP.replace("0x0f0", "0x5"), "ways"),
        (GROUP.replace("0x0f0", "0"), "ways"),
        (GROUP.replace("0x0f0", '"f0"'), "ways"),
        (GROUP.replace("0x0f0", "1.5"), "ways"),
        (GROUP.replace("0x0f0", "true"), "ways"),
        (GROUP.replace("0x0f0", "[]"), "ways"),
        (GROUP.replace("clos = 1", "clos = 16"), r"\$\.groups\[0\]\.clos"),
        (GROUP.replace('"g"', '"/"'), "groups./: clos"),
        (GROUP.replace('"g"', '"/"') + 'tasks = ["a"]', "groups./"),
        (GROUP + 'tasks = ["b"]', "tasks"),
        (GROUP + 'tasks = "a"', "tasks"),
        (GROUP + "mba_percent = 5", r"\$\.groups\[0\]\.mba_percent"),
        (GROUP + "colour = 1", "groups.0.'colour' is unknown"),
        (GROUP + GROUP.replace("clos = 1", "clos = 2"), "groups: two have the same name"),
        (GROUP + GROUP.replace('"g"', '"h"'), "groups: two have the same clos"),
        (
            GROUP + 'tasks = ["a"]\n' + GROUP.replace('"g"', '"h"').replace("1", "2")
            + 'tasks = ["a"]',
            "groups: two have the same task",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_group_gets_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        scenario.parse("t", GOOD + text)
