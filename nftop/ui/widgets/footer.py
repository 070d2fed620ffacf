"""The bottom line."""

from __future__ import annotations

from nftop.ui.widgets.lines import Lines


class Footer(Lines):
    """The line of `render.footer`."""
