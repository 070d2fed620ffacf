"""`nftop report`: an interval as HTML and as Markdown."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from markdown_it import MarkdownIt

from nftop.cli.commands import report as command
from nftop.export.report.content import (
    Graph,
    Heading,
    Items,
    ReportBlock,
    Text,
    TextTable,
    change_commands,
    report_blocks,
)
from nftop.export.report.pages import html_report, markdown_report
from nftop.model.change import Cell, Change
from nftop.model.clock import clock_of
from nftop.model.incident import Severity
from nftop.model.missing import Missing, Reason
from nftop.session.interval import Cut, named, opened
from nftop.session.report_data import NF_METRICS, POINTS, ReportData, SubjectKey, collect
from nftop.sim import scenario as scenarios
from nftop.store.format.encoder import Encoder
from nftop.store.format.records import Marker
from nftop.store.format.zstd import FRAME_END
from nftop.store.reading.seekpoint import packed
from tests.bench.scenes import Clocked
from tests.command import called
from tests.recordings import header_of, joined
from tests.samples import S

HOSTILE = (
    '"><script>alert(1)</script><img src=http://x/ onerror=x>|`*_[a](http://x)\u202e\x1b]0;x\x07'
)
HOSTILE_NF = '"><script>alert(2)</script><img src=http://x/nf onerror=x>'
TENANT = Cell("schemata", "tenant", "L3", 0)
CHANGED_AT, TICKS = 110, 200


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The noisy neighbour, off its victims' ways from second 110 on.

    A marker and a network function have hostile names.
    """
    noisy = scenarios.load("noisy")
    tasks = [
        replace(task, name=HOSTILE_NF) if task.name == "loop" else task for task in noisy.tasks
    ]
    hostile = replace(noisy, tasks=tuple(tasks))
    with mock.patch.object(scenarios, "load", lambda *_: hostile):
        clocked = Clocked(24, scenario="noisy", now_ns=0)
    encoder = Encoder(header_of(clocked))
    chunks = []
    for number in range(TICKS):
        if number == CHANGED_AT:
            clocked.host.world.change(
                lambda classes: replace(classes, state={**classes.state, TENANT: "2"})
            )
        sample = clocked.sample()
        if number % 60 == 0:
            encoder.restart()
        if number == 30:
            note = Marker("marker", sample.wall_ns - 1, sample.monotonic_ns - 1, HOSTILE)
            chunks.append(encoder.note(note, note.wall_ns, note.monotonic_ns))
        chunks.append(encoder.tick(number, sample))
    path = tmp_path_factory.mktemp("report") / "noisy.nftop"
    path.write_bytes(joined(chunks) + FRAME_END + packed(chunks[-1].after))
    return path


@pytest.fixture(scope="module")
def data(recording: Path) -> ReportData:
    cut = opened(named(str(recording)))
    result = collect(cut)
    cut.data.close()
    assert result is not None
    return result


@contextmanager
def collected(data: ReportData) -> Iterator[None]:
    """The command has what was collected of its recording: reading takes seconds each time."""

    def collect(cut: Cut) -> ReportData:
        assert cut.data.size > 0
        return data

    with mock.patch.object(command, "collect", collect):
        yield


class Tags(HTMLParser):
    """Every start tag with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_means_are_those_of_the_frames(data: ReportData) -> None:
    assert data.ticks == TICKS
    vpp = next(means for means in data.subjects.values() if means.name == "vpp")
    series = vpp.series("cpp")
    assert len(series) == POINTS
    before, later = series[20:60], series[90:125]
    assert abs(before[before > 0].mean() / 210 - 1) < 0.01
    assert abs(later[later > 0].mean() / 231 - 1) < 0.02
    mean = vpp.mean("drop_packets_per_s")
    assert mean is not None and 0.5e6 < mean < 2e6
    assert SubjectKey("class", "tenant", 0) in data.subjects
    assert vpp.mean("ipp") == pytest.approx(496, rel=0.01)


def test_it_has_the_incident_the_change_and_its_verdict(data: ReportData) -> None:
    kinds = [event.kind for event in data.events]
    assert kinds.count("change") == 1 and kinds.count("marker") == 1
    incidents = [event for event in data.events if event.incident and event.severity == 2]
    assert [event.incident.kind for event in incidents if event.incident] == ["neighbour"]
    assert incidents[0].begin_ns < data.events[kinds.index("change")].begin_ns
    (judged,) = data.verdicts
    words = {item.name: item.word for item in judged.verdict.sections if item.kind == "nf"}
    assert words["vpp"] == "better"


def test_html_fetches_nothing_and_texts_stay_text(data: ReportData) -> None:
    page = html_report(report_blocks(data, f"nftop report {HOSTILE}", HOSTILE))
    tags = Tags(page).tags
    assert not {tag for tag, _ in tags} & {"script", "img", "link", "iframe", "object", "a", "form"}
    for _, attributes in tags:
        assert not {name for name in attributes if name.startswith("on")}
        assert not {"src", "href", "action", "data", "srcset"} & attributes.keys()
    assert "url(" not in page and "@import" not in page
    assert "default-src 'none'" in page
    assert page.count("&lt;script&gt;alert(1)") == 3  # marker, command, doctor
    assert "&lt;script&gt;alert(2)&lt;/script&gt;&lt;img src=http://x/nf" in page
    assert "\u202e" not in page and "\x1b" not in page


def test_graphs_are_well_formed(data: ReportData) -> None:
    page = html_report(report_blocks(data, "x"))
    pictures = re.findall(r"<svg.*?</svg>", page)
    assert len(pictures) >= 4 * 2 + 4 + 2
    for picture in pictures:
        tree = ET.fromstring(picture)
        for path in tree.iter("path"):
            coordinates = [float(x) for x in re.findall(r"-?\d+\.?\d*", path.get("d") or "0")]
            assert all(-1 <= x <= 701 for x in coordinates)
    assert page.count('class="moment"') == len(pictures)


def test_blocks_without_values() -> None:
    empty = Graph("a", "b", (("c", np.full(4, np.nan)),))
    single = Graph("a", "b", (("c", np.array([np.nan, 3.0])),))
    page = html_report((Heading("x", 1), empty, single))
    assert "no values" in page and page.count("<svg") == 1


def test_points_between_gaps_are_drawn() -> None:
    values = np.full(40, np.nan)
    values[[0, 1, 2, 20, 38, 39]] = 1.0
    page = html_report((Graph("a", "b", (("c", values),)),))
    (path,) = re.findall(r'class="curve c0" d="([^"]*)"', page)
    assert re.sub(r"[\d. -]+", "", path) == "MLLMhML"


def test_a_mean_with_empty_polls_in_it_is_a_bound(data: ReportData) -> None:
    text = markdown_report(report_blocks(data, "x")).replace("\\", "")
    table = text[text.index("| mean of ticks") :]
    costs = {}
    for key, means in data.subjects.items():
        if key.kind == "nf" and HOSTILE_NF not in means.name:
            row = re.search(rf"(?m)^\| {re.escape(means.name)} \|.*$", table)
            assert row is not None
            costs[key.key] = row.group().split("|")[5].strip()
    assert {key for key, cost in costs.items() if cost.startswith("&lt;")} == data.bounded
    assert data.bounded and len(data.bounded) < len(costs)


def without_drops(data: ReportData, name: str) -> ReportData:
    """The same, with no counter of drops of the network function with this name."""
    row = list(NF_METRICS).index("drop_packets_per_s")
    subjects, nfs = dict(data.subjects), dict(data.nfs)
    (key,) = (key for key, means in subjects.items() if key.kind == "nf" and means.name == name)
    means = replace(subjects[key])
    means.sums, means.counts = subjects[key].sums, subjects[key].counts.copy()
    means.counts[row] = 0
    readings = {**nfs[key.key].readings, "drop_packets_per_s": Missing(Reason.PERMISSION, "x")}
    nfs[key.key] = replace(nfs[key.key], readings=readings)
    return replace(data, subjects={**subjects, key: means}, nfs=nfs)


def test_a_sum_names_how_many_have_it_and_a_mean_its_reason(data: ReportData) -> None:
    total = sum(key.kind == "nf" for key in data.subjects)

    def counts(of: ReportData) -> tuple[int, ...]:
        (title,) = (
            block.title
            for block in report_blocks(of, "x")
            if isinstance(block, Graph) and block.title.startswith("Packets dropped")
        )
        return tuple(map(int, re.findall(r"\d+", title)))

    (have,) = {counts(data)} - {()} or {(total, total)}
    lacking = without_drops(data, "vpp")
    assert counts(lacking) == (have[0] - 1, total)
    assert counts(replace(lacking, nfs_left_out=6)) == (have[0] - 1, total + 6)
    (table,) = (
        block
        for block in report_blocks(lacking, "x")
        if isinstance(block, TextTable) and block.header[0] == "mean of ticks"
    )
    assert {row[0]: row[3] for row in table.rows}["vpp"] == "permission"


def test_commands_are_of_the_host_of_the_recording(data: ReportData) -> None:
    text = markdown_report(report_blocks(data, "x"))
    command = r"(?m)^\s*nftop demo --scenario noisy --cpus 24 cat set "
    assert re.search(command, text) and "sudo nftop cat" not in text
    assert re.search(r"nftop replay \S+ --at '\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ'", text)


def test_markdown_escapes_markup() -> None:
    blocks = (
        Heading(HOSTILE, 1),
        Text(HOSTILE, is_alert=True),
        Items((HOSTILE,)),
        TextTable(("a", "b"), ((HOSTILE, "1"),)),
        Items((HOSTILE,), is_code=True),
    )
    lines = markdown_report(blocks).splitlines()
    for line in lines:
        if not line.startswith("    "):
            text = re.sub(r"(?<![\\`])(`+)(?!`).*?(?<!`)\1(?!`)", "", line)  # without code
            assert "<" not in text and not re.search(r"(?<!\\)[`\[]", text)
    row = next(line for line in lines if line.startswith("| ") and "script" in line)
    assert len(re.findall(r"(?<!\\)\|", row)) == 3


def test_markdown_has_no_live_links_and_mentions() -> None:
    words = (
        "@everyone",
        "(@all)",
        "http://a.example/x|y",
        "ftp://b.example",
        "www.c.example",
        "d@e.example",
        "#12",
        "`@f``",
        "xmpp:g@h.example",
        "x|@i|z",
    )
    table = TextTable(("a", "b"), tuple((word, "1") for word in words))
    blocks: tuple[ReportBlock, ...] = (
        *map(Text, words),
        Text(" ".join(words), is_alert=True),
        Items(words),
        table,
    )
    rendered = MarkdownIt("gfm-like").render(markdown_report(blocks))
    assert "<a " not in rendered and rendered.count("<strong>") == 1
    assert rendered.count("<tr>") == len(words) + 1
    outside = re.sub(r"<code>.*?</code>", "", rendered)
    assert "@" not in outside and "#12" not in outside
    text = unescape(re.sub(r"<[^>]+>", "", rendered))
    assert all(text.count(word) >= 4 for word in words)


def test_information_harms_nobody(data: ReportData) -> None:
    (at,) = (
        number
        for number, event in enumerate(data.events)
        if event.incident is not None and event.severity is Severity.BAD
    )
    event = data.events[at]
    assert event.incident is not None
    note = replace(
        event, severity=Severity.INFO, incident=replace(event.incident, severity=Severity.INFO)
    )
    events = (*data.events[:at], note, *data.events[at + 1 :])
    for shown, word in ((data.events, "; harms vpp"), (events, "; of vpp")):
        text = markdown_report(report_blocks(replace(data, events=shown), "x"))
        assert (word in text) and (("harms" in text) == ("harms" in word))


def test_information_has_the_time_of_its_numbers(data: ReportData) -> None:
    (event, *_) = (item for item in data.events if item.severity is Severity.INFO)
    assert event.incident is not None
    last_ns = data.last.wall_ns
    for until_ns, times in (
        (None, f"since {clock_of(event.begin_ns)}, at {clock_of(last_ns)}: "),
        (last_ns - 5 * S, f"{clock_of(event.begin_ns)} to {clock_of(last_ns - 5 * S)}, last: "),
    ):
        incident = replace(event.incident, until_ns=until_ns, is_bound=False)
        shown = replace(
            data,
            events=(replace(event, end_ns=until_ns, incident=incident),),
            last=replace(data.last, incidents=(incident,)),
        )
        text = markdown_report(report_blocks(shown, "x")).replace("\\", "")
        assert f"- {times}" in text


def test_a_table_without_header_begins_with_its_first_row() -> None:
    text = markdown_report((TextTable(("", ""), (("host", "a"), ("time", "b"))),))
    assert text.splitlines() == ["| host | a |", "|---|---|", "| time | b |"]


def test_blanks_of_a_graph_in_markdown_are_gaps_and_not_ticks_between_sections() -> None:
    values = np.full(240, np.nan)
    values[2:120:5] = 1.0  # as of ticks further apart than sections
    values[180:240:5] = 1.0
    row = markdown_report((Graph("a", "b", (("c", values),)),)).splitlines()[-1]
    drawn = row.split("|")[4][1:-1]
    assert len(drawn) == 60
    assert " " not in drawn[:30] + drawn[45:59] and set(drawn[30:44]) == {" "}


def test_commands_of_changes_are_quoted() -> None:
    changes = (
        Change(TENANT, "fe", "2"),
        Change(TENANT._replace(name="MB"), "100", "50"),
        Change(Cell("schemata", "a b;$(x)", "L3", 1), "1", "3"),
        Change(Cell("cpu", "", "", 4), "vpp", "/"),
    )
    assert change_commands(changes) == [
        "cat set --group tenant --l3 0=2 --mba 0=50",
        "cat set --group 'a b;$(x)' --l3 1=3",
    ]


def test_the_command_writes_a_new_file(recording: Path, data: ReportData, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    cut = f"{recording}@+100s,+130s"
    done = called("report", cut, "-o", str(page))
    assert done.returncode == 0
    size = page.stat().st_size / 1e6
    shown = re.fullmatch(
        rf"nftop: 3[01] ticks, {size:.1f} MB in {page}; incidents: \d+\n", done.stderr
    )
    assert shown and not done.stdout
    # Names of processes and hosts are in it, as in a recording.
    assert page.stat().st_mode & 0o777 == 0o600
    assert page.read_text().startswith("<!doctype html>")
    assert f": nftop report {cut} -o {page}<" in page.read_text()
    again = called("report", str(recording), "-o", str(page))
    assert again.returncode == 2 and "exists" in again.stderr
    unknown = tmp_path / "z.txt"
    refused = called("report", str(recording), "-o", str(unknown))
    assert refused.returncode == 2 and ".html" in refused.stderr and ".md" in refused.stderr
    with collected(data):
        assert called("report", cut, "-o", str(unknown), "--format", "md").returncode == 0
        ticket = called("report", cut, "-o", "-")
    assert unknown.read_text().startswith("# SIMULATED")
    assert ticket.returncode == 0 and ticket.stdout.startswith("# SIMULATED")
    assert "cat set --group tenant --l3 0=2" in ticket.stdout
    assert re.search(r" ticks, \d\.\d MB in standard output; ", ticket.stderr)
    assert called("report", "absent.nftop", "-o", "-").returncode == 1
    assert called("report", f"{recording}@+10m,", "-o", "-").returncode == 2
    assert called("report", str(page), "-o", "-").returncode == 4


@pytest.mark.real
def test_a_browser_shows_it_and_requests_nothing(
    recording: Path, data: ReportData, tmp_path: Path
) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("chromium is not installed")
    page, picture, log = tmp_path / "r.html", tmp_path / "r.png", tmp_path / "net.json"
    with collected(data):
        assert called("report", str(recording), "-o", str(page)).returncode == 0
    subprocess.run(
        [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--screenshot={picture}",
            f"--log-net-log={log}",
            "--window-size=1000,3000",
            page.as_uri(),
        ],
        check=True,
        capture_output=True,
        timeout=180,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    assert picture.stat().st_size > 50_000
    urls = set(re.findall(r'"url":"(https?://[^"]+)"', log.read_text()))
    assert not {url for url in urls if "x/" in url or str(tmp_path) in url}


@pytest.mark.real
def test_it_is_printed_without_loss(recording: Path, data: ReportData, tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    text_of = shutil.which("pdftotext")
    if browser is None or text_of is None:
        pytest.skip("chromium or pdftotext (poppler-utils) is not installed")
    page, printed, doctor = tmp_path / "r.html", tmp_path / "r.pdf", tmp_path / "doctor.txt"
    doctor.write_text(" ".join(f"word{number}" for number in range(80)) + "\n")
    request = ("report", str(recording), "--doctor", str(doctor), "-o", str(page))
    with collected(data):
        assert called(*request).returncode == 0
    subprocess.run(
        [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-pdf-header-footer",
            f"--print-to-pdf={printed}",
            page.as_uri(),
        ],
        check=True,
        capture_output=True,
        timeout=180,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    layout = subprocess.run(
        [text_of, "-layout", str(printed), "-"], check=True, capture_output=True, text=True
    ).stdout
    pages = layout.rstrip("\f").split("\f")
    assert len(pages) <= 6
    # The longest line of code is wrapped, not cut, and nothing is a heading at the end of a page.
    assert set(re.findall(r"word\d+", layout)) == {f"word{number}" for number in range(80)}
    titles = {"Incidents", "Network functions", "Cache classes", "Sockets", "Sources", "Commands"}
    lines = [[text.strip() for text in page.splitlines() if text.strip()] for page in pages]
    assert titles <= {text for page in lines for text in page}
    assert not titles & {page[-1] for page in lines}
