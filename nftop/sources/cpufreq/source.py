"""Source `cpufreq`: values that cost no interrupt every few seconds, the others rarely."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

from nftop.model.check import Check
from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.missing import Missing, Reason
from nftop.model.sst import CpufreqTable, CpuFrequency, Keeper, SstPackage, SstState, UncoreLimits
from nftop.model.struct import replace
from nftop.sources.base import missing_check
from nftop.sources.cpufreq.files import FrequencyFiles, FrequencyLimits, read_keepers
from nftop.sources.cpufreq.isst import read_sst
from nftop.sources.host.sysfs import OnlineCpus

_NAME = "cpufreq"
_GHZ = 1e9


def report(table: CpufreqTable | Missing) -> tuple[Check, ...]:
    """Doctor's lines."""
    if isinstance(table, Missing):
        return missing_check(_NAME, table)
    return (_driver(table), _base(table), _sst(table.sst), *_keepers(table))


def _driver(table: CpufreqTable) -> Check:
    drivers = _counted(row.driver or "a driver without a name" for row in table.cpus)
    governors = _counted(row.governor or "no governor" for row in table.cpus)
    text = f"{drivers} on CPU {format_cpu_list(row.cpu for row in table.cpus)}; {governors}"
    if table.pstate is not None and table.pstate.turbo is not None:
        text += f"; turbo {'on' if table.pstate.turbo else 'off'}"
    pinned = [row.cpu for row in table.cpus if row.min_hz is not None and row.min_hz == row.max_hz]
    if pinned:
        text += f"; pinned to one frequency: CPU {format_cpu_list(pinned)}"
    if table.without:
        text += f"; CPU {format_cpu_list(table.without)} has none"
    if table.notes:
        return Check(_NAME, Reason.ERROR, f"{text}; {'; '.join(table.notes)}")
    return Check(_NAME, Reason.PRESENT, text)


def _base(table: CpufreqTable) -> Check:
    name = f"{_NAME} base"
    known = [row for row in table.cpus if row.base_hz is not None]
    if not known:
        hint = "intel_pstate has it if the CPU has HWP and firmware leaves it on"
        return Check(name, Reason.HARDWARE, f"no base frequencies: {hint}")
    texts = []
    for hz in sorted({row.base_hz or 0 for row in known}, reverse=True):
        cpus = format_cpu_list(row.cpu for row in known if row.base_hz == hz)
        texts.append(f"{hz / _GHZ:.1f} GHz on CPU {cpus}")
    return Check(name, Reason.PRESENT, "; ".join(texts))


def _sst(state: SstState | Missing) -> Check:
    name = f"{_NAME} SST"
    if isinstance(state, Missing):
        return missing_check(name, state)[0]
    return Check(name, Reason.PRESENT, "; ".join(map(_package, state.packages)))


def _package(row: SstPackage) -> str:
    words = {True: "on", False: "off", None: "unknown"}
    facts = [
        f"{label} {'not supported' if supported is False else words[state]}"
        for label, state, supported in (
            ("BF", row.bf, row.bf_supported),
            ("TF", row.tf, row.tf_supported),
            ("CP", row.cp, row.cp_supported),
        )
    ]
    level = "" if row.level is None else f" at level {row.level}"
    return f"package {row.package}{level}: {', '.join(facts)}"


def _keepers(table: CpufreqTable) -> Iterator[Check]:
    for keeper in table.keepers:
        pid = "" if keeper.pid is None else f" (pid {keeper.pid})"
        yield Check(
            f"{_NAME} {keeper.name}",
            Reason.TAKEN,
            f"{keeper.seen}{pid}: it may set frequencies and governors, and undo what nftop sets",
        )


def _counted(names: Iterable[str]) -> str:
    counts = Counter(names)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{name} ({count})" for name, count in counts.most_common())


LIMITS_EVERY_NS = 5_000_000_000  # cached by the kernel: three files a CPU, some 25 us
# What interrupts a CPU for some microseconds: rarely, and after a change of limits, but not as
# often as a program scales its own cores (l3fwd-power: several times a second).
SELDOM_NS = 600_000_000_000
AGAIN_AFTER_NS = 60_000_000_000
KEEPERS_EVERY_NS = 60_000_000_000
NO_CPUFREQ = (
    "no CPU has cpufreq here: the kernel has no driver for it, as in most guests, or firmware "
    "keeps frequencies to itself"
)
_NOT_RUN = Missing(Reason.WARMING, "intel-speed-select has not run yet")
_ALL_QUIET = Missing(
    Reason.SOURCE, "intel-speed-select is not run: it would interrupt CPUs of --quiet-cpus"
)
_NOT_ROOT = Missing(Reason.PERMISSION, "intel-speed-select needs root")

AskSst = Callable[[Sequence[int]], SstState | Missing]


class CpufreqSource:
    """Reads limits and governors every few seconds, and what costs interrupts rarely."""

    name = "cpufreq"
    inline = False

    def __init__(
        self,
        root: Path = Path("/"),
        *,
        quiet_cpus: Collection[int] = (),
        ask_sst: AskSst | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`ask_sst` returns SST's state of CPUs; by default intel-speed-select does.

        The base frequency of quiet CPUs is read once, and SST is never read on them.
        """
        self._root = root
        self._quiet = frozenset(quiet_cpus)
        self._ask_sst = ask_sst or (
            lambda cpus: _NOT_ROOT if os.geteuid() else read_sst(cpus, root)
        )
        self._clock = clock
        self._files = FrequencyFiles(root)
        self._epp_is_cached = self._files.epp_is_cached
        self._online = OnlineCpus(root)
        self._seen: tuple[Cpu, ...] = ()
        # Values read rarely, by CPU; `_known_limits` are those at which base frequencies were read.
        self._settings: dict[Cpu, CpuFrequency] = {}
        self._base_hz: dict[Cpu, int | None] = {}
        self._base_read_at_ns: dict[Cpu, int] = {}
        self._epp: dict[Cpu, str | None] = {}
        self._known_limits: dict[Cpu, FrequencyLimits] = {}
        self._hybrid = False
        self._table: CpufreqTable | Missing = _NOT_RUN
        self._next_limits_ns = self._next_seldom_ns = self._next_keepers_ns = 0
        self._base_at_ns = self._uncore_at_ns = self._sst_at_ns = self._next_sst_ns = 0
        self._uncore: tuple[UncoreLimits, ...] = ()
        self._keepers: tuple[Keeper, ...] = ()
        self._sst: SstState | Missing = _NOT_RUN
        self._sst_due = False
        self._soon = threading.Event()

    def soon(self) -> None:
        """As `Refreshable`."""
        self._soon.set()

    def read(self) -> CpufreqTable | Missing:
        """The table; the same object as long as nothing changes."""
        now_ns = self._clock()
        online = self._online.latest()
        requested = self._soon.is_set()
        self._soon.clear()
        if self._sst_due:
            # After a reading that had all the rest: this may take seconds.
            self._ask_about([cpu for cpu in online if cpu not in self._quiet], now_ns)
        if requested or self._table is _NOT_RUN:
            self._next_limits_ns = self._next_seldom_ns = self._next_sst_ns = now_ns
        if online != self._seen or now_ns >= self._next_limits_ns:
            self._table = self._read_table(online, now_ns)
        return self._table

    def check(self) -> tuple[Check, ...]:
        table = self.read()
        if self._sst_due:
            table = self.read()
        return report(table)

    def close(self) -> None:
        self._online.close()

    def _ask_about(self, cpus: Sequence[Cpu], now_ns: int) -> None:
        self._sst = self._ask_sst(cpus) if cpus else _ALL_QUIET
        self._sst_due = False
        self._sst_at_ns, self._next_sst_ns = now_ns, now_ns + SELDOM_NS
        if isinstance(self._table, CpufreqTable):
            self._table = replace(self._table, sst=self._sst)

    def _read_table(self, online: tuple[Cpu, ...], now_ns: int) -> CpufreqTable | Missing:
        self._next_limits_ns = now_ns + LIMITS_EVERY_NS
        self._files = FrequencyFiles(self._root)
        others = online != self._seen
        all_anew = others or now_ns >= self._next_seldom_ns
        if others:
            # An SST level takes CPUs offline and changes what is left of the others.
            self._known_limits = {}
            self._next_sst_ns = min(self._next_sst_ns, self._sst_at_ns + AGAIN_AFTER_NS)
        if all_anew:
            self._stand(online)
        limits = self._limits()
        self._read_seldom(limits, now_ns)
        if all_anew or now_ns >= self._next_keepers_ns:
            self._next_keepers_ns = now_ns + KEEPERS_EVERY_NS
            self._keepers = read_keepers(self._root)
        self._sst_due = bool(limits) and now_ns >= self._next_sst_ns
        if not limits:
            return Missing(Reason.SOURCE, NO_CPUFREQ)
        table = CpufreqTable(
            cpus=tuple(self._row(cpu, limits[cpu]) for cpu in sorted(limits)),
            without=tuple(cpu for cpu in online if cpu not in limits),
            pstate=self._files.pstate(),
            uncore=self._uncore,
            sst=self._sst,
            keepers=self._keepers,
            hybrid=self._hybrid,
            base_read_at_ns=self._base_at_ns,
            notes=self._files.tree.notes(),
        )
        return self._table if table == self._table else table

    def _stand(self, online: tuple[Cpu, ...]) -> None:
        """Policies of the CPUs; the files of a policy are read once."""
        known: dict[int, CpuFrequency | None] = {}
        rows: dict[Cpu, CpuFrequency] = {}
        for cpu in online:
            policy = self._files.policy_of(cpu)
            if policy is None:
                continue
            if policy not in known:
                known[policy] = self._files.settings(cpu, policy)
            settings = known[policy]
            if settings is not None:
                rows[cpu] = settings
        self._seen = online
        self._settings = rows
        self._hybrid = self._files.hybrid

    def _limits(self) -> dict[Cpu, FrequencyLimits]:
        """Limits of every CPU that has a policy; read once for each policy."""
        known: dict[int, FrequencyLimits] = {}
        rows: dict[Cpu, FrequencyLimits] = {}
        for cpu, settings in self._settings.items():
            if settings.policy not in known:
                known[settings.policy] = self._files.limits(cpu)
            limits = known[settings.policy]
            if limits != FrequencyLimits(None, None, None):  # gone offline since
                rows[cpu] = limits
        return rows

    def _read_seldom(self, limits: dict[Cpu, FrequencyLimits], now_ns: int) -> None:
        """Base frequencies and preferences: of all CPUs, or of those whose limits have changed.

        A change soon after the last read is read later.
        """
        due = now_ns >= self._next_seldom_ns
        waited_since_ns = now_ns - AGAIN_AFTER_NS
        changed = {
            cpu
            for cpu in limits.keys() - self._quiet
            if limits[cpu] != self._known_limits.get(cpu)
            and self._base_read_at_ns.get(cpu, waited_since_ns) <= waited_since_ns
        }
        for cpu, limit in limits.items():
            again = cpu in changed or (due and cpu not in self._quiet)
            if again or cpu not in self._base_hz:
                self._base_hz[cpu] = self._files.base_hz(cpu)
                self._known_limits[cpu], self._base_read_at_ns[cpu] = limit, now_ns
            if again or cpu not in self._epp or self._epp_is_cached:
                self._epp[cpu] = self._files.epp(cpu) if self._settings[cpu].epps else None
        if due or (changed and self._uncore_at_ns <= waited_since_ns):
            self._uncore, self._uncore_at_ns = self._files.uncore(), now_ns
        if due:
            self._base_at_ns, self._next_seldom_ns = now_ns, now_ns + SELDOM_NS
        for gone in self._base_hz.keys() - limits.keys() - self._quiet:
            del self._base_hz[gone], self._base_read_at_ns[gone]
            self._epp.pop(gone, None)
            self._known_limits.pop(gone, None)

    def _row(self, cpu: Cpu, limits: FrequencyLimits) -> CpuFrequency:
        return replace(
            self._settings[cpu],
            cpu=cpu,
            governor=limits.governor,
            epp=self._epp.get(cpu),
            min_hz=limits.min_hz,
            max_hz=limits.max_hz,
            base_hz=self._base_hz.get(cpu),
        )
