"""Whether PyPI's vpp-papi is there, in a version that reads a segment right.

Up to 2.4.0 it gives scalars, the heartbeat among them, as they were when the directory was read
last: a segment that lives looks frozen. That was tried with 2.3.2, 2.4.0, 2.4.1 and 2.4.2.
"""

from __future__ import annotations

import re

from nftop.model.reading import Missing, Reason

INSTALL = "pip install 'nftop[vpp]'"
_LEAST = (2, 4, 1)
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


def installed() -> str | None:
    """Its version; None where there is none."""
    from importlib import metadata  # noqa: PLC0415 - it takes long to import

    try:
        return metadata.version("vpp-papi")
    except metadata.PackageNotFoundError:
        return None


def unfit(version: str | None) -> Missing | None:
    """Why segments can't be read with that version; None where they can."""
    if version is None:
        return Missing(
            Reason.SOURCE,
            f"its stats segment is read with PyPI's vpp-papi, which is not installed: {INSTALL}",
        )
    found = _VERSION.match(version)
    if found is not None and tuple(int(part or 0) for part in found.groups()) >= _LEAST:
        return None
    return Missing(
        Reason.SOURCE,
        f"its stats segment is read with PyPI's vpp-papi 2.4.1 or later, and this is {version}, "
        f"which gives old numbers: {INSTALL}",
    )
