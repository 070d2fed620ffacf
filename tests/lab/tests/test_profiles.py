"""Profiles inside: what nftop writes the real `pqos -f` takes, and what either says is the same."""

from __future__ import annotations

import shutil

import pytest

from tests.lab.resctrl import profile
from tests.lab.tests.labs import answer, needs_lab

pytestmark = [
    needs_lab,
    pytest.mark.skipif(
        shutil.which("pqos") is None, reason="no pqos here: apt-get install intel-cmt-cat"
    ),
]
_PROGRAM = """
    import pathlib, subprocess, tempfile
    from tests import forked
    top, work = pathlib.Path("/sys/fs/resctrl"), pathlib.Path(tempfile.mkdtemp())
    listing, written, own = (work / name for name in ("a.cfg", "out.cfg", "out.toml"))
    listing.write_text(
        "alloc-class-set: 1lc:1=0xf0f0;mba:1=50\\n"
        "alloc-class-set: llc@1:2=0x3\\nalloc-assoc-set: llc:1=2-3;llc:2=5\\n"
    )

    def nftop(*words):
        done = forked.nftop("cat", *words)
        return [done.returncode, done.stdout + done.stderr]

    def classes():
        return {
            path.parent.name.removeprefix("nftop.cos").removeprefix("COS"):
                [path.read_text().replace(" ", ""), (path.parent / "cpus_list").read_text()]
            for path in sorted(top.rglob("schemata"))
        }

    start = classes()
    said = [nftop("import", str(listing), "--yes"), classes() == start]
    said += [nftop("import", str(listing), "--fix", "--yes")]
    ours = classes()
    said += [nftop("export", "-o", str(each)) for each in (written, own)]
    said += [nftop("import", str(each), "--yes") for each in (written, own)]
    said += [nftop("export", "-o", str(own))]  # which is there
    nftop("reset", "--yes")
    said += [classes() == start]
    done = subprocess.run(["pqos", "-I", "-f", str(written)], capture_output=True, text=True)
    said += [[done.returncode, done.stdout]]
    theirs = {name: value for name, value in classes().items() if name in ours}
    for path in top.glob("COS*"):
        path.rmdir()
    said += [nftop("import", str(own), "--yes"), classes() == ours, ours, theirs]
    print(json.dumps(said))
"""


@pytest.mark.parametrize("kernel", profile.kernels())
def test_pqos_sets_what_nftop_wrote(kernel: str) -> None:
    printed = answer(_PROGRAM, "--model", "icx", "--kernel", kernel, "--cpus", "8")
    refused, untouched, fixed, pqos_form, toml_form, again, again_own, present = printed[:8]
    assert refused[0] == 1
    assert "'llc' is meant" in refused[1]
    assert untouched
    assert fixed[0] == 0
    assert [pqos_form[0], toml_form[0], again[0], again_own[0]] == [0, 0, 0, 0]
    assert "so already" in again[1]
    assert "so already" in again_own[1]
    assert present[0] == 1

    back, applied, own, same, ours, theirs = printed[8:]
    assert back
    assert applied[0] == 0, applied[1]
    assert theirs == ours  # pqos' own COS1 and COS2 beside the root group
    assert own[0] == 0
    assert same
