"""Whose a resctrl group is, by the names that its managers give."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.rdt.rdt import (
    NFTOP,
    OWN_PREFIX,
    ROOT,
    class_directory,
    class_name,
    owner_of,
)


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("COS1", "pqos"),
        ("COS14", "pqos"),
        ("pqos-4711-0", "pqos"),
        ("qemu-1-fedora-vcpus_0-3", "libvirt"),
        ("qemu-12-my-vm-vcpus_0,2", "libvirt"),
        ("goresctrl.Guaranteed", "Kubernetes"),
        ("cri-resmgr.BestEffort", "Kubernetes"),
        ("0123456789abcdef" * 4, "Kubernetes"),
        ("nftop.vpp", NFTOP),
        (ROOT, None),
        ("COS0", None),
        ("COS1x", None),
        ("COS", None),
        ("vpp", None),
        ("qemu-1-fedora", None),
        ("goresctrl.", None),
        ("nftop", None),
        ("0123456789ABCDEF" * 4, None),
        ("COS1\n", None),
    ],
)
def test_owner(name: str, owner: str | None) -> None:
    assert owner_of(name) == owner


@given(st.text(min_size=1, alphabet=st.characters(exclude_characters="\n")))
def test_what_nftop_makes_is_its_own(name: str) -> None:
    assert owner_of(OWN_PREFIX + name) == NFTOP


@given(
    st.text(st.characters(exclude_characters="/"), min_size=1) | st.sampled_from([ROOT, "default"])
)
def test_a_name_on_screen_stands_for_one_directory(group: str) -> None:
    assert class_directory(class_name(group)) == group
    assert class_directory("default") == class_directory("/") == ROOT
    assert class_name(ROOT, "m") == "default:m"
