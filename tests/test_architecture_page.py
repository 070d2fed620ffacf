"""docs/architecture.md agrees with the tree, with the import contracts and with the tests."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.house import ROOT

PAGE = (ROOT / "docs/architecture.md").read_text()
PATHS = sorted(set(re.findall(r"`((?:nftop|tests|docs)/[^`\s]*)`", PAGE)))


def section(title: str) -> str:
    """Text of the section of this title, without its heading."""
    return PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def first_cells(text: str) -> list[str]:
    """First cells of a table's rows, without its heading and its rule."""
    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("|")]
    return rows[2:]


def test_layers_are_those_of_the_import_contract_in_its_order() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contract = settings["tool"]["importlinter"]["contracts"][0]
    assert contract["type"] == "layers"
    listed = [re.findall(r"`(\w+)`", cell) for cell in first_cells(section("Layers"))]
    assert listed == [re.split(r" [:|] ", layer) for layer in contract["layers"]]


@pytest.mark.parametrize("path", PATHS)
def test_a_path_exists(path: str) -> None:
    assert list(ROOT.glob(path.rstrip("/")))


def test_recipes_name_what_is_added_and_a_test_that_adds_one() -> None:
    rows = [line for line in section("Adding something").splitlines() if line.startswith("|")][2:]
    added = [row.split("|")[1].strip() for row in rows]
    assert len(added) == len(set(added)) >= 8
    for row in rows:
        assert re.search(r"`tests/[^`]+\.py`", row.split("|")[3]), row
