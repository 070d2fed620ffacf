"""The top of the screen: identity and sources, then the network functions."""

from __future__ import annotations

from nftop.ui.widgets.lines import Lines


class Header(Lines):
    """Lines of `render.header` and `render.nfs`."""
