"""Whether a text is a command of a shell: it parses, and begins with a program that is known."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

# What a command of a fix may begin with: prose begins with other words.
KNOWN = frozenset(
    ("apt-get", "chmod", "chown", "cpupower", "dmesg", "dmidecode", "echo", "env", "find", "grep",
     "grubby", "make", "mlc", "modprobe", "mount", "nftop", "numastat", "ovs-vsctl", "perf", "pip",
     "rm", "sed", "setpci", "sh", "ss", "sysctl", "systemctl", "taskset", "tee", "update-grub")
)  # fmt: skip
_AFTER_WHICH_ONE_BEGINS = frozenset((";", "|", "&&", "do", "done"))


def programs_of(command: str) -> set[str]:
    """The first word of each simple command, and what sudo runs."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    programs, first = set(), True
    for word in lexer:
        if word in _AFTER_WHICH_ONE_BEGINS:
            first = True
        elif word == "for":
            first = False
        elif first and word != "sudo":
            programs.add(word)
            first = False
    return programs


def run_as_root(command: str, folder: Path, **programs: str) -> subprocess.CompletedProcess[str]:
    """Run a command as printed, with a sudo that only runs it; `programs` are shell scripts.

    They and sudo are put into `folder`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, script in {"sudo": 'exec "$@"', **programs}.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return subprocess.run(
        ["bash", "-c", command],
        env={**os.environ, "LC_ALL": "C", "PATH": f"{folder}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def assert_command(text: str) -> None:
    """Fail unless the text is one."""
    assert text
    parsed = subprocess.run(["bash", "-n", "-c", text], capture_output=True, check=False)
    assert parsed.returncode == 0, (text, parsed.stderr)
    assert programs_of(text) <= KNOWN, text
