"""The lines above every screen."""

from __future__ import annotations

from nftop.ui.widgets.lines import Lines


class Banner(Lines):
    """Lines of `render.standing`; there only while a change is on its way."""
