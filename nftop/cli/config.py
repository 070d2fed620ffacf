"""Configuration files of the operator: permanent command-line options; the command `config`.

`/etc/nftop/config.toml` for a host, then the operator's own `~/.config/nftop/config.toml`; the
command line overrides both. No key unlocks changes of a host, or selects another host.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nftop.export.output import OK, USAGE, fail, put, warn
from nftop.model.terminal_text import safe_line
from nftop.store.user.config_dir import MOST_CONFIG_BYTES, config_folder, read_text, toml_text
from nftop.store.user.fleet_hosts import FLEET, FleetHosts, hosts_text, read_hosts

if TYPE_CHECKING:
    from nftop.store.user.rules import RulesFile

MAX_BYTES = MOST_CONFIG_BYTES
HOST_FILE = Path("/etc/nftop/config.toml")


class ConfigKey(NamedTuple):
    """One key.

    Attributes:
        option: of the command line, that takes it.
        kind: of the value; `texts` is an array of texts, each an option of its own.
        default: the command line's.
        hardware: the simulated host has no such option.
    """

    name: str
    option: str
    kind: str
    default: str
    hardware: bool = False


KEYS: tuple[ConfigKey, ...] = (
    ConfigKey("interval_s", "-d", "number", "1.0"),
    ConfigKey("cpu_list", "--cpu-list", "text", '""'),
    ConfigKey("quiet_cpus", "--quiet-cpus", "text", '""'),
    ConfigKey("tma_level", "--tma-level", "number", "2"),
    ConfigKey("memory_peak_gbs", "--memory-peak", "number", "0"),
    ConfigKey("queue_map", "--queue-map", "texts", "[]"),
    ConfigKey("color", "--color", "text", '"auto"'),
    ConfigKey("theme", "--theme", "text", '"auto"'),
    ConfigKey("ascii", "--ascii", "flag", "false"),
    ConfigKey("utc", "--utc", "flag", "false"),
    ConfigKey("pmu", "--pmu", "text", '"auto"', hardware=True),
    ConfigKey("pqos", "--pqos", "text", '"auto"', hardware=True),
)
# Tables that have readers of their own: `store.user.rules`, `store.user.fleet_hosts`.
TABLES = ("rules", FLEET)
_BY_NAME = {key.name: key for key in KEYS}


class ConfigSetting(NamedTuple):
    """A key that a file sets, and the equivalent arguments."""

    key: ConfigKey
    value: Any
    arguments: tuple[str, ...]
    file: Path


class ConfigError(ValueError):
    """An invalid file; the text names it."""


def files(environ: Mapping[str, str]) -> tuple[Path, Path]:
    """Paths of the files, which need not exist; the later overrides the former."""
    return HOST_FILE, config_folder(environ) / "config.toml"


def read_config(
    paths: Sequence[Path], taken: Callable[[Sequence[str]], object]
) -> list[ConfigSetting]:
    """Settings of the files, each key once; files that are missing or not readable are left out.

    `taken` raises ValueError, with why, if the command line does not take some arguments. Raises
    ConfigError.
    """
    settings: dict[str, ConfigSetting] = {}
    for path in paths:
        try:
            table = _table(read_text(path, MAX_BYTES))
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from None
        except ValueError as error:
            raise ConfigError(f"{path}: {error}") from None
        for name, value in table.items():
            if name not in TABLES:
                settings[name] = _setting(path, name, value, taken)
    return list(settings.values())


def _table(text: str) -> dict[str, Any]:
    from nftop.model.bounded_toml import parse_toml  # noqa: PLC0415 - most hosts have no file

    return parse_toml(text)


def _setting(
    path: Path, name: str, value: Any, taken: Callable[[Sequence[str]], object]
) -> ConfigSetting:
    key = _BY_NAME.get(name)
    if key is None:
        known = ", ".join(_BY_NAME)
        raise ConfigError(f"{path}: there is no {name!r}; there are {known}")
    arguments = _arguments(key, value)
    if arguments is None:
        wanted = {"number": "a number", "text": "a text", "texts": "an array of texts"}
        raise ConfigError(f"{path}: {name} is to be {wanted.get(key.kind, 'true or false')}")
    try:
        taken(arguments)
    except ValueError as error:
        raise ConfigError(f"{path}: {name}: {error}") from None
    return ConfigSetting(key, value, arguments, path)


def _arguments(key: ConfigKey, value: Any) -> tuple[str, ...] | None:
    """Equivalent arguments; None if the value is of another kind.

    Option and value are one word, so that no value is taken for an option.
    """
    if key.kind == "flag":
        return ((key.option,) if value else ()) if isinstance(value, bool) else None
    if key.kind == "number":
        whole = isinstance(value, (int, float)) and not isinstance(value, bool)
        return (_joined(key, str(value)),) if whole else None
    texts = value if key.kind == "texts" else [value]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        return None
    return tuple(_joined(key, text) for text in texts if text)


def _joined(key: ConfigKey, value: str) -> str:
    return f"{key.option}{'=' if key.option.startswith('--') else ''}{value}"


def open_rules(*, for_session: bool = False) -> RulesFile:
    """The operator's settings of rules.

    `for_session`: as `rules_file`. Raises ConfigError.
    """
    from nftop.store.user.rules import rules_file  # noqa: PLC0415 - it imports all rules

    try:
        return rules_file(os.environ, *files(os.environ), for_session=for_session)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def open_fleet_hosts() -> FleetHosts:
    """The operator's hosts of a fleet. Raises ConfigError."""
    try:
        return read_hosts(os.environ, *files(os.environ))
    except ValueError as error:
        raise ConfigError(str(error)) from None


def show(options: argparse.Namespace) -> int:
    """The command `config`: the files have been read and checked with the command line."""
    from nftop.store.user.chosen_columns import columns_file, columns_text  # noqa: PLC0415 - seldom
    from nftop.store.user.rules import rules_text  # noqa: PLC0415 - it imports all rules

    try:
        rules, fleet = open_rules(), open_fleet_hosts()
    except ConfigError as error:
        return fail(str(error), USAGE)
    if rules.problem:
        warn(f"nftop: {rules.problem}")
    put(sys.stdout, shown(options.settings, files(os.environ)))
    if rules.settings.rows or rules.settings.acknowledged:
        put(sys.stdout, rules_text(rules.settings, head=safe_line(f"# {rules.path}") + "\n"))
    if fleet.hosts:
        put(sys.stdout, hosts_text(fleet.hosts))
    columns = columns_file(os.environ)
    if columns.chosen:
        put(sys.stdout, safe_line(f"# {columns.path}") + "\n" + columns_text(columns.chosen))
    return OK


def shown(settings: Sequence[ConfigSetting], paths: Sequence[Path]) -> str:
    """Every key as TOML, with its value and the file that sets it."""
    by_name = {item.key.name: item for item in settings}
    # A line feed in a path would end the comment.
    lines = [safe_line(f"# {path}{_state(path)}") for path in paths]
    for key in KEYS:
        setting = by_name.get(key.name)
        value = key.default if setting is None else toml_value(setting.value)
        origin = "default" if setting is None else safe_line(str(setting.file))
        lines.append(f"{key.name} = {value}  # {origin}")
    return "\n".join(lines) + "\n"


def _state(path: Path) -> str:
    try:
        read_text(path, MAX_BYTES)
    except FileNotFoundError:
        return ": not there"
    except OSError as error:
        return f": {error.strerror}"
    return ""


def toml_value(value: Any) -> str:
    """A value as TOML writes it: a flag, a number, a text or an array of texts."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    return toml_text(value) if isinstance(value, str) else str(value)
