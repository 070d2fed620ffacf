"""Every key does what the help says."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.frame import Frame
from nftop.model.missing import Missing, Reason
from nftop.render.base.line import Line, Tone
from nftop.ui.key_bindings import hints
from nftop.ui.options import Options
from nftop.ui.screens.registry import main_keys, screen_keys, screens
from nftop.ui.widgets import lines
from nftop.ui.widgets.lines import Ink, LineStrip
from tests.command import lines_with
from tests.frames import frame, ticks, with_cells
from tests.ui.harness import Running, running


def _selected(run: Running) -> int:
    """The CPU whose row is marked."""
    for row in run.rows:
        if all(run.has_ground(style, Tone.SELECTION) for _, style in row):
            return int("".join(text for text, _ in row).split()[0])
    raise AssertionError("no row is marked")


def _sort(run: Running) -> str:
    """The column that rows are sorted by, with its direction, in the line of screens."""
    return re.findall(r" sort (\S+)(?:  filter .*)?$", run.text, re.MULTILINE)[0]  # type: ignore[no-any-return]


def _order(run: Running) -> list[int]:
    """CPUs of the table from top to bottom."""
    lines = run.text.split("\n")
    start = next(at for at, text in enumerate(lines) if re.match(r" *CPU[▲▼ ]", text))
    cpus = []
    for text in lines[start + 1 :]:
        if not re.match(r" *\d+ ", text[:6] + " "):
            break
        cpus.append(int(text[:6]))
    return cpus


# From the order by harm to that by CPU, and to its first row.
BY_CPU = ("greater_than_sign", "g")


async def test_moving() -> None:
    async with running(frame(64), size=(80, 24)) as run:
        await run.press("i", *BY_CPU)
        assert _selected(run) == 1
        page = len(_order(run))
        for key, cpu in (
            ("j", 2),
            ("down", 3),
            ("k", 2),
            ("up", 1),
            ("up", 1),
            ("G", 63),
            ("j", 63),
            ("g", 1),
            ("end", 63),
            ("home", 1),
            ("pagedown", _order(run)[0] + page - 2),
        ):
            await run.press(key)
            assert _selected(run) == cpu or key == "pagedown", key
        assert _selected(run) > page - 3
        await run.press("pageup")
        assert _selected(run) == 1


async def test_the_mouse() -> None:
    async with running(frame(64), size=(80, 24)) as run:
        table = run.app.screen.query_one("CpuTableView")
        await run.press(*BY_CPU)
        await run.pilot.click(table, offset=(3, 2))
        await run.pilot.pause()
        assert _selected(run) == 2
        at = next(text for text in run.text.split("\n") if "THREAD" in text).index("BUSY")
        for order in ([1, 3, 2], [2, 3, 1]):
            await run.pilot.click(table, offset=(at, 0))
            await run.pilot.pause()
            assert _order(run) == order
        await run.pilot.click(table, offset=(3, 4))
        await run.pilot.pause()
        assert _selected(run) == 2, "the line of folded rows can't be selected"


async def click_on(run: Running, text: str, line: int | None = None) -> str:
    """Click on the first letter of a text, on the last line that has it or on this one."""
    rows = run.text.split("\n")
    y = max(at for at, row in enumerate(rows) if text in row) if line is None else line
    await run.pilot.click(offset=(rows[y].index(text), y))
    await run.pilot.pause()
    return run.text


async def test_a_click_on_a_screens_name_a_hint_a_header_and_a_row() -> None:
    async with running(frame(64), size=(120, 36)) as run:
        assert "[2 NFs]" in await click_on(run, "2 NFs")
        assert _sort(run) == "harm▼"
        header = next(at for at, row in enumerate(run.text.split("\n")) if "IPC" in row)
        await click_on(run, "IPC", header)
        assert _sort(run) == "IPC▼"
        await click_on(run, "IPC", header)
        assert _sort(run) == "IPC▲"
        assert (await click_on(run, "? help")).startswith(" NFs screen")
        assert "[2 NFs]" in await click_on(run, "Esc close")
        assert "[1 Cores]" in await click_on(run, "1 Cores")
        assert "filter thread" in await click_on(run, "filter -")
        await run.press("escape")
        await click_on(run, "q quit")
        assert not run.app.is_running


async def test_sorting_and_inverting_keep_the_cpu_selected() -> None:
    async with running(frame(8), size=(120, 36)) as run:
        await run.press(*BY_CPU, "j")
        labels = []
        for _ in range(6):
            await run.press("greater_than_sign")
            labels.append(_sort(run)[:-1])
            assert _selected(run) == 2
        assert labels == ["THREAD", "NF", "BUSY", "Mpps", "CPP", "IPC"]
        await run.press("less_than_sign", "less_than_sign")
        assert _sort(run) == "Mpps▼"
        assert _order(run) == [1, 3, 2]
        await run.press("I")
        assert _order(run) == [2, 3, 1]
        await run.press("f6")
        assert _sort(run) == "CPP▼"
        assert _selected(run) == 2


async def test_sorting_wraps() -> None:
    async with running(frame(8)) as run:
        await run.press("less_than_sign")
        assert _sort(run) == "WAIT▼"
        await run.press("greater_than_sign")
        assert _sort(run) == "harm▼"
        await run.press("greater_than_sign")
        assert _sort(run) == "CPU▲"


async def test_the_selection_follows_its_cpu_over_ticks() -> None:
    async with running(frame(8)) as run:
        await run.press(*["greater_than_sign"] * 4, "g", "j")
        assert _sort(run) == "BUSY▼"
        assert (_order(run), _selected(run)) == ([1, 3, 2], 3)
        await run.give(with_cells(frame(8, 1), "busy_ratio", {3: 0.999}))
        assert (_order(run), _selected(run)) == ([3, 1, 2], 3)
        await run.give(with_cells(frame(8, 2), "busy_ratio", {3: Missing(Reason.STALE)}))
        assert (_order(run), _selected(run)) == ([1, 2, 3], 3)


async def test_folding() -> None:
    async with running(frame(8)) as run:
        assert _order(run) == [3, 1, 2], "what drops packets comes first"
        await run.press(*BY_CPU)
        assert _order(run) == [1, 2, 3]
        assert "+ 5 other CPUs" in run.text
        await run.press("i")
        assert _order(run) == [1, 2, 3, 0, 4, 5, 6, 7]
        await run.press("i")
        assert _order(run) == [1, 2, 3]


async def test_finding(snapshot: SnapshotAssertion) -> None:
    async with running(frame(8)) as run:
        await run.press(*BY_CPU, "slash")
        assert run.footer == snapshot
        await run.press(*"work", "enter")
        assert _selected(run) == 2
        await run.press("n")
        assert _selected(run) == 1
        await run.press("N")
        assert _selected(run) == 2
        text = await run.press("slash", "7", "enter")
        assert run.footer == snapshot
        assert _selected(run) == 2
        await run.press("i", "n")
        assert _selected(run) == 7
        text = await run.press("slash", "v", "escape")
        assert "find thread" not in text
        assert _selected(run) == 7
        await run.press("k")
        assert _selected(run) == 6, "keys are the table's again"


@pytest.mark.parametrize("key", ["backslash", "f4"])
async def test_filtering(key: str, snapshot: SnapshotAssertion) -> None:
    async with running(frame(8)) as run:
        await run.press(*BY_CPU)
        text = await run.press(key, *"0,2-4", "enter")
        assert _order(run) == [2, 3, 0, 4]
        assert "filter 0,2-4" in text
        text = await run.press(key)
        assert run.footer == snapshot
        await run.press("enter", "escape")
        assert _order(run) == [1, 2, 3]
        text = await run.press(key, *"nobody", "enter")
        assert "no rows" in text
        await run.press("j", "x", "G")
        await run.press("escape")
        assert _order(run) == [1, 2, 3]


async def test_a_notice_is_on_the_screen_while_it_stands_still_too() -> None:
    notice = "changes: change 1 was cut off: `nftop recover` takes it back"
    async with running(*ticks(lambda tick: frame(8, tick), 2)) as run:
        assert "cache classes" not in await run.press("space")
        text = await run.give(replace(frame(8, 3), notice=notice))
        assert "PAUSED at 00:00:01Z" in text
        assert f"! {notice}" in text
        assert "cache classes" not in await run.give(frame(8, 4))


async def test_pausing_freezes_the_view_and_nothing_else() -> None:
    async with running(*ticks(lambda tick: frame(8, tick), 3)) as run:
        frozen = await run.press("space")
        assert "PAUSED at 00:00:02Z" in frozen
        busier = with_cells(frame(8, 3), "busy_ratio", {2: 0.111})
        assert await run.give(busier) == frozen
        text = await run.press("greater_than_sign", "I")
        assert _sort(run) == "CPU▼"
        assert _order(run) == [3, 2, 1], "a frozen view can be sorted"
        assert " 50% " in text
        text = await run.press("space")
        assert "LIVE 1s" in text
        assert " 11% " in text


async def test_the_graph_of_a_frozen_view_stands_still() -> None:
    async with running(*ticks(lambda tick: frame(8, tick), 60)) as run:
        frozen = await run.press("space")
        assert await run.give(*(frame(8, tick) for tick in range(60, 80))) == frozen
        assert await run.press("space") != frozen


async def test_the_delay(snapshot: SnapshotAssertion) -> None:
    async with running(frame(8)) as run:
        text = await run.press("d")
        assert run.footer == snapshot
        text = await run.press(*"0.5", "enter")
        assert run.feed.interval_s == 0.5
        assert "LIVE 0.5s" in text
        for wrong in ("0", "3601", "nan", "x", "-1", ""):
            text = await run.press("d", *("minus" if c == "-" else c for c in wrong), "enter")
            assert run.footer == snapshot
            await run.press("escape")
        assert run.feed.interval_s == 0.5
        assert "the delay" not in await run.press("escape")


@pytest.mark.parametrize("key", ["question_mark", "h", "f1"])
async def test_help(key: str) -> None:
    async with running(frame(8)) as run:
        before = run.text
        text = await run.press(key)
        assert text.startswith(" Cores screen")
        assert "Beside a number" in await run.press("G")
        assert (await run.press("g")) == text
        assert (await run.press("j")) != text
        assert (await run.press("k")) == text
        assert await run.press(key) == before


async def test_help_is_searched_and_escape_clears_the_search_first() -> None:
    async with running(frame(8)) as run:
        before = run.text
        whole = await run.press("question_mark")
        text = await run.press("slash", *"mask to higher", "enter")
        assert text.split("\n")[1].split()[0] == "[" and "higher ways" in text.split("\n")[1]
        assert await run.press("escape") == whole
        assert await run.press("escape") == before


@pytest.mark.parametrize("page", ["question_mark", "x"])
async def test_a_screen_s_number_leaves_a_page(page: str) -> None:
    async with running(frame(8)) as run:
        for number in "641":
            wanted = await run.press(number)
            await run.press("1", page)
            assert await run.press(number) == wanted


async def test_explain_is_about_the_sort_column_and_the_selected_cpu() -> None:
    async with running(frame(8), size=(120, 36)) as run:
        assert (await run.press("x")).startswith(" CPP (cpp)"), "which is the default"
        await run.press("escape", *BY_CPU, "j", *["greater_than_sign"] * 6)
        text = await run.press("x")
        assert text.startswith(" IPC (ipc)")
        assert "cpu 2    1." in text
        assert "Sources" in text
        await run.press("q")
        assert "PERF" not in run.text
        assert _selected(run) == 2


async def test_every_key_of_the_help_is_bound_and_every_hint_is_in_the_footer() -> None:
    async with running(frame(8), size=(200, 64)) as run:
        bound = {key for key, _ in run.app.screen._bindings}
        for item in main_keys():
            assert set(item.keys.split(",")) <= bound | {"G", "I", "N"}
        for row in screens():
            await run.press(row.keys[0])
            text = await run.press("question_mark") + await run.press("G")
            assert all(entry.help in text for entry in (*screen_keys(), *row.view.KEYS))
            footer = (await run.press("escape")).rsplit("\n", 1)[-1]
            shown = hints(row.view.KEYS, ["live"])
            assert all(f"{hint.key} {hint.word}" in footer for hint in shown)
            assert footer.startswith(" ? help") and footer.endswith("q quit")


@pytest.mark.parametrize("key", ["q", "f10", "ctrl+c"])
async def test_quitting(key: str) -> None:
    async with running(frame(8)) as run:
        await run.pilot.press(key)
        await run.pilot.pause()
        assert not run.app.is_running


async def test_ctrl_c_quits_from_a_prompt_and_from_a_page() -> None:
    for opener in ("slash", "question_mark"):
        async with running(frame(8)) as run:
            await run.pilot.press(opener, "ctrl+c")
            await run.pilot.pause()
            assert not run.app.is_running


async def test_ctrl_z_suspends(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(frame(8)) as run:
        called = asyncio.Event()
        monkeypatch.setattr(run.app, "action_suspend_process", called.set)
        await run.press("ctrl+z")
        assert called.is_set()


async def test_keys_before_the_first_frame_do_no_harm(snapshot: SnapshotAssertion) -> None:
    async with running() as run:
        assert lines_with(run.text, "waiting") == snapshot
        for item in main_keys():
            for key in item.keys.split(","):
                if item.action not in ("app.quit", "app.command_palette"):
                    await run.press(key, "escape")
        await run.press("1")
        assert "waiting" in run.text
        assert "dpdk-worker1" in await run.give(frame(8))


async def test_a_fault_in_the_feed_is_a_sentence_on_the_screen(snapshot: SnapshotAssertion) -> None:
    async with running(frame(8)) as run:
        text = await run.give(ValueError("no [bold]such[/] thing \x1b[2J"))
        for _ in range(50):
            if "STOPPED" in (text := run.text):
                break
            await run.pilot.pause(0.02)
        assert "STOPPED" in text
        assert lines_with(text, "internal error") == snapshot
        assert "dpdk-worker1" in text, "the last frame stays"
        await run.press("j")
        assert _selected(run) == 1


async def test_a_feed_that_ends_reports_it() -> None:
    async with running(frame(8)) as run:
        run.feed.stop()
        for _ in range(50):
            if "ENDED" in run.text:
                break
            await run.pilot.pause(0.02)
        assert "ENDED" in run.text


async def test_frames_the_screen_is_too_slow_for_are_in_the_history() -> None:
    async with running(frame(8)) as run:
        many: list[Frame] = [frame(8, tick) for tick in range(1, 200)]
        await run.give(*many)
        series = run.app._history.series("cpp", frame(8).cpus.topology.cpus[1].cpu, 200, 200.0)
        assert (series > 0).all()


async def test_only_changed_lines_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(frame(512), size=(120, 40)) as run:
        await run.press("i", *BY_CPU)
        at = [frame(512, number).monotonic_ns for number in range(4)]
        await run.give(replace(frame(512), monotonic_ns=at[1]))  # a trend's first cell
        drawn: list[int] = []

        def counted(line: Line, width: int, ink: Ink) -> LineStrip:
            cpu = line.text[:6].strip()
            if cpu.isdigit():  # a row of the table
                drawn.append(int(cpu))
            return LineStrip(line, width, ink)

        monkeypatch.setattr(lines, "LineStrip", counted)
        await run.give(replace(frame(512), monotonic_ns=at[2]))
        assert drawn == [], "nothing changed"
        busy = with_cells(frame(512, 0), "busy_ratio", {2: 0.77, 400: 0.66})
        await run.give(replace(busy, monotonic_ns=at[3]))
        assert drawn == [2], "row 2 is on screen, row 400 is not"
        await run.press("j")
        assert sorted(drawn[1:]) == [1, 2], "the old and the new selection"


async def test_simulated_is_on_every_screen_of_a_simulated_host() -> None:
    simulated = frame(8, simulated=True)
    for size in ((80, 24), (40, 8)):
        async with running(simulated, size=size, options=Options(color=False)) as run:
            assert "SIMULATED" in run.text


async def test_the_selected_row_is_copied() -> None:
    for number, name in (("1", "vpp_wk_0"), ("2", "vpp")):
        async with running(frame(8), size=(120, 36)) as run:
            text = await run.press(number, "g", "C")
            assert name in run.app.clipboard and "\n" not in run.app.clipboard
            assert run.app.clipboard.isprintable()
            assert f"copied row: {run.app.clipboard[:20]}" in text


async def test_a_page_or_its_matching_lines_are_copied() -> None:
    async with running(frame(8), size=(120, 36)) as run:
        await run.press("x", "C")
        assert run.app.clipboard.startswith("CPP (cpp)") and "Sources" in run.app.clipboard
        await run.press("slash", *"equation", "enter", "C")
        assert "equation" in run.app.clipboard and "Sources" not in run.app.clipboard


async def test_keys_that_have_nothing_to_do_report_it(snapshot: SnapshotAssertion) -> None:
    async with running(frame(8)) as run:
        for key in ("n", "N"):
            assert "no search yet: /" in await run.press(key)
        await run.press("B")
        assert run.footer == snapshot
        await run.press("w")
        assert run.footer == snapshot
        await run.press("4", "t")
        assert run.footer == snapshot
        await run.press("6", "enter")
        assert run.footer == snapshot
