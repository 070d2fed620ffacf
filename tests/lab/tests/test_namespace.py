"""What of the real machine is not to be seen in a lab, and so not to be written to by mistake."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.lab.tests.labs import LONGEST_S, ROOT, needs_lab

pytestmark = needs_lab

# A machine with a resctrl that is mounted, MSRs, a /dev/mem and a folder of network functions'
# sockets, in a mount namespace of its own.
_REAL = """
set -e
mount -t tmpfs real /sys/fs
mkdir /sys/fs/resctrl
mount -t tmpfs real-resctrl /sys/fs/resctrl
echo real > /sys/fs/resctrl/schemata
mount -t tmpfs real /run
mkdir -p /run/dpdk/real /run/openvswitch
mount -t tmpfs real "$1"
mkdir -p "$1/cpu/0"
touch "$1/cpu/0/msr" "$1/mem" "$1/null" "$1/fuse"
for device in null fuse; do mount --bind /dev/$device "$1/$device"; done
mount --bind /dev/zero "$1/mem"
mount --rbind "$1" /dev
shift
"$@"
# What the lab took out of its own namespace is where it was.
cat /sys/fs/resctrl/schemata
"""
_LIST = """
echo $(ls -A /run /var/run/)
umount /sys/fs/resctrl 2>/dev/null
ls -A /sys/fs/resctrl
grep -c real-resctrl /proc/mounts /proc/self/mountinfo
echo $(ls -A /dev/cpu)
umount /dev/cpu
ls -A /dev/cpu
touch /dev/cpu/0 2>/dev/null && echo made a file
head -c 1 /dev/mem 2>/dev/null | wc -c
"""


def test_the_real_resctrl_msrs_memory_and_network_functions_are_not_in_a_lab(
    tmp_path: Path,
) -> None:
    lab = (sys.executable, "-m", "tests.lab", "--cpus", "4", "--no-resctrl", "--", "sh", "-c")
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", _REAL, "sh", str(tmp_path), *lab, _LIST],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "/run: lock /var/run/: lock",
        "/proc/mounts:0",
        "/proc/self/mountinfo:0",
        "0 1 2 3",
        "0",
        "real",
    ]
