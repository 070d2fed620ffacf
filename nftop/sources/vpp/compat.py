"""Whether PyPI's vpp-papi is installed in a version that reads segments correctly.

Up to 2.4.0 scalars, such as the heartbeat, are those of the last read of the directory, so a live
segment looks frozen. Tested with 2.3.2, 2.4.0, 2.4.1 and 2.4.2.
"""

from __future__ import annotations

import re

from nftop.model.reading import Missing, Reason

INSTALL = "pip install 'nftop[vpp]'"
_LEAST = (2, 4, 1)
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


def installed() -> str | None:
    """Installed version of vpp-papi, or None."""
    from importlib import metadata  # noqa: PLC0415 - it takes long to import

    try:
        return metadata.version("vpp-papi")
    except metadata.PackageNotFoundError:
        return None


def unfit(version: str | None) -> Missing | None:
    """Why that version can't read segments; None if it can."""
    if version is None:
        return Missing(
            Reason.SOURCE,
            f"its stats segment is read with PyPI's vpp-papi, which is not installed: {INSTALL}",
        )
    match = _VERSION.match(version)
    if match is not None and tuple(int(number or 0) for number in match.groups()) >= _LEAST:
        return None
    return Missing(
        Reason.SOURCE,
        f"its stats segment is read with PyPI's vpp-papi 2.4.1 or later, and this is {version}, "
        f"which gives old numbers: {INSTALL}",
    )
