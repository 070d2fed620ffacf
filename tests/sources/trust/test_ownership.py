"""Whose a socket is."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nftop.model.owner import (
    FOLDER,
    OWN_USER,
    ROOT,
    SOCKET_FILE,
    UNKNOWN,
    UNPRIVILEGED,
    Owner,
    owned_name,
)
from nftop.sources.trust import ownership
from nftop.sources.trust.ownership import SocketFacts, owner_of_facts

NOBODY, ME = 65534, 1000
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")


@pytest.mark.parametrize(
    ("facts", "own_uid", "uid", "privileged", "reason"),
    [
        (SocketFacts(0, 0, 0), 0, 0, True, ROOT),
        (SocketFacts(None, 0, 0), 0, 0, True, ROOT),
        (SocketFacts(ME, ME, ME), ME, ME, True, OWN_USER),
        (SocketFacts(0, 0, 0), ME, 0, True, ROOT),
        (SocketFacts(ME, ME, ME), 0, ME, False, UNPRIVILEGED),
        (SocketFacts(NOBODY, 0, 0), ME, NOBODY, False, UNPRIVILEGED),
        (SocketFacts(None, NOBODY, 0), ME, NOBODY, False, UNPRIVILEGED),
        # systemd listens as root, and a user's service accepts.
        (SocketFacts(0, NOBODY, 0), 0, NOBODY, False, SOCKET_FILE),
        # Root listens in a folder of a user's, who chose its name.
        (SocketFacts(0, 0, NOBODY), 0, NOBODY, False, FOLDER),
        (SocketFacts(0, 0, -1), 0, -1, False, FOLDER),
        (SocketFacts(None, None, None), 0, -1, False, UNKNOWN),
    ],
)
def test_the_least_privileged_user_is_the_owner(
    facts: SocketFacts, own_uid: int, uid: int, privileged: bool, reason: str
) -> None:
    owner = owner_of_facts(facts, own_uid)
    assert (owner.uid, owner.privileged, owner.reason) == (uid, privileged, reason)


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def bound(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as created:
        created.bind(str(path))
    return str(path)


@as_root
def test_every_folder_and_link_on_the_way_counts(folder: Path) -> None:
    path = bound(folder / "a/b/s")
    assert ownership.file_facts(path, 0) == SocketFacts(None, 0, 0)
    os.chown(folder / "a", NOBODY, NOBODY)
    assert ownership.file_facts(path, 0) == SocketFacts(None, 0, NOBODY)
    assert ownership.file_facts(path, NOBODY) == SocketFacts(None, 0, 0)
    os.chown(folder / "a", 0, 0)
    (folder / "a").chmod(0o777)
    assert ownership.file_facts(path, 0) == SocketFacts(None, 0, -1)
    (folder / "a").chmod(0o1777)
    assert ownership.file_facts(path, 0) == SocketFacts(None, 0, 0)
    os.chown(path, NOBODY, NOBODY)
    assert ownership.file_facts(path, 0) == SocketFacts(None, NOBODY, 0)
    os.chown(path, 0, 0)
    (folder / "link").symlink_to("a")
    assert ownership.file_facts(str(folder / "link/b/s"), 0) == SocketFacts(None, 0, 0)
    os.lchown(folder / "link", NOBODY, NOBODY)
    assert ownership.file_facts(str(folder / "link/b/s"), 0) == SocketFacts(None, 0, NOBODY)


@as_root
def test_the_folders_that_a_link_leads_through_count(folder: Path) -> None:
    path = bound(folder / "theirs/b/s")
    (folder / "folder").symlink_to("theirs/b")
    (folder / "file").symlink_to(folder / "theirs/./b/../b/s")
    for way in (folder / "folder/s", folder / "file", folder / "theirs/b/../b/s"):
        os.chown(folder / "theirs", 0, 0)
        assert ownership.file_facts(str(way), 0) == SocketFacts(None, 0, 0)
        os.chown(folder / "theirs", NOBODY, NOBODY)
        assert ownership.file_facts(str(way), 0) == SocketFacts(None, 0, NOBODY)
    Path(path).unlink()
    assert ownership.file_facts(str(folder / "file"), 0) == SocketFacts(None, None, NOBODY)
    (folder / "one").symlink_to("one")
    assert ownership.file_facts(str(folder / "one"), 0) == SocketFacts(None, None, None)


@as_root
def test_a_folder_reached_through_a_process_counts(folder: Path) -> None:
    bound(folder / "a/s")
    handle = os.open(folder / "a", os.O_PATH)
    try:
        for way in (f"/proc/self/fd/{handle}/s", f"/proc/self/root{folder}/a/s"):
            os.chown(folder / "a", 0, 0)
            assert ownership.file_facts(way, 0) == SocketFacts(None, 0, 0)
            os.chown(folder / "a", NOBODY, NOBODY)
            assert ownership.file_facts(way, 0) == SocketFacts(None, 0, NOBODY)
    finally:
        os.close(handle)


@as_root
def test_a_pid_that_is_another_users_by_now_is_not_the_peers(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    assert not ownership.is_same_process(7, NOBODY, tmp_path)
    os.chown(tmp_path / "7", NOBODY, NOBODY)
    assert ownership.is_same_process(7, NOBODY, tmp_path)
    assert ownership.is_same_process(7, 0, tmp_path)  # root may have dropped its privileges
    assert ownership.is_same_process(8, NOBODY, tmp_path)  # not to be seen


def test_privileged_ones_come_first_and_others_are_bounded() -> None:
    def owner(uid: int) -> Owner:
        return owner_of_facts(SocketFacts(uid, uid, 0), 0)

    uids = [*range(100, 110)] * 30 + [0] * 5
    chosen, sentences = ownership.admitted(uids, owner, 256, "sockets")
    assert chosen[:5] == [0] * 5
    assert len(chosen) == 5 + ownership.MAX_UNPRIVILEGED
    assert max(chosen.count(uid) for uid in set(chosen) - {0}) == 16
    assert len(sentences) == 5  # of four users, and one for all the rest
    assert ownership.admitted([0] * 5, owner, 3, "sockets")[0] == [0] * 3


def test_a_source_of_a_process_belongs_to_its_user() -> None:
    assert ownership.of_process(os.geteuid()).privileged
    assert ownership.of_process(0).reason == ROOT
    assert ownership.of_process(4_000_000).reason == UNPRIVILEGED
    assert ownership.of_process(None).reason == UNKNOWN


def test_an_unprivileged_name_has_its_user_in_front() -> None:
    root, user = (owner_of_facts(SocketFacts(uid, uid, 0), 0) for uid in (0, 4_000_000))
    assert owned_name("vpp", root) == owned_name("vpp", None) == "vpp"
    assert owned_name("vpp", user) == "uid 4000000:vpp"
