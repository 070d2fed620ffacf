"""The file of chosen columns: written whole, read with doubt."""

from __future__ import annotations

from pathlib import Path

import pytest

from nftop.store.user.chosen_columns import columns_file


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    file = columns_file(environ)
    assert file.chosen == {}
    file.keep({"cores": ("cpu", "cpp_vs_base"), "nfs": ("name", "tma.retiring"), "power": ()})
    assert columns_file(environ).chosen == {
        "cores": ("cpu", "cpp_vs_base"),
        "nfs": ("name", "tma.retiring"),
    }
    text = (tmp_path / "nftop/columns.toml").read_text()
    assert text.startswith("# Written by nftop")


def test_the_old_file_stays_if_the_new_one_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "nftop").write_text("no folder")
    file = columns_file({"XDG_CONFIG_HOME": str(tmp_path)})
    with pytest.raises(OSError, match="nftop"):
        file.keep({"cores": ("cpu",)})
    assert file.chosen == {}


def test_a_link_at_its_path_is_replaced_and_its_target_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "nftop").mkdir()
    target = tmp_path / "target"
    target.write_text("mine")
    (tmp_path / "nftop/columns.toml").symlink_to(target)
    columns_file({"XDG_CONFIG_HOME": str(tmp_path)}).keep({"cores": ("cpu",)})
    assert target.read_text() == "mine"
    assert not (tmp_path / "nftop/columns.toml").is_symlink()


@pytest.mark.parametrize(
    "text",
    [
        "not toml [",
        "columns = 3",
        '[columns]\ncores = "cpu"',
        "[columns]\ncores = [1, 2]",
        '[columns]\ncores = ["\\u001b[2J"]',
        "[columns]\ncores = [" + '"cpu", ' * 201 + "]",
    ],
)
def test_a_damaged_file_has_no_choice(tmp_path: Path, text: str) -> None:
    (tmp_path / "nftop").mkdir()
    (tmp_path / "nftop/columns.toml").write_text(text)
    assert columns_file({"XDG_CONFIG_HOME": str(tmp_path)}).chosen == {}
