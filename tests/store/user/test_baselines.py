"""The operator's file of baselines."""

from __future__ import annotations

import argparse
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from nftop.cli.compose.baselines import open_book
from nftop.model.baseline import BaselineLevel, Baselines, CoreBaseline, NfBaseline
from nftop.model.ids import Cpu
from nftop.model.topology import Host
from nftop.store.user.baselines import file_of, from_plain, plain, read_baselines, write_baselines

HOST = Host("edge-07", "some Xeon", "SKX")
KEPT = Baselines(
    1_767_225_600_000_000_000,
    (
        NfBaseline(
            "4242:1",
            "fwd",
            "dpdk",
            4242,
            {"cpp": BaselineLevel(376.123456789, 0.1, 30)},
            "core",
            saturated=None,
            ticks=30,
            cores=(
                CoreBaseline(Cpu(1), {"ipc": BaselineLevel(1.5, 0.0, 29)}, None, saturated=True),
            ),
        ),
    ),
    {"5151:1": 3},
)


def test_what_is_kept_is_present_again(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "good.json"
    assert read_baselines(path, HOST) is None
    write_baselines(path, HOST, KEPT, None)
    assert read_baselines(path, HOST) == KEPT
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    write_baselines(path, HOST, None, None)
    assert read_baselines(path, HOST) is None
    assert [entry.name for entry in path.parent.iterdir()] == ["good.json"]
    assert from_plain(plain(KEPT)) == KEPT and from_plain(plain(None)) is None


ODD = (
    b"",
    b"{",
    b"[]",
    b'{"schema": "x"}',
    b'{"schema": "nftop.baselines/1", "baselines": {"nfs": 3}}',
)


@pytest.mark.parametrize("data", ODD)
def test_any_other_file_is_refused_in_a_sentence(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "odd.json"
    path.write_bytes(data)
    with pytest.raises(ValueError):
        read_baselines(path, HOST)
    assert path.read_bytes() == data


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("{}")
    (tmp_path / "link.json").symlink_to("real.json")
    with pytest.raises(OSError):
        read_baselines(tmp_path / "link.json", HOST)


def test_those_of_another_host_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "good.json"
    write_baselines(path, HOST, KEPT, None)
    for other in (replace(HOST, name="edge-08"), replace(HOST, simulated=True)):
        with pytest.raises(ValueError, match="of another host"):
            read_baselines(path, other)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "-x", "a b", "x" * 65, "\x1b[2J"])
def test_names_stay_in_their_folder(name: str) -> None:
    with pytest.raises(ValueError):
        file_of({}, name)


def test_the_folder_is_the_users_data_folder(tmp_path: Path) -> None:
    reports = file_of({"XDG_DATA_HOME": str(tmp_path)}, "good")
    assert reports == tmp_path / "nftop/baselines/good.json"
    assert file_of({"XDG_DATA_HOME": "relative"}, "good").name == "good.json"


def test_a_book_keeps_the_last_and_reports_what_went_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("SUDO_UID", raising=False)
    options = argparse.Namespace(baseline="good")
    book = open_book(options, HOST)
    assert book.begun is None
    book.keep(None)
    book.keep(KEPT)
    assert book.close() == ""
    assert open_book(options, HOST).begun == KEPT
    (tmp_path / "nftop/baselines/good.json").write_text("{}")
    with pytest.raises(ValueError, match=r"good\.json: it is no file of baselines"):
        open_book(options, HOST)
    (tmp_path / "full").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "full"))
    with pytest.raises(ValueError, match="Not a directory"):
        open_book(options, HOST)
    nothing = open_book(argparse.Namespace(baseline=None), HOST)
    nothing.keep(KEPT)
    assert nothing.close() == "" and nothing.begun is None


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"schema": "nftop.baselines/1", "host": "edge-07", "baselines": ' + '{"nfs":' * 50_000,
        " " * ((4 << 20) + 1),
        (
            '{"schema": "nftop.baselines/1", "host": "edge-07", "baselines": {"wall_ns": 1,'
            ' "nfs": ['
            '{"key": "", "name": "", "kind": "", "pid": 1, "levels": {}, "cores": ['
            '{"cpu": 1000000000, "levels": {}}]}]}}'
        ),
    ],
    ids=["nested", "nested within", "long", "a CPU that no host has"],
)
def test_a_file_that_can_not_be_is_a_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"makes no sense|longer than|CoreBaseline\.cpu"):
        read_baselines(path, HOST)
