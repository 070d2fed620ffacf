"""Changes a cache class in the editor of `nftop --rw`, keeps that, and takes it back.

Run in a lab, `python -m tests.lab.tests.inside_editor SECONDS`: no step takes longer than that. It
prints a JSON object: see `main`.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pyte

from tests.ui.emulator import Screen

TOP = Path("/sys/fs/resctrl")
WIDTH, HEIGHT = 160, 50
NFTOP = (sys.executable, "-m", "nftop")
UNKEPT = "IS NOT KEPT"
# pyte takes the private prefixes of keyboard protocols for text.
_PRIVATE = re.compile(rb"\x1b\[[<>=][0-9;]*[a-zA-Z]")


class Session:
    """nftop on a terminal of its own, and what that shows."""

    def __init__(self, step_s: float) -> None:
        """`step_s`: how long it may take until an awaited condition holds."""
        self._step_s = step_s
        self.pid, self._terminal = pty.fork()
        if not self.pid:
            os.execv(NFTOP[0], [*NFTOP, "--rw"])
        size = struct.pack("HHHH", HEIGHT, WIDTH, 0, 0)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)
        self._screen = Screen(WIDTH, HEIGHT)
        self._stream = pyte.ByteStream(self._screen)
        self._poll = select.poll()
        self._poll.register(self._terminal, select.POLLIN)

    @property
    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self._screen.display)

    def until(self, holds: Callable[[], bool]) -> None:
        """Draw what comes until the condition holds."""
        deadline_s = time.monotonic() + self._step_s
        while not holds():
            assert time.monotonic() < deadline_s, self.text
            self._draw()

    def shows(self, word: str) -> None:
        self.until(lambda: word in self.text)

    def press(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def end(self) -> int:
        """The exit code."""
        ended = list[int]()

        def holds() -> bool:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            ended.extend([os.waitstatus_to_exitcode(status)] if pid else [])
            return bool(ended)

        self.until(holds)
        return ended[0]

    def _draw(self) -> None:
        if self._poll.poll(100):
            try:
                data = os.read(self._terminal, 1 << 16)
            except OSError:  # nftop has closed its side
                time.sleep(0.1)
                return
            self._stream.feed(_PRIVATE.sub(b"", data))


def tree() -> dict[str, str]:
    """Every file of resctrl that says how it is set up."""
    names = {"schemata", "cpus_list", "mode", "size", "tasks"}
    return {
        str(path): path.read_text()
        for path in sorted(TOP.rglob("*"))
        if path.name in names and path != TOP / "tasks"
    }


def mask() -> str:
    """Of class vpp in cache 0."""
    text = (TOP / "vpp/schemata").read_text()
    result = re.search(r"L3:0=0*([0-9a-f]+)", text)
    assert result is not None, text
    return result[1]


def guards() -> int:
    """How many guards there are."""
    count = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        count += command.endswith(b"nftop.control.guard_process\0")
    return count


def change(session: Session) -> str:
    """Take the highest way of cache 0 from class vpp, and keep it; the mask then."""
    session.press("e")
    session.shows("side by side")
    session.press("j")
    session.until(lambda: re.search("▸ ■ vpp ", session.text) is not None)
    session.press(" ")
    session.shows("fff → 7ff")
    session.press("\r")
    session.shows("applies it")
    session.press("y")
    session.shows(UNKEPT)
    changed = mask()
    session.press("K")
    session.until(lambda: UNKEPT not in session.text and not guards())
    return changed


def undo(session: Session) -> None:
    """Take it back; where that waits to be kept, keep it."""
    session.press("u")
    session.shows("applies it")
    session.press("y")

    def holds() -> bool:
        if UNKEPT in session.text:
            session.press("K")
            session.until(lambda: UNKEPT not in session.text)
        return mask() == "fff" and not guards()

    session.until(holds)


def main() -> None:
    """Print what was seen.

    descriptors: how many nftop had when it asked for the change. changed: the mask then. same:
    whether all files are as before in the end. outcomes: of the changes, by the history. code:
    nftop's exit code.
    """
    (TOP / "vpp").mkdir()
    (TOP / "vpp/cpus_list").write_text("1-3\n")
    before = tree()
    session = Session(float(sys.argv[1]))
    session.shows("LIVE")
    descriptors = len(list(Path(f"/proc/{session.pid}/fd").iterdir()))
    changed = change(session)
    undo(session)
    session.press("\x1b")
    session.until(lambda: "CAT editor" not in session.text)
    session.press("q")
    code = session.end()
    history = subprocess.run(
        [*NFTOP, "history", "--json"], stdout=subprocess.PIPE, text=True, check=True
    )
    outcomes = [json.loads(line)["outcome"] for line in history.stdout.splitlines()]
    seen = {
        "descriptors": descriptors,
        "changed": changed,
        "same": tree() == before,
        "outcomes": outcomes,
        "code": code,
    }
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
