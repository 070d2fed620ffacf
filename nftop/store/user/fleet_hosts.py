"""The operator's mapping from targets of Prometheus to hosts of ssh: `[fleet.hosts]`.

[fleet.hosts]
"edge-07:9739" = "edge-07"         # instance = host, or user@host, or a name of ssh's config
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from pathlib import Path

from nftop.model.bounded_toml import parse_toml
from nftop.model.struct import dataclass, field
from nftop.store.user.config_dir import MOST_CONFIG_BYTES, config_folder, read_text, toml_text

FLEET = "fleet"
_HEADER = "[fleet.hosts]"
_MOST_INSTANCE = 500
# No option of ssh, no character with a meaning for a shell.
_DESTINATION = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?([A-Za-z0-9_:][A-Za-z0-9_.:%-]*)")
_MOST_DESTINATION = 253


@dataclass(frozen=True, slots=True)
class FleetHosts:
    """Hosts of ssh by instance.

    Attributes:
        path: file in which the operator adds one. has_table: it has the table `fleet.hosts`, and
            TOML allows no second header of it.
        unread: files that the process may not read, with why.
    """

    path: Path
    hosts: Mapping[str, str] = field(default_factory=dict)
    has_table: bool = False
    unread: tuple[str, ...] = ()

    def destination(self, instance: str) -> str | None:
        """Host of ssh; None if the operator has named none for this target."""
        return self.hosts.get(instance)

    def lines_to_add(self, instance: str) -> tuple[str, ...]:
        """Lines that name one, the header too if the file lacks it; `instance` is escaped."""
        row = f'{toml_text(instance, ascii_only=True)} = "HOST"'
        return (row,) if self.has_table else (_HEADER, row)


def parse_hosts(table: object) -> dict[str, str]:
    """Hosts of a `[fleet]` table. Raises ValueError."""
    if not isinstance(table, dict):
        raise ValueError("fleet must be a table: [fleet.hosts]")
    for key in table.keys() - {"hosts"}:
        raise ValueError(f"fleet: there is no {key[:20]!r}; there is hosts")
    hosts = table.get("hosts", {})
    if not isinstance(hosts, dict):
        raise ValueError("fleet.hosts must be a table of hosts by instance")
    for instance, destination in hosts.items():
        if not instance or len(instance) > _MOST_INSTANCE:
            raise ValueError("fleet.hosts: an instance is a name of up to 500 characters")
        if not isinstance(destination, str) or not is_destination(destination):
            raise ValueError(
                f"fleet.hosts: {instance[:40]!r} must be a host, or user@host, of letters, digits, "
                "and . - _, or an IPv6 address; a port belongs into ssh's configuration"
            )
    return hosts


def is_destination(text: str) -> bool:
    """Whether it can be given to ssh as a host; it takes no port there."""
    match = _DESTINATION.fullmatch(text) if len(text) <= _MOST_DESTINATION else None
    if match is None or not {":", "%"} & set(match[1]):
        return match is not None
    try:
        ipaddress.IPv6Address(match[1])
    except ValueError:
        return False
    return True


def read_hosts(environ: Mapping[str, str], *configs: Path) -> FleetHosts:
    """Hosts of the configuration files, the later overriding.

    Files that are missing have none; those of another user are `unread`.

    Raises:
        ValueError: a file has something else, or can't be read otherwise; the text names it.
    """
    hosts: dict[str, str] = {}
    own, has_table = config_folder(environ) / "config.toml", False
    unread = []
    for path in configs:
        try:
            table = parse_toml(read_text(path, MOST_CONFIG_BYTES)).get(FLEET, {})
            hosts |= parse_hosts(table)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            unread.append(f"{path}: {error.strerror}")
            continue
        except OSError as error:
            raise ValueError(f"{path}: {error.strerror}") from None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        has_table |= path == own and "hosts" in table
    return FleetHosts(own, hosts, has_table, tuple(unread))


def hosts_text(hosts: Mapping[str, str]) -> str:
    """Hosts as TOML that `parse_hosts` reads."""
    rows = [
        f"{toml_text(name, ascii_only=True)} = {toml_text(hosts[name])}" for name in sorted(hosts)
    ]
    return "\n".join([_HEADER, *rows]) + "\n"
