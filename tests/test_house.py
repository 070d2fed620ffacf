"""Rules of the layout and of names, kept over the syntax trees (`python -m tests.house -v`)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.house import (
    ROOT,
    Counts,
    banned,
    class_names,
    count,
    kept_from_formatter,
    modules,
    names,
    tree,
    words,
)

# At most so many. Lines have slack while features are added; their target is 64,000.
LIMITS = {
    "lines": 114_060,
    "single_importer": 80,
    "single_importer_in_folder": 27,
    "top_level": 14,
    "duplicate_class_names": 0,
    "banned_names": 0,
    "long_files": 0,
    "long_functions": 0,
    "kept_from_formatter": 0,
}


@cache
def counts() -> Counts:
    return count(ROOT / "nftop")


@pytest.mark.parametrize(("rule", "most"), LIMITS.items())
def test_a_count_is_within_its_limit(rule: str, most: int) -> None:
    assert getattr(counts(), rule) <= most, "python -m tests.house -v lists them"


def test_names_of_tests_have_no_banned_word() -> None:
    assert banned(modules(ROOT / "tests")) == []


def test_tests_are_formatted_but_their_tables() -> None:
    assert kept_from_formatter(modules(ROOT / "tests")) == []


def test_a_table_may_be_kept_from_the_formatter_and_a_statement_may_not(tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    mark = "# fmt: skip"
    source.write_text(
        f"TABLE = {{\n 1: 2, 2: 3,\n 3: 4, 4: 5,\n}}  {mark}\n"
        f"SHORT = (1,\n 2)  {mark}\n"
        f"def f():\n    return [1, 2,\n  3, 4]  {mark}\n"
    )
    assert kept_from_formatter({"module": source}) == [f"{source}:6", f"{source}:9"]


def test_words_of_a_name_are_those_of_snake_and_camel_case() -> None:
    assert words("told_by") == words("ToldBy") == {"told", "by"}


def test_every_kind_of_binding_is_a_name(tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    source.write_text(
        "import a as told\n"
        "def found(said, *, each=0):\n"
        "    with x as made: pass\n"
        "    for place in x: pass\n"
        "    try: pass\n"
        "    except E as who: pass\n"
        "class Part:\n"
        "    def __init__(self): self.looked = 1\n"
        "there: int = 1\n"
        "y = [asked for asked in x]\n"
        "words = {'things': 1}\n"
        "f(words={'around': 1})\n"
    )
    assert {name for name, _ in names(tree(source))} >= {
        "told",
        "found",
        "said",
        "each",
        "made",
        "place",
        "who",
        "Part",
        "looked",
        "there",
        "asked",
        "things",
        "around",
    }


def test_every_kind_of_type_is_counted(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(
            "class A: pass\n"
            "B: TypeAlias = int\n"
            "Eid = NewType('Eid', int)\n"
            "Cd = list[int]\n"
            "Dn = int | None\n"
            "LIMIT = LIMITS[0]\n"
            "Out = TypeVar('Out')\n"
        )
    sites = class_names(modules(tmp_path))
    assert sites.keys() == {"A", "B", "Cd", "Dn", "Eid"}
    assert {len(modules) for modules in sites.values()} == {2}
