"""README.md and docs/: commands parse; targets, linked files and columns exist.

Sphinx checks links between the pages of docs/ (`make docs`), but not those of the README.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from nftop.cli.main import build_parser
from nftop.cli.parsers.record import with_times
from nftop.export.openmetrics.page import Tally
from nftop.export.openmetrics.page import page as openmetrics
from nftop.export.openmetrics.writer import TextFormat
from nftop.model.nf.queue_map import parse_queue_map
from nftop.render.pages.explain import metrics_called, words_called
from tests.house import ROOT
from tests.sim.hosts import Frozen, S

README = ROOT / "README.md"
PAGES = (README, *sorted((ROOT / "docs").glob("*.md")))
CODE = re.compile(r"(?m)^ {4,}(?!-)(\S.*)$")


def code_lines(page: Path) -> list[str]:
    """Lines of indented code, without comments."""
    return [re.sub(r"\s+#.*$", "", line) for line in CODE.findall(page.read_text())]


def commands(page: Path) -> list[list[str]]:
    """Arguments of every call of nftop in code, also behind a pipe or ssh."""
    calls = []
    for line in code_lines(page):
        for piece in re.split(r" [|&] ?| >", line):
            words = shlex.split(piece)
            if "nftop" in words[:4] and words[0] in ("nftop", "sudo", "ssh"):
                calls.append(words[words.index("nftop") + 1 :])
    return calls


def test_the_readme_is_short_and_has_its_two_commands() -> None:
    lines = README.read_text().splitlines()
    assert len(lines) <= 200
    run, test = (line.split("#")[0].strip() for line in lines if re.match(r" {4}make \w+ ", line))
    assert (run, test) == ("make run", "make test")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_parse(page: Path) -> None:
    for words in commands(page):
        demo = words[:1] == ["demo"]
        try:
            parser = build_parser(demo=demo)
            options = parser.parse_args(with_times(words[1:] if demo else words))
        except SystemExit as end:
            pytest.fail(f"{words}: {end}")
        parse_queue_map(options.queue_map)


def test_enough_commands_are_checked() -> None:
    counted = {page.name: len(commands(page)) for page in PAGES}
    assert counted["README.md"] >= 15
    assert counted["cache-tuning.md"] >= 15
    assert sum(counted.values()) >= 70


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_targets_of_make_exist(page: Path) -> None:
    named = set(re.findall(r"(?:^ {4}|`|sudo )make (\w[\w-]*)", page.read_text(), re.MULTILINE))
    targets = set(re.findall(r"(?m)^([\w-]+):", (ROOT / "Makefile").read_text()))
    assert named <= targets


def test_links_of_the_readme_lead_to_files_and_headings() -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", README.read_text()):
        name, _, heading = target.partition("#")
        assert (ROOT / name).is_file(), target
        if heading:
            titles = re.findall(r"(?m)^#+ (.*)$", (ROOT / name).read_text())
            slugs = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
            assert heading in slugs, target


def test_columns_of_the_screens_page_exist() -> None:
    page = (ROOT / "docs/screens.md").read_text()
    table = page.split("| column | meaning |\n|---|---|\n")[1].split("\n\n")[0]
    named = re.findall(r"[^\s,]+", " ".join(row.split("|")[1] for row in table.splitlines()))
    assert len(named) >= 15
    for name in named:
        assert metrics_called(name) or words_called(name), name


def test_names_of_open_metrics_are_on_a_page_of_the_demo() -> None:
    host = Frozen("noisy")
    host.tick(0)
    host.tick(60 * S)
    frame = [host.tick(S) for _ in range(8)][-1]
    page = openmetrics(frame, Tally().after(frame, cpu_s=1.0), TextFormat.TEXT)
    known = set(re.findall(r"(?m)^# TYPE (\S+)", page))
    named = {
        (name, file.name)
        for file in PAGES
        for name in re.findall(r"\bnftop_[a-z0-9_]*[a-z0-9]\b", file.read_text())
    }
    assert len(named) >= 15
    assert not {(name, file) for name, file in named if name not in known}
