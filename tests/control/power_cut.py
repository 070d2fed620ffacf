"""What a disk may hold after a power cut, of what a journal was doing; and changes of every kind.

The model is weaker than ext4, XFS and btrfs promise: what was written to a file since its last
fsync may be there up to any byte, may have blocks of zeros, or may not be there; what was done to
the folder (create, rename, unlink) since its last fsync may be there up to any step.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from nftop.control import journal as journal_module
from nftop.control.backend import AnyBackend
from nftop.control.gate import BackendClassGate, BackendGate
from nftop.control.guard_client import start_guard
from nftop.control.journal import FileJournal, Journal
from nftop.control.journal_entry import Entry, Requester
from nftop.control.profile.formats import parse
from nftop.control.profile.validate import fit
from nftop.control.series import END, serve_series
from nftop.control.transaction import apply, keep
from nftop.model.change import PinCpus, Proposal, SetCpClass, SetSchemata, SwitchBf
from nftop.model.ids import Cpu
from tests.control import sst_trees, test_series
from tests.control.hosts import KilledError, LabHost
from tests.control.test_crash import CHANGES, furnished, whole
from tests.isst import hosts as isst_hosts

BLOCK_BYTES = 512
REQUESTER = Requester("somebody")
PROFILE = """\
schema = "nftop.profile/1"
[[class]]
group = "vpp"
l3 = { 0 = "f", 1 = "3f" }
mba_percent = 50
cpus = "1-2"
[[class]]
group = "nftop.new"
l3 = "3"
cpus = "6"
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """A host and two changes of it.

    Attributes:
        whole: the host's state, comparable.
        first, second: actions, one after the other; those of a sweep are masks.
    """

    host: AnyBackend
    gate: Callable[[AnyBackend, Journal], BackendGate[Any]]
    whole: Callable[[], object]
    first: Sequence[Any]
    second: Sequence[Any]
    sweep: bool = False

    def proposal(self, journal: Journal, actions: Sequence[Any]) -> Proposal:
        proposal = self.gate(self.host, journal).propose(actions, ("nftop",))
        assert proposal.changes and not proposal.refusals, proposal.refusals
        return proposal

    def keep_first(self, journal: Journal) -> None:
        """Make and keep the first change."""
        entry = self._applied(journal, self.first)
        assert keep(self.host, journal, entry).outcome == "kept"

    def begin_second(self, journal: Journal) -> Entry | None:
        """Make the second change, which is then under way; a sweep is cut off in its middle."""
        if not self.sweep:
            return self._applied(journal, self.second)
        words = iter((b"try 1", b"try 3"))

        def word(_: float) -> bytes:
            following = next(words, None)
            if following is None:
                raise KilledError
            return following

        with pytest.raises(KilledError):
            self.serve(journal, word)
        return None

    def serve(self, journal: Journal, word: Callable[[float], bytes]) -> None:
        """Serve the sweep to what nftop says."""
        assert isinstance(self.host, LabHost)
        wish = test_series.wished(self.host)
        serve_series(
            self.host,
            journal,
            wish.proposal,
            wish.settings,
            REQUESTER,
            answer=lambda _: None,
            word=word,
        )

    def session(self, journal: Journal) -> None:
        """What a guard does of the second change, until it is kept; a sweep ends by itself."""
        if self.sweep:
            words = iter((b"try 1", b"try 3", END))
            self.serve(journal, lambda _: next(words))
        else:
            keep(self.host, journal, self._applied(journal, self.second))

    def _applied(self, journal: Journal, actions: Sequence[Any]) -> Entry:
        receipt, entry = apply(self.host, journal, self.proposal(journal, actions), REQUESTER)
        assert entry is not None, receipt
        return entry


def _class_gate(host: AnyBackend, journal: Journal) -> BackendGate[Any]:
    return BackendClassGate(host, journal, start_guard, "nftop")  # type: ignore[arg-type]


def _plain_gate(host: AnyBackend, journal: Journal) -> BackendGate[Any]:
    return BackendGate(host, journal, start_guard, "nftop")


_MASKS = [SetSchemata("vpp", "MB", ((0, 50),))]


def _classes(name: str) -> Callable[[Path], Kind]:
    def build(_: Path) -> Kind:
        host = furnished("7.2", name)
        return Kind(host, _class_gate, lambda: whole(host), _MASKS, CHANGES[name])

    return build


def _profile(_: Path) -> Kind:
    host = furnished("7.2")
    rules = replace(host.rules(), tasks=host.tasks(["/", "vpp", "nftop.old"], []))
    fitted = fit(parse("a.toml", PROFILE), host.state(), rules)
    assert fitted.actions, fitted.problems
    first = [SetSchemata("nftop.old", "MB", ((0, 50),))]
    return Kind(host, _class_gate, lambda: whole(host), first, fitted.actions)


def _sweep(_: Path) -> Kind:
    host = test_series.furnished()
    return Kind(host, _class_gate, lambda: whole(host), _MASKS, (), sweep=True)


def _frequencies(folder: Path) -> Kind:
    kernel = sst_trees.make_tree(folder)
    host = sst_trees.component(kernel)

    def state() -> object:
        return {name.removeprefix(str(folder)): text for name, text in kernel.state().items()}

    return Kind(host, _plain_gate, state, [PinCpus((Cpu(1),))], [PinCpus((Cpu(0), Cpu(2)))])


def _speed_select(first: Any, second: Any) -> Callable[[Path], Kind]:
    def build(folder: Path) -> Kind:
        tool = isst_hosts.make_tool(folder)
        host = isst_hosts.component(folder, tool)

        def state() -> object:
            tool.settle()
            return repr(tool.state)

        return Kind(host, _plain_gate, state, [first], [second])

    return build


KINDS: Mapping[str, Callable[[Path], Kind]] = {
    **{name: _classes(name) for name in CHANGES},
    "profile": _profile,
    "sweep": _sweep,
    "frequencies": _frequencies,
    "SST-BF": _speed_select(SetCpClass((Cpu(1),), 0), SwitchBf(on=True)),
    "SST-CP": _speed_select(SwitchBf(on=True), SetCpClass((Cpu(1), Cpu(2)), 0)),
}


@dataclass(frozen=True, slots=True)
class Disk:
    """Files of a folder by name; each name has the number of a file, which outlives a rename."""

    names: Mapping[str, int]
    contents: Mapping[int, bytes]

    def write(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        for name, file in self.names.items():
            (folder / name).write_bytes(self.contents[file])


FolderStep = Callable[[dict[str, int]], object]


@dataclass
class TracedDisk:
    """The folder of a journal whose system calls are followed; `kill_at`: the call not made.

    Attributes:
        calls: so many that change something were begun.
    """

    folder: Path
    kill_at: int = -1
    calls: int = 0
    _names: dict[str, int] = field(default_factory=dict)
    _synced_names: dict[str, int] = field(default_factory=dict)
    _steps: list[FolderStep] = field(default_factory=list)
    _contents: dict[int, bytes] = field(default_factory=dict)
    _synced: dict[int, bytes] = field(default_factory=dict)
    _open: dict[int, int] = field(default_factory=dict)  # file by descriptor

    def __post_init__(self) -> None:
        for number, path in enumerate(sorted(self.folder.iterdir())):
            self._names[path.name] = number
            self._contents[number] = path.read_bytes()
        self._synced_names, self._synced = dict(self._names), dict(self._contents)

    def follow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have the journal's calls come here, and go on to the disk."""
        monkeypatch.setattr(journal_module, "os", _Calls(self))
        replace_, unlink = Path.replace, Path.unlink

        def on_replace(path: Path, target: Path) -> Path:
            if path.parent == self.folder:
                self._begin()
                self._step(lambda names: names.update({target.name: names.pop(path.name)}))
            return replace_(path, target)

        def on_unlink(path: Path, missing_ok: bool = False) -> None:
            if path.parent == self.folder and path.exists():
                self._begin()
                self._step(lambda names: names.pop(path.name))
            unlink(path, missing_ok=missing_ok)

        monkeypatch.setattr(Path, "replace", on_replace)
        monkeypatch.setattr(Path, "unlink", on_unlink)

    def after_power_cut(self) -> Iterator[Disk]:
        """Everything that may be on the disk now."""
        for count in range(len(self._steps) + 1):
            names = dict(self._synced_names)
            for step in self._steps[:count]:
                step(names)
            visible = set(names.values())
            dirty = [file for file in visible if self._contents[file] != self._synced.get(file)]
            assert len(dirty) <= 1, "one file is written at a time"
            synced = {file: self._synced.get(file, b"") for file in visible}
            yield Disk(names, synced)
            for file in dirty:
                for content in torn(synced[file], self._contents[file]):
                    yield Disk(names, synced | {file: content})

    def _begin(self) -> None:
        if self.calls == self.kill_at:
            raise KilledError
        self.calls += 1

    def _step(self, step: FolderStep) -> None:
        step(self._names)
        self._steps.append(step)

    def opened(self, path: Path, handle: int) -> None:
        if path.parent == self.folder:
            if path.name not in self._names:
                file = max([*self._contents, -1]) + 1
                self._contents[file] = b""
                self._step(lambda names: names.update({path.name: file}))
            self._open[handle] = self._names[path.name]
            self.written(handle)
        else:
            self._open.pop(handle, None)

    def written(self, handle: int) -> None:
        """What a call has made of a file."""
        if handle in self._open:
            size = os.fstat(handle).st_size
            path = f"/proc/self/fd/{handle}"
            data = Path(path).read_bytes()
            assert len(data) == size
            self._contents[self._open[handle]] = data

    def synced(self, handle: int) -> None:
        if handle in self._open:
            file = self._open[handle]
            self._synced[file] = self._contents[file]
        elif stat.S_ISDIR(os.fstat(handle).st_mode):
            self._synced_names, self._steps = dict(self._names), []


class _Calls:
    """`os` for the journal."""

    def __init__(self, disk: TracedDisk) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: str | Path, flags: int, mode: int = 0o777) -> int:
        changes = bool(flags & (os.O_TRUNC | os.O_CREAT)) and Path(path).name != "lock"
        if changes:
            self._disk._begin()
        handle = os.open(path, flags, mode)
        if changes:
            self._disk.opened(Path(path), handle)
        return handle

    def write(self, handle: int, data: bytes) -> int:
        self._disk._begin()
        count = os.write(handle, data)
        self._disk.written(handle)
        return count

    def ftruncate(self, handle: int, length: int) -> None:
        if handle in self._disk._open:
            self._disk._begin()
        os.ftruncate(handle, length)
        self._disk.written(handle)

    def fsync(self, handle: int) -> None:
        self._disk._begin()
        os.fsync(handle)
        self._disk.synced(handle)

    def close(self, handle: int) -> None:
        self._disk._open.pop(handle, None)
        os.close(handle)


def torn(before: bytes, after: bytes) -> Iterator[bytes]:
    """What may be in a file between two contents: part of the new, zeros for some, all of it."""
    same = next(
        (at for at, (a, b) in enumerate(zip(before, after, strict=False)) if a != b),
        min(len(before), len(after)),
    )
    for length in sorted({same, same + 1, (same + len(after)) // 2, len(after) - 1, len(after)}):
        if same <= length <= len(after):
            yield after[:length]
    yield from zeroed(after, same)
    yield after[:same] + bytes(len(after) - same)


def zeroed(data: bytes, start: int = 0) -> Iterator[bytes]:
    """The data with each of its blocks zero, from the block of `start` on."""
    for at in range(start // BLOCK_BYTES * BLOCK_BYTES, len(data), BLOCK_BYTES):
        begin, end = max(at, start), min(at + BLOCK_BYTES, len(data))
        yield data[:begin] + bytes(end - begin) + data[end:]


def journal_of(kind: Kind, folder: Path) -> FileJournal:
    """A journal with the first change kept and the second under way."""
    journal = FileJournal(folder)
    with journal.hold():
        kind.keep_first(journal)
        kind.begin_second(journal)
    return journal
