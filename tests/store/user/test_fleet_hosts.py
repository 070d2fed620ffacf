"""The mapping from targets of Prometheus to hosts of ssh."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

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
    "destination",
    ["edge-07", "root@edge-07", "10.0.0.1", "fe80::1%eth0", "edge_07.example.net", "a"],
)
def test_destinations(destination: str) -> None:
    assert is_destination(destination)


@pytest.mark.parametrize(
    "destination",
    ["", "-oProxyCommand=reboot", "-a", "a@-oProxyCommand=x", "@a", "a b", "a;b", "$(a)", "`a`",
     "a\n", "a|b", "a&b", "a'b", 'a"b', "a\\b", "ssh://a", "a=b", "\u00e4", "a\x1b", "x" * 254,
     "a@b@c"],
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
