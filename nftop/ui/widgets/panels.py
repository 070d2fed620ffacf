"""What is counted per cache class and per package, below the table of CPUs."""

from __future__ import annotations

from nftop.ui.widgets.lines import Lines


class Panels(Lines):
    """Lines of `render.panels`."""
