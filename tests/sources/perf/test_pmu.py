"""PMUs of sysfs. The encodings expected are those of the vendors' public event files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.sources.perf import pmu
from nftop.uarch.table import Encoding
from tests.sources.trees import PMUS, put

# uncore_cha of an Ice Lake server, cpu of a Skylake server, msr: as their kernels print them.
TREE = {
    "uncore_cha_0/type": "44",
    "uncore_cha_0/cpumask": "0,28",
    "uncore_cha_0/format/event": "config:0-7",
    "uncore_cha_0/format/umask": "config:8-15,32-57",
    "uncore_cha_0/format/filter_tid": "config1:0-9",
    "uncore_cha_0/events/clockticks": "event=0x00",
    "uncore_cha_0/events/clockticks.scale": "1.0",
    "cpu/type": "4",
    "cpu/format/event": "config:0-7",
    "cpu/format/umask": "config:8-15",
    "cpu/format/any": "config:21",
    "cpu/format/inv": "config:23",
    "cpu/format/cmask": "config:24-31",
    "cpu/format/offcore_rsp": "config1:0-63",
    "cpu/events/cpu-cycles": "event=0x3c",
    "cpu/events/mem-loads": "event=0xcd,umask=0x1,ldlat=3",
    "cpu/events/asked": "event=0x1,umask=?",
    "cpu/events/loop": "loop",
    "msr/type": "9",
    "msr/format/event": "config:0-63",
    "msr/events/tsc": "event=0x00",
    "broken/type": "seven",
    "bare/type": "2",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    put(tmp_path / PMUS, TREE)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "terms", "expected"),
    [
        ("msr", "tsc", Encoding(9, 0)),
        ("cpu", "cpu-cycles", Encoding(4, 0x3C)),
        # CPU_CLK_UNHALTED.THREAD_ANY
        ("cpu", "event=0x3c,any", Encoding(4, 0x20003C)),
        ("cpu", "cpu-cycles,any=1,cmask=2,inv", Encoding(4, 0x2A0003C)),
        ("cpu", "event=0xb7,umask=0x1,offcore_rsp=0x3fbfc00001", Encoding(4, 0x1B7, 0x3FBFC00001)),
        # UNC_CHA_TOR_INSERTS.IO_MISS_PCIRDCUR and .IO_HIT_PCIRDCUR
        ("uncore_cha_0", "event=0x35,umask=0xc8f3fe04", Encoding(44, 0xC8F3FE00000435)),
        ("uncore_cha_0", "event=0x35, umask=0xc8f3fd04", Encoding(44, 0xC8F3FD00000435)),
        ("uncore_cha_0", "clockticks,filter_tid=3", Encoding(44, 0, 3)),
        ("bare", "config=0x400,config2=5", Encoding(2, 0x400, 0, 5)),
        # Later terms win, in their own bits only.
        ("cpu", "event=0x3c,umask=0x2,event=0x01", Encoding(4, 0x201)),
    ],
)
def test_terms_become_the_words_the_kernel_takes(
    root: Path, name: str, terms: str, expected: Encoding
) -> None:
    assert pmu.encode(pmu.read_pmu(name, root), terms) == expected


@pytest.mark.parametrize(
    ("name", "terms", "message"),
    [
        ("msr", "aperf", "msr has no event or term 'aperf'"),
        ("cpu", "event=0x100", "does not fit 8 bits"),
        ("cpu", "event=-1", "not a number"),
        ("cpu", "event=pi", "not a number"),
        ("cpu", "asked", "not a number"),
        ("cpu", "cpu-cycles=1", "no event or term"),
        ("cpu", "mem-loads", "no event or term 'ldlat'"),
        ("cpu", "loop", "no event or term 'loop'"),
        ("uncore_cha_0", "clockticks.scale", "no event or term"),
        ("cpu", "", "no event or term ''"),
    ],
)
def test_terms_that_mean_nothing_are_reported(
    root: Path, name: str, terms: str, message: str
) -> None:
    with pytest.raises(pmu.PmuError, match=message):
        pmu.encode(pmu.read_pmu(name, root), terms)


def test_the_cpumask_and_what_is_absent(root: Path) -> None:
    assert pmu.read_pmu("uncore_cha_0", root).cpumask == (0, 28)
    assert pmu.read_pmu("msr", root).cpumask is None
    with pytest.raises(FileNotFoundError):
        pmu.read_pmu("uncore_cha_9", root)
    with pytest.raises(pmu.PmuError, match="seven"):
        pmu.read_pmu("broken", root)
    for name in ("../msr", "", "a/b", ".."):
        with pytest.raises(pmu.PmuError, match="not the name"):
            pmu.read_pmu(name, root)


@given(st.lists(st.integers(0, 63), min_size=1, unique=True), st.integers(0, 2**64 - 1), st.data())
def test_a_format_puts_every_bit_at_its_path_and_touches_no_other(
    positions: list[int], word: int, data: st.DataObject
) -> None:
    value = data.draw(st.integers(0, 2 ** len(positions) - 1))
    name, bits = pmu.parse_format("config2:" + ",".join(map(str, positions)) + "\n")
    assert (name, bits) == ("config2", tuple(positions))
    result = pmu.scatter(word, value, bits)
    assert sum((result >> at & 1) << index for index, at in enumerate(bits)) == value
    others = ~sum(1 << at for at in positions)
    assert result & others == word & others


@given(st.text(max_size=20) | st.from_regex(r"\Aconfig\d?:[\d,-]{0,9}\Z"))
def test_any_text_is_a_format_or_a_pmu_error(text: str) -> None:
    try:
        word, bits = pmu.parse_format(text)
    except pmu.PmuError:
        return
    assert word in ("config", "config1", "config2", "config3")
    assert bits
    assert all(0 <= bit < 64 for bit in bits)
