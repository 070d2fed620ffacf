"""Tables of recordings: what is in them is what frames say, in every form."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from nftop.export.tables.outputs import TEXT_WRITERS, Outputs, OutputsError
from nftop.export.tables.tables import TABLES, event_columns, gap_columns
from nftop.model.change import Cell, Change, Noticed
from nftop.model.frame import Finding, Frame, MonitorRow
from nftop.model.incident import Incident, Price, Severity
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.recording_loss import RecordingLoss
from nftop.model.topology import Host
from nftop.store.format.records import Marker
from tests.frames import HOSTILE, about, hostile
from tests.recordings import taken
from tests.sim.hosts import Frozen, S

HOST = Host("edge", "Xeon", "SKX", simulated=True)
MARKER = Marker("change", 1_000_000_000, 5, "vpp: L3 0 0f0 -> ff0", {"who": "=cmd()"})


@pytest.fixture(scope="module")
def frames() -> tuple[Frame, ...]:
    """The first has hardly a number yet."""
    seen = taken(3, cpus=6).frames
    group = seen[2].groups[0]
    readings: dict[str, Reading] = {
        "occupancy_bytes": 4096.0,
        "mbm_total_bytes_per_s": 1e6,
        "mbm_local_bytes_per_s": Missing(Reason.WARMING),
    }
    monitor = MonitorRow("m", 7, (), "pqos", {group.caches[0].l3: readings})
    groups = (replace(group, monitors=(monitor,)), *seen[2].groups[1:])
    result = Finding("low-ipc", "core_ipc", about("cpu 1,3"), "IPC 1.45", 1_000_000_000)
    with_devices = Frozen(cpus=6, processor="gold-6230n")
    devices = [with_devices.tick(S) for _ in range(2)][-1].devices
    lost = Price(Missing(Reason.SOURCE), 7.5)
    incident = Incident("nf-1", Severity.BAD, "drops", None, (), lost, 1_000_000_000, dropped=3.0)
    change = Change(Cell("schemata", "vpp", "L3", 0), "0f0", "ff0")
    noticed = Noticed(1, 500_000_001, seen[2].wall_ns, (change,))
    last = replace(
        seen[2],
        groups=groups,
        findings=(result,),
        incidents=(incident,),
        noticed=(noticed,),
        devices=devices,
    )
    return (*seen[:2], last)


def test_a_change_and_an_incident_are_rows(frames: tuple[Frame, ...]) -> None:
    (change,) = map(json.loads, written("jsonl", "changes", frames).splitlines())
    cell = [change[name] for name in ("kind", "group", "name", "number", "old", "new", "within_s")]
    assert cell == ["schemata", "vpp", "L3", 0, "0f0", "ff0", 0.5]
    (incident,) = map(json.loads, written("jsonl", "incidents", frames).splitlines())
    assert (incident["severity"], incident["dropped_packets"]) == ("bad", 3.0)
    assert incident["missing"] == {"drop_packets_per_s": "source"}
    # Begin and losses of a replay after a jump may be bounds.
    known, begun = incident_row(frames[2]), incident_row(after_a_jump(frames[2]))
    assert [known[name] for name in BOUNDS] == [False, False]
    assert [begun[name] for name in BOUNDS] == [True, True]
    (result,) = map(
        json.loads, written("jsonl", "findings", [after_a_jump(frames[2])]).splitlines()
    )
    assert result["since_is_bound"] is True
    # A later tick still knows the change, which is not new then.
    later = replace(frames[2], wall_ns=frames[2].wall_ns + 1)
    assert written("jsonl", "changes", [later]) == ""


BOUNDS = ("since_is_bound", "dropped_is_bound")


def after_a_jump(frame: Frame) -> Frame:
    (incident,), (result,) = frame.incidents, frame.findings
    return replace(
        frame,
        incidents=(replace(incident, is_bound=True, counted_from_ns=1),),
        findings=(replace(result, is_bound=True),),
    )


def incident_row(frame: Frame) -> dict[str, object]:
    (row,) = map(json.loads, written("jsonl", "incidents", [frame]).splitlines())
    assert isinstance(row, dict)
    return row


def written(form: str, name: str, frames: Sequence[Frame]) -> str:
    segments = list[str]()
    writer = TEXT_WRITERS[form](TABLES[name], segments.append)
    rows = TABLES[name].rows
    assert rows is not None
    for number, frame in enumerate(frames):
        writer.write(rows(number, frame))
    writer.close()
    text = "".join(segments)
    assert writer.rows == len(text.splitlines()) - (form == "csv")
    return text


OF_FRAMES = [name for name, table in TABLES.items() if table.rows is not None]


@pytest.mark.parametrize("name", OF_FRAMES)
def test_both_texts_report_the_same(name: str, frames: tuple[Frame, ...]) -> None:
    cells = list(csv.DictReader(io.StringIO(written("csv", name, frames))))
    objects = [json.loads(line) for line in written("jsonl", name, frames).splitlines()]
    assert len(cells) == len(objects) > 0
    for row, reports in zip(cells, objects, strict=True):
        assert list(row) == list(reports) == [field.name for field in TABLES[name].fields]
        missing = dict(pair.split("=") for pair in row.get("missing", "").split())
        assert missing == reports.get("missing", {})
        for field in TABLES[name].fields[:-1]:
            value, cell = reports[field.name], row[field.name]
            if value is None or value == "":
                assert cell == ""
            elif field.kind == "float":
                assert float(cell) == value
            elif field.name != "missing":
                assert cell == str(value)
            # A number that is not there has its reason, and no other has.
            if field.unit and field.name not in ("interval_s", "nf_interval_s"):
                assert (value is None) == (field.name in missing)
        assert reports["simulated"] is True


def test_numbers_are_the_frames(frames: tuple[Frame, ...]) -> None:
    frame = frames[2]
    cpus = [json.loads(line) for line in written("jsonl", "cpus", [frame]).splitlines()]
    assert [row["cpu"] for row in cpus] == list(range(6))
    for at, row in enumerate(cpus):
        for name, column in frame.cpus.columns.items():
            reading = column[at]
            assert row[name] == (None if isinstance(reading, Missing) else reading)
            if isinstance(reading, Missing):
                assert row["missing"][name] == reading.reason.key
    groups = [json.loads(line) for line in written("jsonl", "groups", [frame]).splitlines()]
    assert [(row["group"], row["l3"]) for row in groups] == [
        (group.name, cache.l3) for group in frame.groups for cache in group.caches
    ]
    masks = [cache.cbm for group in frame.groups for cache in group.caches]
    assert [row["cbm"] for row in groups] == [m.hex for m in masks if not isinstance(m, Missing)]
    (monitor,) = map(json.loads, written("jsonl", "monitors", [frame]).splitlines())
    assert (monitor["monitor"], monitor["rmid"], monitor["occupancy_bytes"]) == ("m", 7, 4096.0)
    assert monitor["missing"] == {"mbm_local_bytes_per_s": "warming"}
    packages = [json.loads(line) for line in written("jsonl", "packages", [frame]).splitlines()]
    assert (
        packages[0]["memory.read_bytes_per_s"]
        == (frame.packages[0].readings["memory.read_bytes_per_s"])
    )


def test_names_that_nobody_chose_stay_in_their_cells() -> None:
    odd = hostile()
    for name, cell in (("a;=1", "a;'=1"), ("\uff0b1; @x;-", "'\uff0b1; @x;'-")):
        shown = [replace(odd.nfs[0], name=name)]
        assert f",{cell}," in written("csv", "nfs", [replace(odd, nfs=tuple(shown))])
    formula = replace(odd.nfs[0], name="=cmd()")
    text = written("csv", "nfs", [replace(odd, nfs=(formula, *odd.nfs[1:]))])
    assert "\x1b" not in text and "\u202e" not in text and "'=cmd()" in text
    lines = written("jsonl", "cpus", [odd]).splitlines()
    assert json.loads(lines[1])["thread"] == HOSTILE[1]
    assert all("\x1b" not in line and "\u202e" not in line for line in lines)


def outputs(path: Path | None, form: str, *names: str, folder: bool = True) -> Outputs:
    return Outputs(path, form, names or tuple(TABLES), folder=folder, owner=None, host=HOST)


def test_nothing_is_written_over_and_nothing_left_behind(tmp_path: Path) -> None:
    (tmp_path / "nfs.csv").write_text("mine")
    with pytest.raises(OutputsError, match=r"nfs\.csv exists, and nothing is written over"):
        outputs(tmp_path, "csv")
    assert [entry.name for entry in tmp_path.iterdir()] == ["nfs.csv"]
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    with pytest.raises(OutputsError, match="link exists"):
        outputs(tmp_path / "link", "csv", "nfs", folder=False)
    with pytest.raises(OutputsError, match="No such file"):
        outputs(tmp_path / "none" / "x.csv", "csv", "nfs", folder=False)
    created = outputs(tmp_path / "new" / "er", "csv")
    created.marker(MARKER)
    assert len(list((tmp_path / "new" / "er").iterdir())) == len(TABLES)
    created.discard()
    assert list((tmp_path / "new" / "er").iterdir()) == []
    assert (tmp_path / "nfs.csv").read_text() == "mine"


def test_a_full_disk_is_reported() -> None:
    with pytest.raises(OutputsError, match="exists"):
        outputs(Path("/dev/full"), "csv", "nfs", folder=False)
    created = outputs(None, "csv", "gaps")
    full = TEXT_WRITERS["csv"](TABLES["gaps"], lambda _: None)
    created._writers["gaps"] = full

    def write(_: str) -> None:
        raise OSError(28, os.strerror(errno.ENOSPC))

    full._out = write  # type: ignore[attr-defined]
    with pytest.raises(OutputsError, match=os.strerror(errno.ENOSPC)):
        created.losses([(1, RecordingLoss(3, 0, "x"))])


def test_what_happened_has_tables_of_its_own(tmp_path: Path) -> None:
    created = outputs(tmp_path, "jsonl", "actions", "markers", "gaps")
    created.marker(MARKER)
    created.marker(replace(MARKER, kind="marker", text="begin", detail={}))
    created.losses([(2_000_000_000, RecordingLoss(None, 7, "damaged"))])
    counts = created.close()
    assert counts == dict.fromkeys(
        (str(tmp_path / f"{item}.jsonl") for item in ("actions", "markers", "gaps")), 1
    )
    reports = {entry.stem: json.loads(entry.read_text()) for entry in tmp_path.iterdir()}
    assert reports["actions"] == {
        "time": "1970-01-01T00:00:01.000Z",
        "host": "edge",
        "simulated": True,
        "kind": "change",
        "text": MARKER.text,
        "detail": '{"who": "=cmd()"}',
    }
    assert reports["markers"]["text"] == "begin" and reports["markers"]["detail"] is None
    assert (reports["gaps"]["lost_ticks"], reports["gaps"]["lost_bytes"]) == (None, 7)
    assert all(entry.stat().st_mode & 0o777 == 0o600 for entry in tmp_path.iterdir())
    assert len(event_columns(HOST, MARKER)) == len(TABLES["actions"].fields)
    assert [len(column) for column in gap_columns(HOST, [])] == [0] * len(TABLES["gaps"].fields)


def test_without_pyarrow_it_is_reported_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nftop.export.tables.parquet", None)
    with pytest.raises(OutputsError, match=r"pip install pyarrow"):
        outputs(tmp_path / "new", "parquet")
    assert not (tmp_path / "new").exists()


def test_parquet_is_read_by_others(tmp_path: Path, frames: tuple[Frame, ...]) -> None:
    pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    created = outputs(tmp_path, "parquet")
    for number, frame in enumerate(frames):
        created.tick(number, frame)
    created.marker(MARKER)
    created.tick(3, hostile())
    created.close()
    for name in OF_FRAMES:
        table = pq.read_table(tmp_path / f"{name}.parquet")
        lines = written("jsonl", name, (*frames, hostile())).splitlines()
        assert table.num_rows == len(lines)
        for row, line in zip(table.to_pylist(), lines, strict=True):
            reports = json.loads(line)
            for field in TABLES[name].fields:
                if field.kind not in ("time", "text"):
                    assert row[field.name] == reports[field.name], field.name
    schema = pq.read_schema(tmp_path / "cpus.parquet")
    assert schema.field("frequency_hz").metadata == {b"unit": b"Hz"}
    assert str(schema.field("time").type) == "timestamp[ns, tz=UTC]"
    assert pq.read_table(tmp_path / "gaps.parquet").num_rows == 0


def test_a_database_answers_from_the_parquet(tmp_path: Path, frames: tuple[Frame, ...]) -> None:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    created = outputs(tmp_path / "nfs.parquet", "parquet", "nfs", folder=False)
    for number, frame in enumerate(frames):
        created.tick(number, frame)
    created.close()
    result = duckdb.sql(
        f"select nf, max(cpp) from '{tmp_path / 'nfs.parquet'}' where tick = 2 group by nf"
    ).fetchall()
    assert dict(result) == {nf.name: nf.readings["cpp"] for nf in frames[2].nfs}
