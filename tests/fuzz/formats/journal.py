"""The files of the journal, and their recovery on a simulated host.

An input has the change under way, the history and the index, apart by 0x1e. If it begins with `!`
its lines get the checksums that belong to them, so that what is behind the checksum is reached.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from nftop.control.backend import LockedError, RefusedError
from nftop.control.gate import BackendClassGate
from nftop.control.guard_client import start_guard
from nftop.control.journal import FileJournal, unfinished
from nftop.control.journal_damage import DamagedJournalError
from nftop.control.journal_entry import entry_of, text_of
from nftop.control.recovery import recover
from nftop.control.resctrl.plan import propose
from nftop.control.transaction import apply, keep
from nftop.model.change import SetSchemata
from tests.control.hosts import LabHost
from tests.control.test_crash import CHANGES, REQUESTED, furnished
from tests.fuzz.registry import scratch

NAMES = ("pending.json", "history.jsonl", "index.json")
_APART = b"\x1e"
_SEAL = re.compile(rb', "sha256": "[0-9a-f]{0,64}"\}\s*$')
WORDS = (
    b'["schemata", "vpp", "L3", 0]', b'["cpu", "", "", 3]', b'["group", "nftop.a", "", -1]',
    b'["monitor", "vpp", "nftop.m", -1]', b'["task", "", "100@1", -1]',
    b'["io_alloc", "", "L3", -1]', b'["io_cbm", "", "L3", 0]', b'["mode", "vpp", "", -1]',
    b"null", b"true", b"false", b'"f0"', b'"kept"', b'"reverted"', b'"partial"',
    b'"reverting": true', b'"done": true', b"[]", b"{}", b'"back": ', b'"base": ', b'"remade": ',
    b'"left": ["a"]', b'"undoes": [1]', b"\\ud800", b"/", b'"format": 2',
    b'"verified": false', _APART, b"!", b"\n", b'""', b'"../x"',
)  # fmt: skip


def _journal() -> FileJournal:
    return FileJournal(scratch("journal") / "nftop")


def seeds() -> list[bytes]:
    """A kept change and one under way, of each kind; sealed, and to be sealed."""
    result = []
    for name, actions in CHANGES.items():
        with tempfile.TemporaryDirectory() as folder:
            host, journal = furnished("7.2", name), FileJournal(Path(folder) / "nftop")
            with journal.hold():
                for wish in ([SetSchemata("vpp", "MB", ((0, 50),))], actions):
                    rules = replace(host.rules(), tasks=host.tasks(["/", "vpp", "nftop.old"], []))
                    proposal = replace(
                        propose(host.state(), rules, wish, ("a",)), identity=host.identity
                    )
                    assert not proposal.refusals, (name, proposal.refusals)
                    _, entry = apply(host, journal, proposal, REQUESTED)
                    assert entry is not None
                    if wish is not actions:
                        keep(host, journal, entry)
            files = [(journal.folder / item).read_bytes() for item in NAMES]
            result.append(_APART.join(files))
            result.append(b"!" + _APART.join(files))
    return result


def sealed(line: bytes) -> bytes:
    """The line with the checksum that belongs to it, if it has one."""
    body, count = _SEAL.subn(b"}", line)
    if not count:
        return line
    return body[:-1] + b', "sha256": "' + hashlib.sha256(body).hexdigest().encode() + b'"}'


def write(data: bytes, folder: Path) -> None:
    """The three files of an input; an empty one is not there."""
    files = data.removeprefix(b"!").split(_APART, 2)
    if data.startswith(b"!"):
        files = [b"\n".join(map(sealed, item.split(b"\n"))) for item in files]
    folder.mkdir(mode=0o700, exist_ok=True)
    for name, content in zip(NAMES, (*files, b"", b""), strict=False):
        path = folder / name
        path.unlink(missing_ok=True)
        if content:
            path.write_bytes(content)


def play(data: bytes) -> None:
    """Read it all, and recover: what is refused stays as it is, and nothing is written for it."""
    journal = _journal()
    write(data, journal.folder)
    host = _host()
    with suppress(DamagedJournalError):
        for entry in journal.history():
            again = entry_of("", text_of(entry))
            assert again == entry
    _entries, messages = journal.known()
    assert all(message for message in messages)
    BackendClassGate(host, journal, start_guard, "nftop")
    before = {
        name: (journal.folder / name).read_bytes()
        for name in NAMES
        if (journal.folder / name).exists()
    }
    writes = host.writes
    try:
        unfinished(journal)
        with suppress(LockedError, RefusedError):
            receipt = recover(host, journal)
            assert receipt is None or receipt.sentences
    except DamagedJournalError as error:
        assert str(error)
        assert host.writes == writes
        for name, content in before.items():
            assert (journal.folder / name).read_bytes() == content
        raise


def _host() -> LabHost:
    return furnished("7.2", "I/O masks")
