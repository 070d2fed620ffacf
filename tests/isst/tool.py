"""A program that answers as intel-speed-select does, with its state in a file or in memory.

Layout and words follow isst-display.c and isst-config.c (tools/power/x86/intel-speed-select,
Linux 5.9 to 6.12): what it says goes to standard error, its exit code is 0 whatever came of a
call, a call for CPUs is done one CPU after the other, and SST-BF of one CPU is that of its power
domain. The kernel's base_frequency follows, where there is a tree of it.

On demand the call that sets something fails, hangs, dies or lies, before or after it was done.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nftop.model.ids import parse_cpu_list

NAME = "intel-speed-select"
NOMINAL, HIGH, LOW = 2300, 2700, 2100
_NO_DRIVER = "Intel speed select drivers are not loaded on this system."


@dataclass
class Domain:
    """A power domain; `bf_of` says of which SST-PP levels it has SST-BF."""

    package: int
    cpus: list[int]
    high: list[int]
    die: int = 0
    domain: int | None = None
    level: int = 0
    bf_of: list[int] = field(default_factory=lambda: [0])
    bf: bool = False
    cp: bool = True
    cp_supported: bool = True

    @property
    def location(self) -> str:
        return self.of(self.cpus[0])

    def of(self, cpu: int) -> str:
        power = "" if self.domain is None else f"powerdomain-{self.domain}:"
        return f"package-{self.package}:die-{self.die}:{power}cpu-{cpu}"


@dataclass
class State:
    """`classes` are of cores: by the lowest CPU of each."""

    domains: list[Domain]
    classes: dict[int, int]
    model: int = 0x6A


@dataclass
class Tool:
    """Attributes.

    state: of the hardware. siblings: by CPU the lowest of its core. tree: of cpufreq, if any.
    trouble: what happens to each call that sets something: `fail`, `lie`, `silent`, `part`,
    `hang-before`, `hang-after`, `die-before`, `die-after`. hangs_on_reads: read-outs hang.
    silent_about: keys that it does not report. requested: every call.
    """

    state: State
    siblings: Mapping[int, int]
    tree: Path | None = None
    trouble: str = ""
    hangs_on_reads: bool = False
    silent_about: frozenset[str] = frozenset()
    requested: list[tuple[str, ...]] = field(default_factory=list)

    def call(self, words: Sequence[str]) -> tuple[str, dict[str, Any]]:
        """How it ends (``, `hang` or `die`), and what it says as JSON."""
        self.requested.append(tuple(words))
        options, command = _parsed(words)
        if self.state.model == 0x55 and command[0] == "core-power":
            return "", {}
        if command[1] in ("enable", "disable", "assoc"):
            return self._set(options, command)
        return ("hang" if self.hangs_on_reads else ""), self._reported(options, command)

    def _reported(self, options: Mapping[str, str], command: Sequence[str]) -> dict[str, Any]:
        match command[:2]:
            case ["perf-profile", "info"]:
                return {domain.location: self._levels(domain) for domain in self.state.domains}
            case ["perf-profile", "get-config-current-level"]:
                return {
                    domain.location: {"get-config-current_level": str(domain.level)}
                    for domain in self.state.domains
                }
            case ["core-power", "get-assoc"]:
                return {
                    self._home(cpu).of(cpu): {
                        "get-assoc": {}
                        if "clos" in self.silent_about
                        else {"clos": str(self.state.classes[self.siblings[cpu]])}
                    }
                    for cpu in parse_cpu_list(options["-c"])
                }
        raise AssertionError(command)

    def _levels(self, domain: Domain) -> dict[str, Any]:
        result = {}
        for level in sorted({0, domain.level, *domain.bf_of}):
            has_bf = level in domain.bf_of
            on = domain.bf and level == domain.level
            cp = "enabled" if domain.cp else "disabled"
            values: dict[str, Any] = {
                "cpu-count": str(len(domain.cpus)),
                "enable-cpu-count": str(len(domain.cpus)),
                "enable-cpu-list": ",".join(map(str, domain.cpus)),
                "base-frequency(MHz)": str(NOMINAL),
                "speed-select-turbo-freq": "unsupported",
                "speed-select-base-freq": _switch(on) if has_bf else "unsupported",
                "speed-select-core-power": cp if domain.cp_supported else "unsupported",
            }
            if has_bf:
                values["speed-select-base-freq-properties"] = {
                    "high-priority-base-frequency(MHz)": str(HIGH),
                    "high-priority-cpu-list": ",".join(map(str, domain.high)),
                    "low-priority-base-frequency(MHz)": str(LOW),
                }
            result[f"perf-profile-level-{level}"] = {
                key: value for key, value in values.items() if key not in self.silent_about
            }
        return result

    def _set(
        self, options: Mapping[str, str], command: Sequence[str]
    ) -> tuple[str, dict[str, Any]]:
        trouble, when = [*self.trouble.split("-"), ""][:2]
        cpus = list(parse_cpu_list(options["-c"]))
        if trouble == "silent":
            return "", {}
        if trouble == "fail":
            key = "base-freq" if command[0] == "base-freq" else "core-power"
            return "", {self._home(cpus[0]).of(cpus[0]): {key: {command[1]: "failed(error -1)"}}}
        done = [] if trouble == "lie" or when == "before" else cpus
        done = done[: len(done) // 4] if trouble == "part" else done
        for cpu in done:
            if command[0] == "base-freq":
                self._switch(self._home(cpu), on=command[1] == "enable")
            else:
                self.state.classes[self.siblings[cpu]] = int(options["--clos"])
        message = {self._home(cpu).of(cpu): {command[0]: {command[1]: "success"}} for cpu in cpus}
        return (trouble if trouble in ("hang", "die") else ""), message

    def _switch(self, domain: Domain, *, on: bool) -> None:
        assert domain.level in domain.bf_of
        domain.bf = on
        self.settle()

    def settle(self) -> None:
        """The kernel's base frequencies as the hardware's state has them."""
        for domain in self.state.domains if self.tree is not None else ():
            for cpu in domain.cpus:
                mhz = NOMINAL if not domain.bf else HIGH if cpu in domain.high else LOW
                assert self.tree is not None
                (self.tree / f"policy{cpu}/base_frequency").write_text(f"{mhz}000\n")

    def _home(self, cpu: int) -> Domain:
        return next(domain for domain in self.state.domains if cpu in domain.cpus)


def _switch(on: bool) -> str:
    return "enabled" if on else "disabled"


def _parsed(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Options with a value each, and the two words of the command; -a would be a mistake."""
    options, command, left = {}, [], list(words)
    while left:
        word = left.pop(0)
        if word.startswith("-"):
            assert word in ("-f", "-c", "--clos"), word
            options[word] = left.pop(0)
        else:
            command.append(word)
    return options, command


def banner(model: int) -> str:
    """What it begins with, on standard output."""
    if not model:
        return ""
    return f"Intel(R) Speed Select Technology\nExecuting on CPU model:{model}[0x{model:x}]\n"


def siblings_of(cpus: Iterable[int], half: int) -> dict[int, int]:
    """Of a host where CPU n and n + half are one core."""
    return {cpu: cpu % half for cpu in cpus}


def save(path: Path, tool: Tool) -> None:
    """For the program."""
    domains = [vars(domain) for domain in tool.state.domains]
    raw = {
        "domains": domains,
        "classes": tool.state.classes,
        "model": tool.state.model,
        "siblings": tool.siblings,
        "trouble": tool.trouble,
        "hangs_on_reads": tool.hangs_on_reads,
        "tree": None if tool.tree is None else str(tool.tree),
    }
    path.write_text(json.dumps(raw))


def load(path: Path) -> Tool:
    """The reverse."""
    raw = json.loads(path.read_text())
    state = State(
        [Domain(**item) for item in raw["domains"]],
        {int(cpu): number for cpu, number in raw["classes"].items()},
        raw["model"],
    )
    siblings = {int(cpu): sibling for cpu, sibling in raw["siblings"].items()}
    tree = None if raw["tree"] is None else Path(raw["tree"])
    return Tool(state, siblings, tree, raw["trouble"], raw["hangs_on_reads"])


def install(root: Path, tool: Tool, folder: str = "usr/sbin") -> Path:
    """The program beneath a root, with that state; where its state is."""
    path = root / folder / NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    state = path.with_suffix(".json")
    save(state, tool)
    home = Path(__file__).resolve().parents[2]
    path.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(home)!r})\n"
        f"from pathlib import Path\nfrom tests.isst.tool import main\n"
        f"main(Path({str(state)!r}))\n"
    )
    path.chmod(0o755)
    return state


def main(path: Path) -> None:
    """One call of the program."""
    tool = load(path)
    end, message = tool.call(sys.argv[1:])
    save(path, tool)
    sys.stdout.write(banner(tool.state.model))
    sys.stdout.flush()
    if end == "hang":
        time.sleep(600)
    if end == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stderr.write(json.dumps(message, indent=2) + "\n")
