"""Groups by the numbers that `cat show` prints."""

from __future__ import annotations

import re

import pytest

from nftop.cli.compose import classes_host
from nftop.cli.compose.classes_host import resolve_group
from nftop.cli.main import build_parser
from nftop.model.rdt.rdt import ROOT
from nftop.model.struct import replace
from tests.command import called
from tests.rdt import group, table


def shown() -> dict[str, str]:
    """Class number by group as `cat show` prints them."""
    text = called("demo", "cat", "show").stdout
    return dict(re.findall(r"^(\S+)  \(COS(\d+)\)$", text, re.MULTILINE))


def test_the_export_for_pqos_has_the_numbers_that_are_shown() -> None:
    text = called("demo", "cat", "export", "--profile", "pqos").stdout
    named = {group: number for number, group in re.findall(r"COS (\d+) is group (\S+)", text)}
    assert {"default": "0", **named} == shown()
    assert len(named) == 4


@pytest.mark.parametrize("line", ["cat set --l3 0=3", "cat remove", "sst release"])
def test_a_shown_number_names_its_group(line: str) -> None:
    """The commands do the same for COS2 as for the group of this number."""
    group = {number: name for name, number in shown().items()}["2"]
    by_name, by_number = (
        called("demo", *line.split(), "--group", name, "--dry-run") for name in (group, "COS2")
    )
    assert by_number.stdout == by_name.stdout
    assert by_number.returncode == by_name.returncode


@pytest.mark.parametrize(
    ("name", "resolved"),
    [("COS1", "vpp"), ("COS0", "default"), ("COS3", "COS3"), ("COS9", "COS9"), ("vpp", "vpp")],
)
def test_a_directory_of_this_name_comes_first(
    name: str, resolved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [(ROOT, 0), ("vpp", 1), ("ovs", 3), ("COS3", 5)]
    known = replace(table(), groups=tuple(group(name, clos, ()) for name, clos in rows))
    monkeypatch.setattr(classes_host, "table_of", lambda _: known)
    options = build_parser().parse_args(["cat", "remove", "--group", name])
    resolve_group(options)
    assert options.group == resolved
