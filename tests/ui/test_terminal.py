"""What really reaches a terminal: the bytes, drawn by a terminal emulator in a real pty.

Textual's own picture of the screen (the snapshots) can't tell whether only drawing what changed
leaves the terminal with the right text; an emulator can.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import pty
import re
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType

import psutil
import pyte
import pytest

from nftop.model.frame import Frame
from nftop.sources.runtime.readiness import wait_readable
from nftop.ui.screens.registry import screens
from tests.command import NFTOP
from tests.frames import HOSTILE, frame, hostile, ticks
from tests.ui.emulator import Screen, cells
from tests.ui.harness import running
from tests.waiting import until

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
PATIENCE_S = 180.0  # nothing waits that long but a test that fails
QUIET_S = 0.4
# pyte takes the private prefixes of keyboard protocols for text; they draw nothing.
_PRIVATE = re.compile(rb"\x1b\[[<>=][0-9;]*[a-zA-Z]")


@dataclass
class Terminal:
    """A child process on a pty, and the screen its bytes make."""

    child: subprocess.Popen[bytes]
    master: int
    ticks: int
    screen: pyte.Screen
    stream: pyte.ByteStream
    raw: bytearray = field(default_factory=bytearray)

    @property
    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self.screen.display)

    def read(self, until: str = "") -> str:
        """Feed the screen until `until` is on it and the child has been silent for a while."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if wait_readable([self.master], QUIET_S):
                if not self._feed():
                    break
            elif until in self.text:
                break
        assert until in self.text, f"{until!r} is not on the screen:\n{self.text}"
        return self.text

    def eventually(self, done: Callable[[], bool], *, again: bytes = b"") -> bool:
        """Feed the screen until `done`, or until the child has ended or enough time has passed.

        What `read` takes for silence may be a child that has not got to it yet.
        `again`: typed whenever nothing came for a while.
        """
        deadline = time.monotonic() + PATIENCE_S
        while not done() and time.monotonic() < deadline:
            if not wait_readable([self.master], 0.1):
                if again:
                    os.write(self.master, again)
            elif not self._feed():
                break
        return done()

    def catch_up(self) -> bool:
        """Feed the screen what has come already; whether the child is there."""
        while wait_readable([self.master], 0):
            if not self._feed():
                return False
        return True

    def end(self) -> int:
        """Feed the screen all that comes until the child ends; its exit code."""
        self.eventually(lambda: False)
        return self.child.wait(PATIENCE_S)

    def _feed(self) -> bool:
        try:
            data = os.read(self.master, 65536)
        except OSError:  # the child has closed its side
            return False
        self.raw += data
        self.stream.feed(_PRIVATE.sub(b"", data))
        return True

    def tick(self, count: int, until: str = "") -> str:
        for _ in range(count):
            os.write(self.ticks, b"\n")
            time.sleep(0.05)  # each gets its own repaint
        return self.read(until)

    def press(self, keys: str, until: str = "") -> str:
        os.write(self.master, keys.encode())
        return self.read(until)

    def resize(self, width: int, height: int, until: str = "") -> str:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        self.child.send_signal(signal.SIGWINCH)
        self.screen.resize(height, width)
        self.screen.reset()
        return self.read(until)


@contextmanager
def terminal(
    scene: str,
    size: tuple[int, int],
    *,
    command: Sequence[str] = (),
    controlling: bool = True,
    drawn_by: str = "",
    environ: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Terminal]:
    """`scene` of `pty_app`, or any other command, on a pty of that size."""
    width, height = size
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    reported, writer = os.pipe()
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LC_", "LANG", "TEXTUAL", "NO_COLOR", "COLUMNS", "LINES"))
    }
    child = subprocess.Popen(
        # Where the pty is its controlling terminal, hanging up is a SIGHUP.
        [
            "setsid",
            *(["--ctty"] if controlling else []),
            *(
                command
                or [sys.executable, "-m", "tests.ui.pty_app", scene, str(reported), drawn_by]
            ),
        ],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=ROOT,
        env={**kept, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **environ},
        pass_fds=(reported,),
    )
    os.close(slave)
    os.close(reported)
    screen = Screen(width, height)
    try:
        yield Terminal(child, master, writer, screen, pyte.ByteStream(screen))
    finally:
        child.kill()
        child.wait()
        os.close(writer)
        with suppress(OSError):  # hung up
            os.close(master)


async def _expected(frames: tuple[Frame, ...], keys: tuple[str, ...], size: tuple[int, int]) -> str:
    async with running(*frames, size=size) as run:
        return await run.press(*keys)


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_the_terminal_shows_what_textual_thinks(size: tuple[int, int]) -> None:
    frames = tuple(ticks(lambda tick: frame(64, tick), 12))
    with terminal("healthy", size) as term:
        term.read("waiting for the first tick")
        term.tick(8, "dpdk-worker1")
        assert term.press("i", "vpp_wk_0").count("dpdk-worker") >= 2
        term.press("jjjj>>>>")
        term.tick(4)
        wanted = await _expected(frames, ("i", *"jjjj", *["greater_than_sign"] * 4), size)
        term.eventually(lambda: term.text == wanted)
        assert term.text == wanted


async def test_a_resize_while_running() -> None:
    frames = tuple(ticks(lambda tick: frame(64, tick), 9))
    with terminal("healthy", (80, 24)) as term:
        term.tick(3, "dpdk-worker1")
        for size in ((120, 36), (20, 5), (80, 24)):
            term.resize(*size, until="CPU")
            term.tick(2)
            seen = 3 + 2 * (1 + ((120, 36), (20, 5), (80, 24)).index(size))
            wanted = await _expected(frames[:seen], (), size)
            term.eventually(lambda wanted=wanted: term.text == wanted)  # type: ignore[misc]
            assert term.text == wanted


# What is pressed, or `tick`, or a size; then what must be on the screen.
STEPS: tuple[tuple[str | tuple[int, int], str], ...] = (
    ("tick", "dpdk-worker1"),
    ("ijjj", "vpp_wk_0"),
    ("tick", "LIVE"),
    ("?j", "close"),
    ("tick", "close"),
    ("\x1b", "LIVE"),
    ("\\wor", "filter thread"),
    ("tick", "filter thread"),
    ("\r", "filter wor"),
    ("\x1b", "LIVE"),
    ((90, 24), "LIVE"),
    ("x", "meaning"),
    ((120, 40), "meaning"),
    ("\x1b", "LIVE"),
    ("\x1b[6~", "LIVE"),
    ("tick", "LIVE"),
    ((30, 7), "too small"),
    ((160, 45), "LIVE"),
    (">>>>I", "LIVE"),
    ("tick", "LIVE"),
)


@pytest.mark.parametrize("environ", [{}, {"NO_COLOR": "1"}, {"LC_ALL": "C"}])
def test_every_cell_is_as_textual_draws_it_from_segments(environ: dict[str, str]) -> None:
    """Colours and attributes too, whatever came between: pages, prompts, scrolling, resizes."""

    def take(term: Terminal, step: str | tuple[int, int], until: str) -> None:
        if isinstance(step, tuple):
            term.resize(*step, until=until)
        elif step == "tick":
            term.tick(2, until)
        else:
            term.press(step, until)

    with (
        terminal("busy", (120, 40), environ=environ) as ours,
        terminal("busy", (120, 40), environ=environ, drawn_by="segments") as plain,
        ThreadPoolExecutor() as both,
    ):
        for step, until in STEPS:
            list(both.map(lambda term, to=(step, until): take(term, *to), (ours, plain)))
            # Either may be the slower to draw.
            ours.eventually(lambda: plain.catch_up() and cells(ours.screen) == cells(plain.screen))
            assert cells(ours.screen) == cells(plain.screen), step
        assert len(ours.raw) < len(plain.raw), "segments were not what it was drawn from"


def test_a_tiny_terminal() -> None:
    with terminal("healthy", (20, 5)) as term:
        words = " ".join(term.tick(2, "vpp_wk").split())
        assert "too small: 20x5" in words
        assert "Traceback" not in term.raw.decode(errors="replace")


def test_nothing_of_a_hostile_name_reaches_the_terminal() -> None:
    with terminal("hostile", (120, 36)) as term:
        shown = term.tick(1, "[red]x[/] ?[2J")
        term.press("jjx", "Sources")
        assert "漢 字" in shown or "漢字" in shown
        for name in HOSTILE[:1] + HOSTILE[2:]:
            assert name.encode() not in term.raw
        for poison in ("\x1b[2J ", "x[/] \x1b", "line\x07", "\x9b", "\u202e", "\u200b", "\u05e9"):
            assert poison.encode() not in term.raw
        assert hostile().nfs[0].name.encode() not in term.raw


@pytest.mark.parametrize(
    ("environ", "coloured"), [({}, True), ({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False)]
)
def test_no_colour_is_sent_where_none_is_wanted(environ: dict[str, str], coloured: bool) -> None:
    with terminal("healthy", (80, 24), environ=environ) as term:
        term.tick(2, "dpdk-worker1")
        codes = [
            int(code)
            for result in re.findall(rb"\x1b\[([0-9;]*)m", bytes(term.raw))
            for code in result.decode().split(";")
            if code
        ]
        chromatic = [code for code in codes if 30 <= code <= 38 or 40 <= code <= 48 or code >= 90]
        assert bool(chromatic) is coloured


def test_ascii_where_the_locale_is_not_utf8() -> None:
    with terminal("healthy", (80, 24), environ={"LC_ALL": "C"}) as term:
        term.tick(3, "dpdk-worker1")
        assert term.raw.isascii()


@pytest.mark.parametrize("keys", ["q", "\x03", "/\x03"])
def test_quitting_leaves_at_once_and_restores_the_terminal(keys: str) -> None:
    with terminal("healthy", (80, 24)) as term:
        term.tick(1, "dpdk-worker1")
        os.write(term.master, keys.encode())
        assert term.end() == 0
        assert b"\x1b[?1049l" in term.raw, "the alternate screen is left"
        assert b"\x1b[?25h" in term.raw, "the cursor is back"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_leaves_in_order(number: signal.Signals) -> None:
    with terminal("healthy", (80, 24)) as term:
        term.tick(1, "dpdk-worker1")
        term.child.send_signal(number)
        assert term.end() == 128 + number
        assert b"\x1b[?1049l" in term.raw


def test_a_signal_that_another_thread_takes_wakes_the_screen_too() -> None:
    """The kernel chooses the thread, and SIGCONT often goes to another than the main one."""
    with terminal("healthy", (80, 24)) as term:
        term.tick(1, "dpdk-worker1")
        others = {thread.id for thread in psutil.Process(term.child.pid).threads()}
        thread = max(others - {term.child.pid})
        ctypes.CDLL(None).tgkill(term.child.pid, thread, signal.SIGTERM)
        assert term.end() == 128 + signal.SIGTERM


def test_a_signal_takes_back_what_is_not_kept_and_reports_it() -> None:
    command = [*NFTOP, "demo", "--cpus", "16"]
    with terminal("", (100, 30), command=command) as term:
        term.read("READ-WRITE")
        term.press("e", "side by side")
        term.press("-", "nftop demo --cpus 16 cat set")
        term.press("\r", "applies it")
        term.press("y", "NOT KEPT")
        term.child.send_signal(signal.SIGHUP)
        assert term.end() == 128 + signal.SIGHUP
        left = bytes(term.raw).rpartition(b"\x1b[?1049l")[2]
        assert b"the change was not kept: reverted: everything is as it was before" in left


@pytest.mark.real
def test_the_command_itself_on_a_terminal() -> None:
    command = [*NFTOP, "-d", "30"]
    with terminal("", (100, 30), command=command) as term:
        term.read("LIVE 30s")
        term.press("x", "meaning")
        term.press("\x1b", "LIVE")
        os.write(term.master, b"q")
        assert term.end() == 0
        assert b"\x1b[?1049l" in term.raw


@pytest.mark.real
def test_the_demo_s_screen_wears_its_badge() -> None:
    command = [*NFTOP, "demo", "--cpus", "16", "-d", "0.2"]
    with terminal("", (140, 40), command=command) as term:
        assert term.eventually(lambda: "loop/testpmd" in term.text)
        assert "SIMULATED" in term.text.splitlines()[0]
        os.write(term.master, b"q")
        assert term.end() == 0


@pytest.mark.real
def test_the_screen_is_not_drawn_into_a_log() -> None:
    command = ["sh", "-c", f"exec {' '.join(NFTOP)} -d 30 2>/dev/null"]
    with terminal("", (100, 30), command=command) as term:
        term.read("LIVE 30s")
        os.write(term.master, b"q")
        assert term.end() == 0


@pytest.mark.real
def test_a_terminal_that_goes_away_ends_it() -> None:
    command = [*NFTOP, "-d", "30"]
    with terminal("", (100, 30), command=command) as term:
        term.read("LIVE")
        os.close(term.master)
        assert term.child.wait(PATIENCE_S) != 0


def writes_and_waits(pid: int) -> bool:
    """Some thread of a process sleeps in write(2), as it does where a terminal takes no more."""
    number = {"x86_64": "1", "aarch64": "64"}[platform.machine()]
    calls = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/syscall")]
    return any(call[0] == number for call in calls)


@pytest.mark.parametrize("controlling", [True, False], ids=["its own", "nobody's"])
def test_a_terminal_that_is_read_no_more_and_then_is_gone_ends_it(controlling: bool) -> None:
    """Its writes are stuck then; and where it controls no session, nobody sends a SIGHUP."""
    command = [*NFTOP, "demo", "--cpus", "16", "-d", "0.1"]
    with terminal("", (80, 24), command=command, controlling=controlling) as term:
        assert term.eventually(lambda: "LIVE" in term.text)
        until(lambda: writes_and_waits(term.child.pid))
        assert term.child.poll() is None
        os.close(term.master)
        assert term.child.wait(PATIENCE_S) == 128 + signal.SIGHUP


def test_what_is_typed_ahead_goes_into_the_prompt() -> None:
    with terminal("healthy", (80, 24)) as term:
        term.tick(1, "dpdk-worker1")
        term.press("\\qqnix\r", "filter qqnix")
        assert term.child.poll() is None
        term.press("\x1b", "dpdk-worker1")
        term.press("/d/\\q", "CPU: d/\\q")


@pytest.mark.parametrize("typed", [b"\xff", b"\xe9q", b"\x1b[\x80", b"\xc3\xa9\xf0\x28"])
def test_bytes_that_are_no_text_are_dropped(typed: bytes) -> None:
    with terminal("healthy", (80, 24)) as term:
        term.tick(1, "dpdk-worker1")
        os.write(term.master, typed)
        term.read()
        term.press("\\nix\r", "filter nix")
        assert term.child.poll() is None


def test_ctrl_z_stops_and_comes_back() -> None:
    with terminal("healthy", (80, 24)) as term:
        term.tick(1, "dpdk-worker1")
        os.write(term.master, b"\x1a")
        _, status = os.waitpid(term.child.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        term.read()
        before = len(term.raw)
        os.kill(term.child.pid, signal.SIGCONT)
        again = term.eventually(lambda: b"\x1b[?1049h" in term.raw[before:])
        assert again, "the alternate screen is entered again"


def test_it_stops_while_it_writes_to_the_terminal() -> None:
    """SIGTSTP inside the lock of the queue that the stop itself needs."""
    with terminal("busy", (80, 24), drawn_by="stops") as term:
        process = psutil.Process(term.child.pid)

        def stops_at_last() -> bool:
            os.write(term.ticks, b"\n")
            term.catch_up()
            return process.status() == psutil.STATUS_STOPPED

        def seen(mark: bytes, since: int) -> bool:
            return mark in term.raw[since:]

        for _ in range(3):
            until(stops_at_last)
            before = len(term.raw)
            process.resume()
            assert term.eventually(partial(seen, b"\x1b[?1049h", before))


def test_a_resume_without_a_stop_does_nothing() -> None:
    with terminal("healthy", (80, 24)) as term:
        term.tick(1, "dpdk-worker1")
        before = len(term.raw)
        term.child.send_signal(signal.SIGCONT)
        term.press("/d/\\q", "CPU: d/\\q")
        assert b"\x1b[?1049h" not in term.raw[before:]


@pytest.mark.parametrize("how", ["ctrl-z", "signal"])
def test_a_shell_gets_its_terminal_back_and_fg_continues(how: str) -> None:
    """Ctrl-Z or SIGTSTP; the shell's prompt, and a line typed there; fg; keys work again."""
    shell = ["bash", "--norc", "--noprofile", "--noediting", "-i"]
    environ = {"PS1": "PROMPT> ", "HISTFILE": ""}
    with terminal("", (100, 30), command=shell, environ=environ) as term:

        def shows(*words: str) -> None:
            assert term.eventually(lambda: all(word in term.text for word in words)), term.text

        def sent(mark: bytes, since: int, *, again: bytes = b"") -> bool:
            return term.eventually(lambda: mark in term.raw[since:], again=again)

        shows("PROMPT>")
        os.write(term.master, f"{shlex.join(NFTOP)} demo -d 0.5\r".encode())
        shows("[1 Cores]", "LIVE")
        [child] = psutil.Process(term.child.pid).children()
        for _ in range(2):  # the second time too
            before = len(term.raw)
            if how == "ctrl-z":
                os.write(term.master, b"\x1a")
            else:
                child.send_signal(signal.SIGTSTP)
            assert sent(b"Stopped", before)
            assert child.status() == psutil.STATUS_STOPPED
            assert b"\x1b[?1049l" in term.raw[before:]
            assert b"\x1b[?25h" in term.raw[before:]
            # Bash prints its prompt in a mode of its own; a command sees the shell's.
            os.write(term.master, b"stty -a; echo a$((20+22))b\r")
            assert sent(b"a42b", before)
            before_bg = len(term.raw)
            os.write(term.master, b"bg\r")  # it can't have the terminal, so it stops again
            # Bash reports that at a prompt. Before it does, it would not continue what `fg` names.
            assert sent(b"Stopped", before_bg, again=b"\r")
            assert child.status() == psutil.STATUS_STOPPED
            assert b"\x1b[?1049h" not in term.raw[before_bg:]
            shown = bytes(term.raw[before:]).decode(errors="replace")
            assert {"icanon", "echo", "isig"} <= set(shown.split())
            before = len(term.raw)
            os.write(term.master, b"fg\r")
            assert sent(b"\x1b[?1049h", before)
            os.write(term.master, b"3")
            shows("[3 Cache]")
            os.write(term.master, b"1")
            shows("[1 Cores]", "LIVE")
        os.write(term.master, b"q")
        assert term.eventually(lambda: not child.is_running())


def test_a_session_from_start_to_hang_up() -> None:
    """Each view, an incident, back in time, editor, apply, undo, resize, hang-up."""
    # In this scenario a class takes another's ways after 60 s, for good. Frames are one a second:
    # with two a second a busy machine's share of CPU time does not draw them and answer keys too.
    command = [*NFTOP, "demo", "--scenario", "noisy", "-d", "1"]
    with terminal("", (120, 36), command=command) as term:

        def shows(*words: str) -> None:
            assert term.eventually(lambda: all(word in term.text for word in words)), term.text

        def press(keys: str, *words: str) -> None:
            os.write(term.master, keys.encode())
            shows(*words)

        def confirm(*words: str) -> None:
            """y, and again if it came before nftop knew that the plan was on screen."""
            early = "the plan was not shown yet"
            os.write(term.master, b"y")
            assert term.eventually(
                lambda: early in term.text or all(word in term.text for word in words)
            )
            if early in term.text:
                os.write(term.master, b"y")
            shows(*words)

        shows("LIVE", "vpp_wk_0")
        for row in (*screens()[1:], screens()[0]):
            press(row.keys[0], f"[{row.keys[0]} {row.title}]")
        shows("● tenant", "→ vpp")
        press("\t")
        press("\r", "CULPRIT", "VICTIMS", "cat set --group tenant")
        press("\x1b", "[1 Cores]")
        press("\x1b[D", "AGO", "End now")
        press("\x1b[F", "LIVE")
        press("\t")
        press("\r", "CULPRIT")
        press("e", "CAT editor", "DRAFT", "cat set --group tenant")
        press("\r", "y applies it")
        confirm("NOT KEPT")
        press("K", "KEPT")
        term.resize(100, 30)
        shows("CAT editor")
        press("u", "undo the last change", "y applies it")
        confirm("CAT editor")
        undone = re.compile(r"■ tenant .* 000fe ")
        assert term.eventually(lambda: undone.search(term.text) is not None), term.text
        press("\x1b")
        press("\x1b", "[1 Cores]")
        shows("[1 Cores]", "LIVE")
        os.close(term.master)
        assert term.child.wait(PATIENCE_S) == 128 + signal.SIGHUP
