"""The kernel's cpufreq as a backend: state, and the only writes to it."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import get_args

from nftop.control.backend import AbsentError, BackendRow, RefusedError, boot_id
from nftop.control.cpufreq.backend import FrequencyBackend
from nftop.control.cpufreq.operations import FILES, CpufreqWrite
from nftop.control.cpufreq.policies import CpufreqFacts, Policy
from nftop.control.revert import differing
from nftop.model.change import POLICY_KINDS, Cell, FrequencyAction, State
from nftop.model.ids import format_cpu_list, parse_cpu_list
from nftop.model.struct import dataclass
from nftop.sources.cpufreq.files import FrequencyFiles, read_keepers
from nftop.sources.host.topology import read_host, read_topology

FOLDER = "sys/devices/system/cpu/cpufreq"
_PREFIX = "policy"
_LONGEST = 4096
# Errors of a policy that is gone, or whose CPUs are all offline.
_GONE = (errno.ENOENT, errno.EBUSY, errno.ENODEV, errno.EINVAL)
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
CPUFREQ = "cpufreq"
_PAUSE_S = 0.005
# Limits take effect a moment after they are written.
_SETTLE_S = 1.0
# On a busy host this process may not run for that long between two readings.
_LEAST_READS = 20
# Only these are written: names of governors and preferences, and numbers.
_WORD = re.compile(r"[a-zA-Z0-9_-]{1,32}")
_NUMBER = re.compile(r"[0-9]{1,9}")
_NOMINAL = re.compile(r"@ ?([0-9])\.([0-9]{2})GHz")
_NONE = (
    "this host has no cpufreq, so that its frequencies can't be set from here: a virtual machine, "
    "or P-states are the firmware's (BIOS: hardware P-states, OS control)"
)


@contextlib.contextmanager
def _opened(root: Path) -> Iterator[int]:
    """Open the directory. Raises OSError; FileNotFoundError if there is none."""
    handle = os.open(root / FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def _policy_numbers(tree: int) -> tuple[int, ...]:
    names = [name.removeprefix(_PREFIX) for name in os.listdir(tree) if name.startswith(_PREFIX)]
    return tuple(sorted(int(name) for name in names if name.isascii() and name.isdigit()))


def _read_file(tree: int, policy: int, file: str) -> str | None:
    """Stripped text of a file; None if it is missing or its policy is not in use."""
    try:
        with _in(tree, policy, file, os.O_RDONLY) as handle:
            return os.read(handle, _LONGEST).decode("ascii", "replace").strip()
    except OSError as error:
        if error.errno in _GONE:
            return None
        raise


@contextlib.contextmanager
def _in(tree: int, policy: int, file: str, access: int) -> Iterator[int]:
    folder = os.open(f"{_PREFIX}{policy:d}", _FOLDER_FLAGS, dir_fd=tree)
    try:
        handle = os.open(file, access | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder)
        try:
            yield handle
        finally:
            os.close(handle)
    finally:
        os.close(folder)


@dataclass(frozen=True, slots=True)
class Cpufreq(FrequencyBackend):
    """The kernel's cpufreq; `root` is /, or a test's."""

    root: Path = Path("/")

    @property
    def identity(self) -> str:
        """The boot and the driver: another driver creates all policies again."""
        with self._open() as folder:
            drivers = {
                _read_file(folder, number, "scaling_driver") for number in _policy_numbers(folder)
            }
        names = ",".join(sorted(filter(None, drivers))).replace(" ", "_")
        return f"{boot_id(self.root)} {CPUFREQ} {names}"

    @property
    def where(self) -> str:
        return f"/{FOLDER}"

    def facts(self) -> CpufreqFacts:
        topology = read_topology(self.root)
        with self._open() as folder:
            turbo = _turbo(self.root)
            policies = [_policy(folder, number, turbo=turbo) for number in _policy_numbers(folder)]
        here = tuple(policy for policy in policies if policy is not None)
        online = {int(info.cpu) for info in topology.cpus}
        every = {cpu for policy in here for cpu in policy.cpus}
        return CpufreqFacts(
            policies=here,
            offline=frozenset(every | set(_present(self.root))) - online,
            siblings={int(info.cpu): frozenset(info.siblings) for info in topology.cpus},
            nominal_khz=_nominal(here, read_host(self.root, "").model),
            turbo=turbo,
            packages={int(info.cpu): info.package for info in topology.cpus},
            hybrid=FrequencyFiles(self.root).hybrid,
        )

    def keepers(self) -> tuple[str, ...]:
        return tuple(
            f"{keeper.name} may set frequencies here too ({keeper.seen}"
            + (f", pid {keeper.pid})" if keeper.pid else ")")
            for keeper in read_keepers(self.root)
        )

    def state(self) -> State:
        with self._open() as folder:
            return _state(folder, _policy_numbers(folder))

    def read(self, like: Iterable[Cell]) -> State:
        with self._open() as folder:
            return _state(folder, sorted({cell.number for cell in like}))

    def read_back(self, foreseen: State) -> State:
        deadline = time.monotonic() + _SETTLE_S
        state, reads = self.read(foreseen), 1
        while differing(foreseen, state) and (reads < _LEAST_READS or time.monotonic() < deadline):
            time.sleep(_PAUSE_S)
            state, reads = self.read(foreseen), reads + 1
        return state

    def do(self, step: CpufreqWrite) -> None:
        kind, number = step.cell.kind, step.cell.number
        pattern = _NUMBER if kind in ("min_khz", "max_khz") else _WORD
        if kind not in FILES or number < 0 or not pattern.fullmatch(step.value):
            raise RefusedError(f"{step.value!r} is nothing to be written to {kind}")
        try:
            with self._open() as folder, _in(folder, number, FILES[kind], os.O_WRONLY) as handle:
                data = step.value.encode("ascii")
                if os.write(handle, data) != len(data):
                    raise OSError(errno.EIO, "the kernel took only a part of what was written")
        except OSError as error:
            raise RefusedError(f"{step.shell}: {self._why(step, error)}") from None

    def lock(self, limit_s: float) -> contextlib.AbstractContextManager[None]:  # noqa: ARG002
        """No lock: cpufreq has none, and the journal's excludes every other nftop."""
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def _open(self) -> Iterator[int]:
        try:
            with _opened(self.root) as folder:
                yield folder
        except FileNotFoundError:
            raise OSError(_NONE) from None

    def _why(self, step: CpufreqWrite, error: OSError) -> str:
        policy = step.cell.number
        with contextlib.suppress(OSError), self._open() as folder:
            if _read_file(folder, policy, "scaling_governor") is None:
                return f"CPU {step.cell.name} is offline now, or its policy is gone"
            if step.cell.kind == "epp" and _read_file(folder, policy, FILES["governor"]) == (
                "performance"
            ):
                return "the kernel takes no other EPP under the performance governor"
        return error.strerror or str(error)


def open_cpufreq(root: Path = Path("/")) -> Cpufreq:
    """The frequencies of this host. Raises AbsentError."""
    backend = Cpufreq(root)
    try:
        with _opened(root) as handle:
            policies = _policy_numbers(handle)
    except OSError:
        policies = ()
    if not policies:
        raise AbsentError(_NONE)
    return backend


def _policy(folder: int, number: int, *, turbo: bool | None) -> Policy | None:
    """A policy, or None if it is not in use. Without turbo no limit is above the base frequency.

    Source: `intel_pstate_get_max_freq` of Linux 6.1; `cpuinfo_max_freq` stays as it was.
    """

    def khz(file: str) -> int | None:
        text = _read_file(folder, number, file)
        return int(text) if text is not None and _NUMBER.fullmatch(text) else None

    least, most = khz("cpuinfo_min_freq"), khz("cpuinfo_max_freq")
    cpus = _cpus(_read_file(folder, number, "related_cpus") or "")
    if least is None or most is None or not cpus:
        return None
    base = khz("base_frequency")
    if turbo is False and base is not None:
        most = min(most, base)
    governors = (_read_file(folder, number, "scaling_available_governors") or "").split()
    return Policy(
        number=number,
        cpus=cpus,
        driver=_read_file(folder, number, "scaling_driver") or "",
        governors=tuple(governor for governor in governors if _WORD.fullmatch(governor)),
        least_khz=least,
        most_khz=most,
        base_khz=base,
    )


def _state(folder: int, policies: Iterable[int]) -> State:
    state: dict[Cell, str] = {}
    for number in policies:
        cpus = _cpus(_read_file(folder, number, "related_cpus") or "")
        for kind in POLICY_KINDS if cpus else ():
            text = _read_file(folder, number, FILES[kind])
            pattern = _NUMBER if kind in ("min_khz", "max_khz") else _WORD
            if text is not None and pattern.fullmatch(text):
                state[Cell(kind, "", format_cpu_list(cpus), number)] = text
    return state


def _cpus(text: str) -> tuple[int, ...]:
    """Parse `related_cpus`, which are separated by blanks."""
    try:
        return tuple(map(int, parse_cpu_list(",".join(text.split()))))
    except ValueError:
        return ()


def _present(root: Path) -> tuple[int, ...]:
    try:
        return _cpus((root / "sys/devices/system/cpu/present").read_text(encoding="ascii"))
    except (OSError, UnicodeDecodeError):
        return ()


def _nominal(policies: Iterable[Policy], model: str) -> int | None:
    """P1: the common base frequency, or the one in the CPU's name (`@ 2.30GHz`) with SST-BF.

    Source: sst_bf.py shows the same number as `Base`.
    """
    known = {policy.base_khz for policy in policies if policy.base_khz is not None}
    if len(known) == 1:
        return known.pop()
    match = _NOMINAL.search(model)
    return None if match is None else int(match[1]) * 1_000_000 + int(match[2]) * 10_000


def _turbo(root: Path) -> bool | None:
    try:
        text = (root / "sys/devices/system/cpu/intel_pstate/no_turbo").read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return None
    return {"0": True, "1": False}.get(text.strip())


ROW = BackendRow(
    CPUFREQ, get_args(FrequencyAction), open_cpufreq, lambda _word, _folder: open_cpufreq()
)
