"""Which form a profile has, and what reads and writes each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from nftop.control.profile import pqos_config, toml
from nftop.control.profile.exported import Drawn, pqos_text
from nftop.control.profile.profile import Listing
from nftop.control.profile.toml import toml_text

PARSERS: Mapping[str, Callable[[str], Listing]] = {
    "toml": toml.parse, "pqos": pqos_config.parse,
}  # fmt: skip
WRITERS: Mapping[str, Callable[[Drawn], str]] = {"toml": toml_text, "pqos": pqos_text}
# How a profile of nftop's own begins.
_TOML = re.compile(r"schema\b|\[\[\s*class\b")
_OF_PQOS = (".cfg", ".conf", ".sh")


def form_of(name: str, text: str) -> str:
    """By a name that only one of them has, else by what the text looks like."""
    lines = (line.strip() for line in text.splitlines())
    first = next((line for line in lines if line and not line.startswith("#")), "")
    if name.endswith(".toml") or _TOML.match(first):
        return "toml"
    if name.endswith(_OF_PQOS):
        return "pqos"
    return "pqos" if "alloc-" in text or "pqos" in text else "toml"


def parse(name: str, text: str) -> Listing:
    """What a profile of this name says."""
    return PARSERS[form_of(name, text)](text)
