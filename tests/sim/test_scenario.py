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
        (GOOD + "[[steps]]\nat_s = 0", "at_s must be a number"),
        (GOOD + "[[steps]]\nat_s = 5\n[[steps]]\nat_s = 5", "steps must come one after the other"),
        (GOOD + "[[steps]]\nat_s = 5\nload = { b = 1 }", "load: 'b' is not known here"),
        (GOOD + "[[steps]]\nat_s = 5\nslowed = { a = 0.5 }", "a must be a number from 1 to 10"),
        (
            GOOD.replace('kind = "l3fwd"\nworkload = "l3fwd"', 'kind = "vm"\nworkload = "l3fwd"'),
            "workload must be one of memtester",
        ),
    ],
)
def test_what_is_wrong_gets_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        scenario.parse("t", text)


def test_a_name_that_is_none() -> None:
    with pytest.raises(ValueError, match="no scenario is called 'x'; there are default, noisy"):
        scenario.load("x")
