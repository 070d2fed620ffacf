"""A host's cpufreq files in a folder, with a kernel that clamps: for tests without the lab."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nftop.control.backend import RefusedError
from nftop.control.cpufreq import cpufreq
from nftop.control.cpufreq.cpufreq import Cpufreq
from nftop.control.cpufreq.operations import FILES, CpufreqWrite
from nftop.model.change import Cell, State
from tests.control.hosts import Death

LEAST, MOST, NOMINAL = 800_000, 3_900_000, 2_300_000
HIGH, LOW = 2_700_000, 2_100_000
CPUS = 8
# How often what is read is as it was before a limit was written: more than a way back looks.
LATE = 4
# Two threads a core, and two of the four cores are favoured, as on a 6230N.
BASES = tuple(HIGH if cpu % 4 in (1, 2) else LOW for cpu in range(CPUS))
_GOVERNORS = ("performance", "powersave")
_EPPS = ("default", "performance", "balance_performance", "balance_power", "power")


@dataclass
class Kernel:
    """What intel_pstate does of a write in its active mode, to files beneath `root`.

    Requests are kept apart from what is in effect, as the kernel does, and limits are in effect
    only a moment later: the part reads them `LATE` times as they were. No lower limit is above
    `ceiling`, no upper one above `upper`, whatever was asked for.
    """

    root: Path
    requests: dict[tuple[int, str], int] = field(default_factory=dict)
    kept_epp: dict[int, str] = field(default_factory=dict)
    ceiling: int = MOST
    upper: int = MOST
    late: dict[int, int] = field(default_factory=dict)

    def folder(self, policy: int) -> Path:
        return self.root / cpufreq.FOLDER / f"policy{policy}"

    def get(self, policy: int, file: str) -> str:
        """What is in effect in the end."""
        self.settle()
        return self._get(policy, file)

    def _get(self, policy: int, file: str) -> str:
        return (self.folder(policy) / file).read_text().strip()

    def put(self, policy: int, file: str, text: str) -> None:
        """One write of somebody else's, long ago, or OSError as the kernel gives it."""
        self.take(policy, file, text)
        self.settle()

    def take(self, policy: int, file: str, text: str) -> None:
        """One write, just now."""
        acts = {
            FILES["governor"]: self._governor,
            FILES["epp"]: self._epp,
            FILES["min_khz"]: self._limit,
            FILES["max_khz"]: self._limit,
        }
        acts[file](policy, file, text.strip())

    def _set(self, policy: int, file: str, text: str) -> None:
        (self.folder(policy) / file).write_text(f"{text}\n")

    def _governor(self, policy: int, file: str, text: str) -> None:
        if text not in _GOVERNORS:
            raise OSError(22, "Invalid argument")
        before = self._get(policy, file)
        if text == before:
            return
        self._set(policy, file, text)
        now = self._get(policy, FILES["epp"])
        if text == "performance":
            self.kept_epp[policy] = now
            self._set(policy, FILES["epp"], "performance")
        elif now == "performance":
            self._set(policy, FILES["epp"], self.kept_epp.get(policy, "balance_performance"))

    def _epp(self, policy: int, file: str, text: str) -> None:
        if text not in _EPPS:
            raise OSError(22, "Invalid argument")
        if self._get(policy, FILES["governor"]) == "performance" and text != "performance":
            raise OSError(16, "Device or resource busy")
        self._set(policy, file, "balance_performance" if text == "default" else text)

    def _limit(self, policy: int, file: str, text: str) -> None:
        self.requests[policy, file] = int(text)
        self.late[policy] = LATE

    def read_once(self) -> None:
        """The part reads: time passes."""
        self.late = {policy: left - 1 for policy, left in self.late.items()}
        for policy in [policy for policy, left in self.late.items() if left < 0]:
            self._take_effect(policy)

    def settle(self) -> None:
        """The kernel has done all it has to."""
        for policy in list(self.late):
            self._take_effect(policy)

    def _take_effect(self, policy: int) -> None:
        del self.late[policy]
        if not (self.folder(policy) / FILES["max_khz"]).exists():
            return  # offline meanwhile
        low = self.requests.get((policy, FILES["min_khz"]), LEAST)
        high = self.requests.get((policy, FILES["max_khz"]), MOST)
        least, most = (int(self._get(policy, f"cpuinfo_{end}_freq")) for end in ("min", "max"))
        high = max(least, min(high, most, self.upper))
        self._set(policy, FILES["max_khz"], str(high))
        self._set(
            policy, FILES["min_khz"], str(min(max(least, min(low, most)), high, self.ceiling))
        )

    def state(self) -> Mapping[str, str]:
        """Every file, byte for byte, in the end."""
        self.settle()
        every = sorted((self.root / cpufreq.FOLDER).rglob("*"))
        return {str(item): item.read_text() for item in every if item.is_file()}


@dataclass(frozen=True, slots=True)
class FakeCpufreq(Cpufreq):
    """The real part, on a kernel of the tests', of a process that may be killed.

    Attributes:
        stubborn: of these files writes are refused.
    """

    kernel: Kernel = field(default_factory=lambda: Kernel(Path("/nowhere")))
    death: Death = field(default_factory=lambda: Death(-1, late=False))
    stubborn: tuple[tuple[int, str], ...] = ()

    def read(self, like: Iterable[Cell]) -> State:
        self.kernel.read_once()
        return Cpufreq.read(self, like)

    def do(self, step: CpufreqWrite) -> None:
        self.death.surroundings(lambda: self._do(step))

    def _do(self, step: CpufreqWrite) -> None:
        where = (step.cell.number, FILES[step.cell.kind])
        if where in self.stubborn:
            raise RefusedError("the kernel refused it")
        try:
            self.kernel.take(*where, step.value)
        except OSError as error:
            raise RefusedError(f"{step.shell}: {error.strerror}") from None


@contextlib.contextmanager
def in_memory() -> Iterator[Path]:
    """A folder for many small files, which goes again: in memory where there is such a place."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def make_tree(
    root: Path,
    *,
    bases: tuple[int | None, ...] = BASES,
    driver: str = "intel_pstate",
    shared: int = 1,
    governor: str = "powersave",
    packages: int = 1,
) -> Kernel:
    """A host of as many CPUs as there are bases; `shared` so many of them have one policy.

    Of two packages one has the even CPUs.
    """
    count = len(bases)
    cpu = root / "sys/devices/system/cpu"
    cpu.mkdir(parents=True)
    for name in ("present", "online", "possible"):
        (cpu / name).write_text(f"0-{count - 1}\n")
    for number in range(count):
        topology = cpu / f"cpu{number}/topology"
        topology.mkdir(parents=True)
        siblings = sorted({number, (number + count // 2) % count})
        for name, text in (
            ("physical_package_id", str(number % packages)),
            ("core_id", str(siblings[0])),
            ("die_id", "0"),
            ("core_cpus_list", ",".join(map(str, siblings))),
        ):
            (topology / name).write_text(f"{text}\n")
    for first in range(0, count, shared):
        folder = root / cpufreq.FOLDER / f"policy{first}"
        folder.mkdir(parents=True)
        members = " ".join(map(str, range(first, min(first + shared, count))))
        files = {
            "related_cpus": members,
            "affected_cpus": members,
            "scaling_driver": driver,
            "scaling_governor": governor,
            "scaling_available_governors": " ".join(_GOVERNORS),
            "scaling_min_freq": str(LEAST),
            "scaling_max_freq": str(MOST),
            "cpuinfo_min_freq": str(LEAST),
            "cpuinfo_max_freq": str(MOST),
        }
        if driver == "intel_pstate":
            epp = "performance" if governor == "performance" else "balance_performance"
            files |= {
                "energy_performance_preference": epp,
                "energy_performance_available_preferences": " ".join(_EPPS),
            }
        base = bases[first]
        if base is not None:
            files["base_frequency"] = str(base)
        for name, text in files.items():
            (folder / name).write_text(f"{text}\n")
    boot = root / "proc/sys/kernel/random"
    boot.mkdir(parents=True)
    (boot / "boot_id").write_text("a-boot\n")
    (root / "proc/cpuinfo").write_text(
        "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) Gold 6230N CPU "
        "@ 2.30GHz\n"
    )
    return Kernel(root)


def component(kernel: Kernel, death: Death | None = None) -> FakeCpufreq:
    """The part of the host with that kernel, of a process that is begun just now."""
    kernel.settle()
    return FakeCpufreq(kernel.root, kernel=kernel, death=death or Death(-1, late=False))


def take_offline(kernel: Kernel, policy: int) -> None:
    """A policy whose CPUs are offline says nothing and takes nothing: as if it had no files."""
    folder = kernel.folder(policy)
    gone = {str(number) for number in map(int, kernel.get(policy, "related_cpus").split())}
    for entry in list(folder.iterdir()):
        entry.unlink()
    online = kernel.root / "sys/devices/system/cpu/online"
    last = int(online.read_text().split("-")[-1])
    left = [str(number) for number in range(last + 1) if str(number) not in gone]
    online.write_text(",".join(left) + "\n")
