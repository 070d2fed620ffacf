"""Screens come from one registry: header, keys, footer and help know those registered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

import pytest

from nftop.model.frame import Frame
from nftop.render.base.line import Line, line
from nftop.render.frame.header import ViewStatus
from nftop.ui.key_bindings import ALWAYS, KeyRow
from nftop.ui.screens.registry import ScreenRow, position, register, screens, unregister
from nftop.ui.screens.view import ScreenView
from nftop.ui.widgets.lines import MainLayout
from tests.frames import frame
from tests.ui.harness import running


class ToyView(ScreenView):
    """A screen from outside the package, with a key of its own."""

    KEYS: ClassVar[tuple[KeyRow, ...]] = (
        KeyRow("w", "choose", "w", "toy: choose a colour", hint=("w", "Colour")),
        *ALWAYS,
    )

    def paint(self, frame: Frame, status: ViewStatus, stage: MainLayout) -> tuple[str, bool]:
        stage.show_text([line("toy header")], [line(f"{len(frame.cpus)} CPUs")], stage.height - 2)
        return "toy position", True

    def explain(self, frame: Frame) -> Callable[[int], list[Line]] | None:
        return lambda _width: [line("toy explained")]


@pytest.fixture
def toy() -> Iterator[ScreenRow]:
    row = ScreenRow("toy", "8T", "Toy", ToyView, marks=(("%", "a toy mark"),))
    register(row)
    yield row
    unregister(row.id)


async def test_toy_screen_from_outside_opens_by_its_keys_and_is_in_header_footer_and_help(
    toy: ScreenRow,
) -> None:
    async with running(frame(8), size=(160, 90)) as run:
        assert f"8 {toy.title}" in run.text
        for key in toy.keys:
            await run.press("1")
            text = await run.press(key)
            assert "toy header\n 8 CPUs" in text
            assert "w Colour" in text and "toy position" in text.split("\n")[-1]
        assert (await run.press("x")).startswith(" toy explained")
        await run.press("escape")
        help_page = await run.press("question_mark")
        assert "8 T " in help_page and "toy: choose a colour" in help_page
        assert "8 CPUs" not in await run.press("2")
        await run.press("question_mark")
        assert "8 CPUs" in await run.press("8"), "a screen's key leads there from a page, too"


def test_toy_screen_has_a_section_in_help(toy: ScreenRow) -> None:
    assert screens()[position("toy")] == toy
    assert [row.id for row in screens()][-1] == "toy"


def test_screens_of_the_package_are_registered_in_the_order_of_their_keys() -> None:
    assert [(row.id, row.keys) for row in screens()] == [
        ("cores", "1"),
        ("nfs", "2"),
        ("cache", "3"),
        ("traffic", "4"),
        ("timeline", "5"),
        ("topdown", "6"),
        ("power", "7"),
    ]
    assert all(row.marks for row in screens())


@pytest.mark.parametrize(("row_id", "keys"), [("cores", "9"), ("other", "94"), ("other", "")])
def test_id_or_key_that_is_taken_is_refused(row_id: str, keys: str) -> None:
    screens()
    with pytest.raises(ValueError, match="taken"):
        register(ScreenRow(row_id, keys, "Other", ToyView))
