"""How the terminal's environment is read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nftop.ui.options import ColorChoice, Options, options_from
from tests.frames import frame
from tests.ui.harness import running


@pytest.mark.parametrize(
    ("environ", "color", "expected"),
    [
        ({}, "auto", True),
        ({"NO_COLOR": ""}, "auto", True),
        ({"NO_COLOR": "1"}, "auto", False),
        ({"NO_COLOR": "1"}, "always", True),
        ({}, "never", False),
    ],
)
def test_no_color_counts_where_it_is_not_empty(
    environ: dict[str, str], color: ColorChoice, expected: bool
) -> None:
    assert options_from(environ, color=color, utf8=True).color == expected


@pytest.mark.parametrize(
    ("setting", "light"),
    [("15;0", False), ("0;15", True), ("0;default;7", True), ("0;default", False), ("", False)],
)
def test_a_light_ground_is_that_of_colorfgbg(setting: str, light: bool) -> None:
    assert options_from({"COLORFGBG": setting}, utf8=True).light_ground is light


def test_ascii_by_option_or_by_a_locale_that_is_not_utf8() -> None:
    assert options_from({}, utf8=False).ascii_only
    assert options_from({}, utf8=True, ascii_only=True).ascii_only
    assert not options_from({}, utf8=True).ascii_only


@pytest.mark.parametrize(
    ("variables", "utf8"),
    [
        ({"LC_ALL": "C.UTF-8"}, True),
        ({"LANG": "C.UTF-8"}, True),
        ({"LANG": "C"}, False),
        ({"LC_ALL": "POSIX", "LANG": "C.UTF-8"}, False),
        ({}, False),
        ({"LANG": "C", "PYTHONUTF8": "1"}, True),
    ],
)
def test_the_locale_is_read_as_the_terminal_means_it(variables: dict[str, str], utf8: bool) -> None:
    """Python itself says UTF-8 in the C locale, so this needs a Python of its own."""
    reported = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LC_", "LANG", "PYTHON"))
    }
    code = "import os; from nftop.render.base.text import locale_is_utf8 as f; print(f(os.environ))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**reported, "PYTHONPATH": str(Path.cwd()), **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(utf8)


async def test_the_first_message_stays_until_a_key() -> None:
    async with running(frame(4, 1), options=Options(message="edge-07 runs nftop 9.1")) as run:
        assert "edge-07 runs nftop 9.1" in run.text
        assert "9.1" not in await run.press("j")
