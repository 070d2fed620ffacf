"""The mapping from targets of Prometheus to hosts of ssh."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from nftop.store.user import fleet_hosts
from nftop.store.user.fleet_hosts import (
    FleetHosts,
    hosts_text,
    is_destination,
    parse_hosts,
    read_hosts,
)

HOSTILE = (
    'edge"\n[x]',
    "a\\",
    "\x1b[2J",
    "\u202ea",
    "$(reboot)",
    "-oProxyCommand=x",
    "'",
    "\U0001f600",
)


def test_later_files_override(tmp_path: Path) -> None:
    host, own = tmp_path / "host.toml", tmp_path / "own.toml"
    host.write_text('interval_s = 2\n[fleet.hosts]\n"a:1" = "a"\n"b:1" = "root@b"\n')
    own.write_text('[fleet.hosts]\n"a:1" = "jump-a.example.net"\n')
    hosts = read_hosts({"XDG_CONFIG_HOME": str(tmp_path)}, host, own, tmp_path / "absent")
    assert hosts.hosts == {"a:1": "jump-a.example.net", "b:1": "root@b"}
    assert hosts.destination("b:1") == "root@b"
    assert hosts.destination("c:1") is None
    assert hosts.path.name == "config.toml"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", 2),
        ("[fleet]\n", 2),
        ("[fleet.hosts]\n", 1),
        ('[ fleet . hosts ]\n"a:1" = "a"\n', 1),
    ],
)
def test_lines_to_add_fit_the_file(tmp_path: Path, text: str, lines: int) -> None:
    path = tmp_path / "nftop/config.toml"
    path.parent.mkdir()
    path.write_text(text)
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    added = read_hosts(environ, path).lines_to_add("b:1")
    assert len(added) == lines
    path.write_text(text + "\n".join(added))
    assert read_hosts(environ, path).hosts["b:1"] == "HOST"
    # The table of another file does not count.
    assert len(read_hosts({"XDG_CONFIG_HOME": "/absent"}, path).lines_to_add("c:1")) == 2


def test_a_file_that_can_not_be_read_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "config.toml"
    folder.symlink_to(folder)
    with pytest.raises(ValueError, match=r"config\.toml: "):
        read_hosts({"XDG_CONFIG_HOME": str(tmp_path)}, folder)
    assert read_hosts({}, tmp_path / "absent" / "config.toml").hosts == {}


def test_files_that_may_not_be_read_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path, _: int) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(fleet_hosts, "read_text", refused)
    assert read_hosts({}, tmp_path / "a").unread == (f"{tmp_path}/a: Permission denied",)


@pytest.mark.parametrize(
    "destination",
    ["edge-07", "root@edge-07", "10.0.0.1", "fe80::1%eth0", "edge_07.example.net", "a", "::1",
     "root@::1", "root@2001:db8::7"],
)  # fmt: skip
def test_destinations(destination: str) -> None:
    assert is_destination(destination)


@pytest.mark.parametrize(
    "destination",
    ["", "-oProxyCommand=reboot", "-a", "a@-oProxyCommand=x", "@a", "a b", "a;b", "$(a)", "`a`",
     "a\n", "a|b", "a&b", "a'b", 'a"b', "a\\b", "ssh://a", "a=b", "\u00e4", "a\x1b", "x" * 254,
     "a@b@c", "edge-07:9739", "user@edge-07:22", "10.0.0.1:22", "edge-07%eth0", "[::1]", ":",
     "::1::", "fe80::1%$(a)", "-::1"],
)  # fmt: skip
def test_what_ssh_or_a_shell_could_take_otherwise_is_refused(destination: str) -> None:
    assert not is_destination(destination)
    with pytest.raises(ValueError, match=r"fleet.hosts"):
        parse_hosts({"hosts": {"a:1": destination}})


@pytest.mark.parametrize(
    "table",
    [[], "x", {"host": {}}, {"hosts": []}, {"hosts": {"a": 1}}, {"hosts": {"": "a"}},
     {"hosts": {"a" * 501: "a"}}],
)  # fmt: skip
def test_tables_that_are_refused(table: object) -> None:
    with pytest.raises(ValueError, match=r"^fleet"):
        parse_hosts(table)


@pytest.mark.parametrize("instance", HOSTILE)
def test_lines_to_add_are_toml_of_printable_ascii(instance: str) -> None:
    lines = FleetHosts(Path("x")).lines_to_add(instance)
    assert all(line.isascii() and line.isprintable() for line in lines)
    parsed = tomllib.loads("\n".join(lines))
    assert parsed == {"fleet": {"hosts": {instance: "HOST"}}}
    text = hosts_text({instance: "a"})
    assert parse_hosts(tomllib.loads(text)["fleet"]) == {instance: "a"}
