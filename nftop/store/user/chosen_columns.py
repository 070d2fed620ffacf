"""The operator's choice of table columns, in nftop's own file beside the configuration.

    [columns]
    cores = ["cpu", "thread", "cpp"]   # of the Cores screen, from left to right

The file is `columns.toml`; `config.toml` is the operator's and never written.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nftop.model.bounded_toml import parse_toml
from nftop.model.struct import dataclass, field
from nftop.store.folders import Person, caller
from nftop.store.user.config_dir import config_folder, read_text, replace_file

_MOST_BYTES = 1 << 16
_MOST_COLUMNS, _LONGEST_KEY = 200, 100
_HEAD = "# Written by nftop: columns chosen on screen.\n"


@dataclass(slots=True)
class ColumnsFile:
    """File with the chosen columns of tables.

    Attributes:
        path: of the file.
        owner: of a new file, under sudo; None: the process' user.
        chosen: keys of columns from left to right, by table.
    """

    path: Path
    owner: Person | None = None
    chosen: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def keep(self, chosen: Mapping[str, tuple[str, ...]]) -> None:
        """Keep these choices; tables without one are left out. Raises OSError: the old stay."""
        replace_file(self.path, (_HEAD + columns_text(chosen)).encode(), self.owner)
        self.chosen = dict(chosen)


def columns_text(chosen: Mapping[str, tuple[str, ...]]) -> str:
    """Choices as TOML that `columns_file` reads."""
    rows = (
        f"{table} = [{', '.join(map(_quoted, keys))}]\n" for table, keys in chosen.items() if keys
    )
    return "[columns]\n" + "".join(rows)


def columns_file(environ: Mapping[str, str]) -> ColumnsFile:
    """The file with its choices; none of a file that is missing, unreadable or damaged."""
    path = config_folder(environ) / "columns.toml"
    try:
        table = parse_toml(read_text(path, _MOST_BYTES)).get("columns", {})
    except (OSError, ValueError):
        table = {}
    rows = table.items() if isinstance(table, dict) else ()
    chosen = {name: tuple(keys) for name, keys in rows if _is_choice(name, keys)}
    return ColumnsFile(path, caller(environ), chosen)


def _is_choice(name: str, keys: object) -> bool:
    """Whether a table's entry is an array of keys as nftop writes them."""
    return (
        name.isidentifier()
        and isinstance(keys, list)
        and len(keys) <= _MOST_COLUMNS
        and all(isinstance(key, str) and _is_key(key) for key in keys)
    )


def _quoted(key: str) -> str:
    return f'"{key}"'


def _is_key(text: str) -> bool:
    return 0 < len(text) <= _LONGEST_KEY and text.replace(".", "_").isidentifier()
