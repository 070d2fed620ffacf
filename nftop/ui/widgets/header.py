"""The top of the screen: identity and sources, the network functions, the map of CPUs."""

from __future__ import annotations

from nftop.ui.widgets.lines import Lines


class Header(Lines):
    """Lines of `render.header`, `render.nfs` and `render.map`."""
