"""The loop that polls every session: whom it waits for, and in which order."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from nftop.model.owner import Owner
from nftop.sources.nf_session.session import Identity
from nftop.sources.nf_session.source import poll_all
from nftop.sources.trust.ownership import SocketFacts, owner_of_facts

LONG_S = 30.0


class Fake:
    """A session whose peer has sent `answers` bytes, each of which takes `costs_s` to hear."""

    def __init__(
        self, log: list[str], name: str, uid: int, *, answers: int = 1, costs_s: float = 0.0
    ) -> None:
        self.owner: Owner = owner_of_facts(SocketFacts(uid, uid, 0), 0)
        self.spent_ns = 0
        self.connected = True
        self.identity: Identity = (1, 1)
        self.left = answers
        self._log, self._name, self._costs_s = log, name, costs_s
        self.ours, self._theirs = socket.socketpair()
        self._theirs.send(b"x" * 64)

    @property
    def fd(self) -> int | None:
        return self.ours.fileno()

    @property
    def pressing(self) -> bool:
        return self.left > 0

    def begin(self, claimed: set[Identity]) -> None:
        self._log.append(f"begin {self._name}")
        claimed.add(self.identity)

    def hear(self) -> bool:
        self._log.append(f"hear {self._name}")
        self.left -= 1
        self.ours.recv(1)
        time.sleep(self._costs_s)
        return True

    def close(self) -> None:
        self.ours.close()
        self._theirs.close()


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def fakes(log: list[str]) -> Iterator[list[Fake]]:
    created = [
        Fake(log, "user 1", 1, answers=60, costs_s=0.6),
        Fake(log, "root", 0, answers=3),
        Fake(log, "user 2", 2),
    ]
    yield created
    for item in created:
        item.close()


def test_privileged_sessions_are_done_before_others_begin(
    fakes: list[Fake], log: list[str]
) -> None:
    fakes[0]._costs_s = 0.0
    poll_all(fakes, LONG_S)
    assert log[:4] == ["begin root", "hear root", "hear root", "hear root"]
    assert {"begin user 1", "begin user 2", "hear user 2"} <= set(log[4:])


def test_a_source_over_its_share_is_read_again_in_the_next_tick(
    fakes: list[Fake], log: list[str]
) -> None:
    """A second for both: half a second each is less than one answer of the first takes."""
    users = [fake for fake in fakes if not fake.owner.privileged]
    users[1].left = 0
    poll_all(users, 1.0)
    assert log.count("hear user 1") == 1
    log.clear()
    users[1].left = 1
    poll_all(users, 1.0)
    assert log[:2] == ["begin user 2", "begin user 1"]  # who has used less comes first


def test_sessions_that_nothing_is_left_for_wait_for_the_next_tick(
    fakes: list[Fake], log: list[str]
) -> None:
    root, first, second = fakes[1], fakes[0], fakes[2]
    root.left, root._costs_s = 1, 1.5
    poll_all([root, first, second], 1.0)
    assert log[:2] == ["begin root", "hear root"]
    assert len([item for item in log if item.startswith("begin user")]) == 1
