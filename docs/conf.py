"""Sphinx: `make docs` builds these pages into build/docs; a broken link is an error."""

from nftop import __version__

project = "nftop"
author = "the authors of nftop"
project_copyright = "the authors of nftop, Apache-2.0"
release = version = __version__

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
html_theme = "furo"
html_title = f"nftop {release}"
html_copy_source = False
html_show_sourcelink = False
