"""What a screen offers for a core, and the command lines that do the same."""

from __future__ import annotations

from dataclasses import replace

from nftop.control.cpufreq.policies import choices
from nftop.model.change import PinCpus
from nftop.model.ids import format_cpu_list
from tests.samples import S
from tests.sim.hosts import Frozen


def test_one_of_two_nfs_of_a_name_is_pinned_by_its_cpus_alone() -> None:
    host = Frozen("sst-bf", cpus=16, now_ns=10 * S)
    frame = [host.tick(S) for _ in range(4)][-1]
    frame = replace(frame, nfs=tuple(replace(item, name="l3fwd") for item in frame.nfs))
    seen = 0
    for row, pid in enumerate(frame.cpus.nf_pid):
        for nf in [item for item in frame.nfs if item.pid == pid and item.cpus]:
            result = {choice.key: choice for choice in choices(frame, row, "nftop")}
            cpus = format_cpu_list(nf.cpus)
            assert result["pin-nf"].action == PinCpus(tuple(nf.cpus))
            assert result["pin-nf"].command == f"nftop sst pin --cpus {cpus}"
            assert result["release-nf"].command == f"nftop sst release --cpus {cpus}"
            seen += 1
    assert seen
