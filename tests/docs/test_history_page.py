"""docs/history.md: its SQL, as it stands there, on a week of simulated hosts.

NFTOP_WEEK_S: seconds between samples, by default an hour (`make history`: a minute).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.command import called
from tests.house import ROOT
from tests.simulated_week import (
    DAYS,
    HOSTS,
    ROLLED_OUT_AT,
    WIDENED_AT,
    record_week,
)

INTERVAL_S = int(os.environ.get("NFTOP_WEEK_S", "3600"))
SAMPLES = DAYS * 86_400 // INTERVAL_S
PAGE = ROOT / "docs" / "history.md"
BLOCKS = re.findall(r"(?ms)^```sql\n(.*?)^```$", PAGE.read_text())
# Packets a second that the tenant costs edge-2, by the simulator's rates of `noisy` at 18 CPUs:
# what is offered, less what is taken with 10 % and 6 % more cycles a packet.
DROPS_PER_S = {
    "vpp": 10.5e6 * (1 - 1 / 1.10),
    "ovs-vswitchd": 8.18e6 * (1 - 1 / 1.06),
    "north/l3fwd": 24.5e6 * (1 - 1 / 1.06),
}
DROPPING_S = (ROLLED_OUT_AT - WIDENED_AT).total_seconds()
NFS = sorted((*DROPS_PER_S, "loop/testpmd"))


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The folder above `history`, and what the exports have printed; a day is appended twice."""
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    folder = tmp_path_factory.mktemp("week")
    files = [str(path) for path in record_week(folder, interval_s=INTERVAL_S)]
    lines: list[str] = []
    for file in (*files, f"{files[0]}@2026-06-02T00:00:00,2026-06-03T00:00:00"):
        lines += appended(file, folder / "history")
    return folder, lines


def appended(file: str, folder: Path) -> list[str]:
    """Append a recording; what it printed."""
    options = ("--format", "parquet", "--partition", "host,day", "-o", str(folder))
    result = called("export", file, *options)
    assert result.returncode == 0, result.stderr
    return result.stderr.splitlines()


@pytest.fixture(scope="module")
def answers(week: tuple[Path, list[str]]) -> Iterator[list[list[dict[str, Any]]]]:
    """The answer of each block of the page, in its order; empty of a view."""
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    before = Path.cwd()
    os.chdir(week[0])
    try:
        with duckdb.connect() as database:
            database.execute("set TimeZone = 'UTC'")
            result = []
            for block in BLOCKS:
                cursor = database.execute(block)
                names = [column[0] for column in cursor.description or ()]
                rows = [] if block.startswith("create") else cursor.fetchall()
                result.append([dict(zip(names, row, strict=True)) for row in rows])
            yield result
    finally:
        os.chdir(before)


def test_bytes_and_rows_are_printed_by_host_and_day(week: tuple[Path, list[str]]) -> None:
    folder, lines = week
    days = [
        re.match(r"nftop: (edge-\d) ([0-9-]{10}): (\d+) rows, ([0-9.]+) MB", line) for line in lines
    ]
    keys = [(match[1], match[2]) for match in days if match]
    expected = [(host, f"2026-06-{day:02}") for host in HOSTS for day in range(1, DAYS + 1)]
    # The day that was appended again, with the midnight that ends it.
    assert keys == [*expected, ("edge-1", "2026-06-02"), ("edge-1", "2026-06-03")]
    for host, day in expected:
        files = list((folder / "history").glob(f"*/host={host}/day={day}/*"))
        (line,) = [line for line in lines[: len(expected)] if f"{host} {day}" in line]
        size = sum(path.stat().st_size for path in files)
        if (host, day) not in keys[len(expected) :]:
            assert f"{size / 1e6:.2f} MB" in line
        assert 5e4 < size < 2e6 and len(files) >= 5


def test_views_come_first_and_every_other_block_has_an_answer(
    answers: list[list[dict[str, Any]]],
) -> None:
    assert len(answers) == len(BLOCKS) == 6
    assert [bool(rows) for rows in answers] == [False, False, True, True, False, True]


def test_a_sample_is_in_one_file_once(week: tuple[Path, list[str]]) -> None:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    pattern = week[0] / "history" / "packages" / "*" / "*" / "*.parquet"
    rows = duckdb.execute(
        f"select host, count(*), count(distinct time) from '{pattern}' group by host order by host"
    ).fetchall()
    assert rows == [(host, 2 * SAMPLES, SAMPLES) for host in HOSTS]


def test_hosts_that_drop_are_those_of_the_noisy_tenant(
    answers: list[list[dict[str, Any]]],
) -> None:
    rows = {row["nf"]: row for row in answers[2]}
    assert {row["host"] for row in rows.values()} == {
        "edge-2"
    } and rows.keys() == DROPS_PER_S.keys()
    assert [*rows] == sorted(rows, key=lambda nf: -rows[nf]["dropped_packets"])
    for name, row in rows.items():
        assert row["dropped_packets"] == pytest.approx(DROPS_PER_S[name] * DROPPING_S, rel=0.01)
        # The samples that begin and end in it count whole.
        assert DROPPING_S <= row["hours"] * 3600 <= DROPPING_S + 2 * INTERVAL_S
        assert WIDENED_AT <= row["first"] <= WIDENED_AT + timedelta(seconds=INTERVAL_S)
        assert ROLLED_OUT_AT <= row["last"] <= ROLLED_OUT_AT + timedelta(seconds=INTERVAL_S)


def test_what_changed_before_is_the_mask_of_the_tenant(
    answers: list[list[dict[str, Any]]],
) -> None:
    (row,) = answers[3]
    assert (row["host"], row["nfs"]) == ("edge-2", ", ".join(sorted(DROPS_PER_S)))
    assert (row["group"], row["name"], row["number"]) == ("tenant", "L3", 0)
    assert (row["old"], row["new"]) == ("e00", "fe")
    assert row["changed_at"] == WIDENED_AT <= row["drops_at"]


def test_effect_of_the_roll_out_is_that_of_one_host(answers: list[list[dict[str, Any]]]) -> None:
    rows = {row["nf"]: row for row in answers[5]}
    assert [*rows] == NFS
    for name, row in rows.items():
        harmed = name in DROPS_PER_S
        assert (row["hosts"], row["cheaper"], row["dearer"]) == (len(HOSTS), int(harmed), 0)
        assert row["drops_per_s_before"] == pytest.approx(DROPS_PER_S.get(name, 0.0), rel=0.01)
        # What it takes to fill the ways again, 10 s long.
        assert row["drops_per_s_after"] <= 1e-3 * row["drops_per_s_before"]


def test_without_a_change_the_questions_are_answered() -> None:
    """With the empty view of the page."""
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    (view,) = re.findall(r"(?ms)^    (create view changes as .*?;)$", PAGE.read_text())
    with duckdb.connect() as database:
        database.execute(
            "create view nfs as select 'a' as host, 'vpp' as nf, 1.0 as cpp, 60.0 as interval_s, "
            "timestamptz '2026-01-01 00:00:00Z' + to_seconds(60 * i) as time, "
            "5.0 * i as drop_packets_per_s from range(2) t(i)"
        )
        database.execute(view)
        rows = [database.execute(block).fetchall() for block in BLOCKS[2:]]
    assert [len(item) for item in rows] == [1, 1, 0, 0]
    assert rows[1][0][0] == "a" and rows[1][0][3:] == (None,) * 6
