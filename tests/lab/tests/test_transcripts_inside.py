"""The consoles of real kernels again, this time by a shell on the lab's file system."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.lab.tests.labs import enter, needs_lab

pytestmark = [
    needs_lab,
    pytest.mark.skipif(
        shutil.which("bash") is None, reason="there is no bash: apt-get install bash"
    ),
]
DATA = Path(__file__).parents[2] / "data" / "kernel"
# What was run, as `guest.py` has it, on the lines that its errors name.
GUEST = r"""
export LC_ALL=C
cd /sys/fs/resctrl
st() { cat info/last_cmd_status; }

for s in 'L3:0=5' 'L3:0=fff' 'L3:0=0' 'L3:0=zz' 'L2:0=3' 'L3:9=3' 'L3:0=3;0=7' 'MB:0=5' 'MB:0=45' 'MB:0=abc' 'L3:0' 'L3' 'L3:' 'L3:0=f0'; do echo "$s" > schemata; echo "[$s] rc=$? status=$(st)"; done; printf 'L3:0=f0' > schemata; echo "no newline rc=$? $(st)"; cat schemata
mkdir g1; echo 1 > g1/cpus_list; cat cpus_list g1/cpus_list; echo 99 > g1/cpus_list; st; echo zz > g1/cpus; st; echo 0 > cpus_list; st; for p in 999999 -5 abc; do echo $p > g1/tasks; st; done
mkdir mon_groups/m1; for c in 1 2; do echo $c > mon_groups/m1/cpus_list; st; done; for m in exclusive foo; do echo $m > g1/mode; st; done
mkdir info/x; mkdir g1/x; mkdir mon_data/x; mkdir mon_groups; mkdir g2 g3 g4 g5 g6 g7 g8; st
rmdir mon_groups; rmdir info
"""  # noqa: E501


@pytest.mark.parametrize("console", ["skx-linux-6.1", "icx-linux-7.2"])
def test_a_shell_sees_what_it_saw_on_the_real_kernel(console: str, tmp_path: Path) -> None:
    lines = (DATA / f"{console}.txt").read_text().splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith("guest.sh: line 6"))
    last = max(at for at, line in enumerate(lines) if line.startswith("rmdir: "))
    script = tmp_path / "guest.sh"
    script.write_text(GUEST.removeprefix("\n").replace("export", "#\nexport", 1))
    lab = ("--model", "skx-7", "--cpus", "8", "--kernel", console.rpartition("-")[2])
    done = enter(*lab, "--", "sh", "-c", f"bash {script} 2>&1")
    printed = done.stdout.replace(str(script), script.name).splitlines()
    assert printed == lines[first : last + 1]
