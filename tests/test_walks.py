"""How many files a counter and a change pass; `tests.walks` measures it."""

from __future__ import annotations

from tests.walks import counter_to_screen, key_to_resctrl


async def test_a_counter_passes_at_most_20_files_from_its_descriptor_to_the_screen() -> None:
    files = await counter_to_screen()
    assert {"sources/perf/abi.py", "derive/fold.py", "render/base/format.py"} < files
    assert len(files) <= 20, sorted(files)


async def test_a_mask_passes_at_most_18_files_from_the_key_to_resctrl() -> None:
    files = await key_to_resctrl()
    assert {"ui/screens/editor.py", "control/transaction.py"} < files
    assert len(files) <= 18, sorted(files)
