"""A tree in which any file may say anything, or be no file: reasons, never an exception."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from nftop.export.json.frame import frame_json
from nftop.model.missing import Missing
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import EVENTS, ResctrlTable
from tests.rdt import frame_of
from tests.sources.resctrl.trees import MOUNT, group_files, plain, source, write

FILES = (
    plain()
    | group_files("vpp/mon_groups/rx/")
    | {
        "vpp/ctrl_hw_id": "3",
        "info/L3/io_alloc": "enabled",
        "info/L3/io_alloc_cbm": "0=f;1=f",
        "info/L3/sparse_masks": "1",
        "info/L2/cbm_mask": "ff",
        "mon_data/mon_L3_00/mon_sub_L3_00/llc_occupancy": "1",
    }
)
NAMES = sorted(name for name in FILES if not name.endswith("/"))
# A number where none fits, another file's text, or anything.
texts = (
    st.sampled_from(sorted(set(FILES.values())))
    | st.from_regex(r"(L3|L2|MB|L3CODE|L3DATA):[0-9]{1,2}=[0-9a-f]{0,9}", fullmatch=True)
    | st.from_regex(r"[0-9a-f]{0,22}", fullmatch=True)
    | st.text(max_size=20)
)


@settings(max_examples=60)
@given(message=st.dictionaries(st.sampled_from(NAMES), texts | st.none(), max_size=8))
def test_whatever_the_files_report(message: Mapping[str, str | None]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = write(Path(folder), FILES)
        for name, text in message.items():
            path = root / MOUNT / name
            if text is None:
                path.unlink()
                path.mkdir()
            else:
                path.write_text(text, encoding="utf-8", errors="replace")
        reader = source(root)
        tables = [reader.read(), reader.read()]
        reader.check()
    for table in tables:
        assert isinstance(table, ResctrlTable)
        for group in table.groups:
            assert [cache.l3 for cache in group.caches] == [domain.l3 for domain in table.domains]
            for cache in group.caches:
                assert isinstance(cache.cbm, Cbm | Missing)
                assert cache.values.keys() == set(EVENTS)
    # What is shown of it can be worked out and written down.
    assert json.loads(frame_json(frame_of(*tables)))["groups"]
