"""Whether a text is a command of a shell: it parses, and each of its commands has a known form."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

# The simple commands of fixes, unquoted; prose may begin with the name of a program, too.
FORMS = re.compile(
    r"apt-get install [\w-]+|dnf upgrade [\w ]+|pip install \S+|make install \w+=\S+"
    r"|chmod [a-z]+[+-][rwx]+ \S+|chown \w+ \S+|rm \S+|mkdir -p /\S+|mount -t \w+ \w+ /\S+"
    r"|cat /\S+|echo .+|printf %s\S* .+|tee (-a )?/\S+|grep .+|sed s/.+|find /proc -.+"
    r"|cpupower -c \S+ .+|dmesg|dmidecode -t memory|grubby --update-kernel=ALL --args=.+"
    r"|mlc --\w+|modprobe \w+|nftop( doctor| recover)?|numastat -p \d+|ovs-vsctl --.+|perf stat .+"
    r"|pcm-sensor-server|setpci -s \S+ \S+|ss -xp|sysctl [\w.-]+=.+|systemctl disable --now \w+"
    r"|taskset -pc \d+ \d+|ulimit -n \d+|update-grub|for \w in [\d ]+"
)
_AFTER_WHICH_ONE_BEGINS = frozenset((";", "|", "&&", "do", "done"))
_PREFIXES = re.compile(r"sudo|env|exec|\w+=\S+")


def commands_of(text: str) -> Iterator[str]:
    """Each simple command, without sudo; those in $(...) and of `sh -c` as well."""
    while inner := re.search(r"\$\(([^()]*)\)", text):
        yield from commands_of(inner[1])
        text = text.replace(inner[0], "1")
    text = re.sub(r"\$\(\([^()]*\)\)", "1", text)
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word in _AFTER_WHICH_ONE_BEGINS:
            if words[:2] == ["sh", "-c"]:
                yield from commands_of(words[2])
            elif words:
                yield " ".join(words)
            words = []
        elif words or not _PREFIXES.fullmatch(word):
            words.append(word)


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
    assert "#" not in text, "a comment may lose its mark where a line is wrapped"
    assert all(map(FORMS.fullmatch, commands_of(text))), text
