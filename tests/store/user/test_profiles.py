"""Where profiles are looked for, and what is taken for one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nftop.control.profile.formats import form_of, parse
from nftop.store.user.config_dir import folder_of, read_profiles


def test_they_are_in_the_configuration_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/operator")
    assert folder_of({}) == Path("/home/operator/.config/nftop/profiles")
    assert folder_of({"XDG_CONFIG_HOME": "/etc/x"}) == Path("/etc/x/nftop/profiles")
    assert folder_of({"XDG_CONFIG_HOME": "x"}) == Path("/home/operator/.config/nftop/profiles")


def test_plain_files_are_read_and_nothing_else(tmp_path: Path) -> None:
    assert read_profiles(tmp_path / "none") == {}
    (tmp_path / "b.cfg").write_text("alloc-class-set: llc:1=0xf\n")
    (tmp_path / "a.toml").write_text('schema = "nftop.profile/1"\n')
    (tmp_path / "c.cfg").symlink_to(tmp_path / "b.cfg")
    (tmp_path / "d").mkdir()
    os.mkfifo(tmp_path / "e.cfg")
    (tmp_path / "f.cfg").write_bytes(b"#" * ((1 << 20) + 1))
    (tmp_path / "g\x1b.cfg").write_text("")
    result = read_profiles(tmp_path)
    assert list(result) == ["a.toml", "b.cfg"]
    assert parse("b.cfg", result["b.cfg"]).statements
    assert parse("a.toml", result["a.toml"]).problems == ()


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [
        ("x.toml", "alloc-class-set: llc:1=0xf", "toml"),
        ("x.cfg", "schema = 1", "toml"),
        ("x.conf", '# pqos\n\nschema = "nftop.profile/1"', "toml"),
        ("x.conf", "# a\nalloc-class-set: llc:1=0xf", "pqos"),
        ("-", "sudo pqos -e 'llc:1=0xf'", "pqos"),
        ("x.cfg", "", "pqos"),
        ("", "", "toml"),
    ],
)
def test_its_form(name: str, text: str, form: str) -> None:
    assert form_of(name, text) == form
