"""The operator's mapping from targets of Prometheus to hosts of ssh: `[fleet.hosts]`.

[fleet.hosts]
"edge-07:9739" = "edge-07"         # instance = host, or user@host, or a name of ssh's config
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from nftop.model.bounded_toml import parse_toml
from nftop.model.struct import dataclass, field
from nftop.store.user.config_dir import MOST_CONFIG_BYTES, config_folder, read_text, toml_text

FLEET = "fleet"
_MOST_INSTANCE = 500
# No option of ssh, no character with a meaning for a shell.
_DESTINATION = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?[A-Za-z0-9_][A-Za-z0-9_.:%-]*")
_MOST_DESTINATION = 253


@dataclass(frozen=True, slots=True)
class FleetHosts:
    """Hosts of ssh by instance.

    Attributes:
        path: file in which the operator adds one.
    """

    path: Path
    hosts: Mapping[str, str] = field(default_factory=dict)

    def destination(self, instance: str) -> str | None:
        """Host of ssh; None if the operator has named none for this target."""
        return self.hosts.get(instance)

    def lines_to_add(self, instance: str) -> tuple[str, ...]:
        """Lines of the file that name one; `instance` is escaped."""
        return ("[fleet.hosts]", f'{toml_text(instance, ascii_only=True)} = "HOST"')


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
                "and . - _ : %"
            )
    return hosts


def is_destination(text: str) -> bool:
    """Whether it can be given to ssh as a host."""
    return len(text) <= _MOST_DESTINATION and _DESTINATION.fullmatch(text) is not None


def read_hosts(environ: Mapping[str, str], *configs: Path) -> FleetHosts:
    """Hosts of the configuration files, the later overriding; files that are missing have none.

    Raises:
        ValueError: a file has something else; the text names it.
    """
    hosts: dict[str, str] = {}
    for path in configs:
        try:
            hosts |= parse_hosts(parse_toml(read_text(path, MOST_CONFIG_BYTES)).get(FLEET, {}))
        except OSError:
            continue
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    return FleetHosts(config_folder(environ) / "config.toml", hosts)


def hosts_text(hosts: Mapping[str, str]) -> str:
    """Hosts as TOML that `parse_hosts` reads."""
    rows = [
        f"{toml_text(name, ascii_only=True)} = {toml_text(hosts[name])}" for name in sorted(hosts)
    ]
    return "\n".join(["[fleet.hosts]", *rows]) + "\n"
