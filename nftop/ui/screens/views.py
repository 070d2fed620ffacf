"""The views there are: one row each, and the keys that lead to them."""

from __future__ import annotations

from dataclasses import dataclass

from nftop.ui.keys import CPUS, MOVE, Key
from nftop.ui.screens.cache import CacheView
from nftop.ui.screens.cores import CoresView
from nftop.ui.screens.nfs import NfsView
from nftop.ui.screens.power import PowerView
from nftop.ui.screens.topdown import TopdownView
from nftop.ui.screens.traffic import TrafficView
from nftop.ui.screens.view import ScreenView


@dataclass(frozen=True, slots=True)
class ViewRow:
    """Attributes.

    numbers: the keys that lead to it; the first is shown.
    name: as the header calls it.
    view: what draws it.
    """

    numbers: str
    name: str
    view: type[ScreenView]


VIEWS: tuple[ViewRow, ...] = (
    ViewRow("1", "Cores", CoresView),
    ViewRow("2", "NFs", NfsView),
    ViewRow("3", "Cache", CacheView),
    ViewRow("45", "Memory/PCIe", TrafficView),
    ViewRow("6", "Topdown", TopdownView),
    ViewRow("7", "Power", PowerView),
)
# What the header says of them: number and name.
TABS: tuple[tuple[str, str], ...] = tuple((row.numbers[0], row.name) for row in VIEWS)
# The keys that lead to them.
LEADING: tuple[Key, ...] = tuple(
    Key(",".join(row.numbers), "screen", " ".join(row.numbers), f"the {row.name} screen",
        int(row.numbers[0]))
    for row in VIEWS
)  # fmt: skip
# Every key of every view once, in the order of the help.
KEYS: tuple[Key, ...] = tuple(
    dict.fromkeys((*LEADING, *MOVE, *CPUS, *(key for row in VIEWS for key in row.view.KEYS)))
)


def place_of(number: int) -> int:
    """The place in `VIEWS` of the view a number leads to.

    Raises:
        KeyError: there is none.
    """
    return _PLACES[str(number)]


_PLACES = {number: place for place, row in enumerate(VIEWS) for number in row.numbers}
