"""Counts of what makes the tree hard to read, for `python -m tests.house`; -v lists them as well.

A module is a non-empty Python file of the package. Names are read from the syntax trees.
"""

from __future__ import annotations

import ast
import asyncio
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

from tests.guard import imports

ROOT = Path(__file__).parents[1]
# Words that say too little, or mean another thing each time, to be a name or a part of one.
BANNED = frozenset(
    "told tell tells telling untold said say says saying unsaid found each who whose whoever "
    "thing things place places part parts parted looked looks looking asked asks asking made "
    "there beside around deed deeds deaf mute twin twins desk".split()
)

# Fields of recordings and labels of metrics, whose names are part of a format: `module name`.
PUBLIC = frozenset({"sample lcores_told", "rdt parts", "fleet twin"})


@dataclass(frozen=True, slots=True)
class Counts:
    """One field per line that is printed."""

    lines: int
    modules: int
    single_importer: int  # modules that exactly one other module imports
    single_importer_in_folder: int  # of those, the ones whose importer is in the same folder
    top_level: int  # folders and modules directly in the package
    duplicate_class_names: int
    banned_names: int
    long_files: int  # more than 600 lines
    long_functions: int  # more than 60 lines
    kept_from_formatter: int  # lines that the formatter leaves as they are, outside of tables


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def modules(package: Path) -> dict[str, Path]:
    """Paths of the package's modules by dotted name; a folder's name is that of its __init__."""
    return {
        ".".join(
            (path.parent if path.name == "__init__.py" else path.with_suffix(""))
            .relative_to(package.parent)
            .parts
        ): path
        for path in package.rglob("*.py")
    }


def importers(paths: Mapping[str, Path]) -> dict[str, set[str]]:
    """By module, the other modules that import it or a name of it."""
    result: dict[str, set[str]] = defaultdict(set)
    for module, path in paths.items():
        for _, _, full in imports(tree(path)):
            name = full if full in paths else full.rpartition(".")[0]
            if name in paths and name != module:
                result[name].add(module)
    return result


def single_importers(paths: Mapping[str, Path]) -> dict[str, str]:
    """By module that only one other imports, that other."""
    return {
        module: next(iter(users))
        for module, users in importers(paths).items()
        if len(users) == 1 and paths[module].stat().st_size
    }


def in_folder(single: Mapping[str, str]) -> list[str]:
    """Modules whose only importer is in their own folder."""
    return sorted(a for a, b in single.items() if a.rpartition(".")[0] == b.rpartition(".")[0])


def class_names(paths: Mapping[str, Path]) -> dict[str, list[str]]:
    """By public name of a class or type alias, also a plain `Name = X[...]`, its modules."""
    result: dict[str, list[str]] = defaultdict(list)
    for module, path in paths.items():
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef):
                name = node.name
            elif isinstance(node, ast.AnnAssign) and "TypeAlias" in ast.dump(node.annotation):
                name = ast.unparse(node.target)
            elif isinstance(node, ast.Assign) and _is_type(node.value):
                name = ast.unparse(node.targets[0])
                if not re.fullmatch(r"[A-Z]\w*[a-z]\w*", name):
                    continue  # a constant: an entry of a table
            else:
                continue
            if not name.startswith("_"):
                result[name].append(module)
    return result


def _is_type(value: ast.expr) -> bool:
    """Whether an assigned value may be a type: `X[...]`, `X | Y`, a NewType."""
    return (
        isinstance(value, ast.Subscript)
        or (isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr))
        or (isinstance(value, ast.Call) and ast.unparse(value.func) == "NewType")
    )


def names(module: ast.Module) -> Iterator[tuple[str, int]]:
    """Every name that a module defines or binds, with its line."""
    for node in ast.walk(module):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id, line
        elif isinstance(node, ast.arg):
            yield node.arg, line
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name, line
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, line
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname, line
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name, line
        elif (isinstance(node, ast.keyword) and node.arg == "words") or (
            isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "words"
        ):
            yield from _keys(node.value)


def _keys(value: ast.expr) -> Iterator[tuple[str, int]]:
    """Keys of a dict of a finding's words: names in its text."""
    for key in value.keys if isinstance(value, ast.Dict) else ():
        if isinstance(key, ast.Constant):
            yield str(key.value), key.lineno


def words(name: str) -> set[str]:
    """Words of a name: `told_by` and `ToldBy` have two."""
    return set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()))


def banned(paths: Mapping[str, Path]) -> list[str]:
    """Definitions and modules whose names have a banned word, as `file:line name`."""
    result = [
        f"{path}: {module}"
        for module, path in paths.items()
        if words(module.rpartition(".")[2]) & BANNED
    ]
    for path in paths.values():
        result += [
            f"{path}:{line} {name}"
            for name, line in names(tree(path))
            if words(name) & BANNED and f"{path.stem} {name}" not in PUBLIC
        ]
    return sorted(result)


def long_functions(paths: Mapping[str, Path], most: int = 60) -> list[str]:
    """Functions of more lines than `most`, as `file:line name`."""
    return [
        f"{path}:{node.lineno} {node.name}"
        for path in paths.values()
        for node in ast.walk(tree(path))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (node.end_lineno or node.lineno) - node.lineno >= most
    ]


def kept_from_formatter(paths: Mapping[str, Path]) -> list[str]:
    """Lines with `# fmt:`, as `file:line`, other than those of a table or a decorator.

    A table is assigned in a module and has four rows or more.
    """
    result = []
    for path in paths.values():
        if "# fmt:" not in path.read_text():
            continue
        with tokenize.open(path) as source:
            tokens = list(tokenize.generate_tokens(source.readline))
        comments = (token for token in tokens if token.type == tokenize.COMMENT)
        marked = {token.start[0] for token in comments if "fmt:" in token.string}
        if marked:
            result += [f"{path}:{at}" for at in sorted(marked - _table_lines(tree(path)))]
    return result


def _table_lines(module: ast.Module) -> set[int]:
    result = set[int]()
    for node in module.body:
        tables: list[ast.expr | ast.stmt] = list(getattr(node, "decorator_list", ()))
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and _rows(node.value) >= 4:
            tables.append(node)
        for table in tables:
            result.update(range(table.lineno, (table.end_lineno or table.lineno) + 1))
    return result


def _rows(value: ast.expr | None) -> int:
    """Rows of a literal, or of the one that a call takes."""
    if isinstance(value, ast.Call) and value.args:
        value = value.args[0]
    if isinstance(value, ast.Dict):
        return len(value.keys)
    return len(value.elts) if isinstance(value, (ast.Tuple, ast.List, ast.Set)) else 0


def count(package: Path) -> Counts:
    paths = modules(package)
    lengths = [len(path.read_text().splitlines()) for path in paths.values()]
    single = single_importers(paths)
    return Counts(
        lines=sum(lengths),
        modules=sum(1 for length in lengths if length),
        single_importer=len(single),
        single_importer_in_folder=len(in_folder(single)),
        top_level=sum(
            1
            for entry in package.iterdir()
            if (entry.suffix == ".py" and entry.name != "__init__.py")
            or (entry / "__init__.py").exists()
        ),
        duplicate_class_names=sum(1 for sites in class_names(paths).values() if len(sites) > 1),
        banned_names=len(banned(paths)),
        long_files=sum(1 for length in lengths if length > 600),
        long_functions=len(long_functions(paths)),
        kept_from_formatter=len(kept_from_formatter(paths)),
    )


def main() -> int:
    """Prints the counts; with -v also what is behind them."""
    package = ROOT / "nftop"
    counts = count(package)
    for field in fields(counts):
        print(f"{field.name:26}{getattr(counts, field.name):7,}")
    print(f"{'banned_names_in_tests':26}{len(banned(modules(ROOT / 'tests'))):7,}")
    from tests.walks import counter_to_screen, key_to_resctrl

    for walk in (counter_to_screen, key_to_resctrl):
        print(f"{'files_' + walk.__name__:26}{len(asyncio.run(walk())):7,}")
    if "-v" in sys.argv:
        paths = modules(package)
        print(*in_folder(single_importers(paths)), sep="\n")
        print(*banned(paths), sep="\n")
        print(*kept_from_formatter(paths), sep="\n")
        print(*long_functions(paths), sep="\n")
        print(*banned(modules(ROOT / "tests")), sep="\n")
        print(
            *(f"{k}: {', '.join(v)}" for k, v in class_names(paths).items() if len(v) > 1), sep="\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
