"""Commands and options of the parsers as data, for completions and manual pages."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping

from nftop.cli.parsers.cat import file_name
from nftop.cli.parsers.common import Parser
from nftop.export.tables.tables import TABLES
from nftop.model.struct import dataclass
from nftop.render.pages.explain import known_metrics, known_rules
from nftop.sim import processor, scenario
from nftop.uarch.table import uarch_names

_USAGE, _WIDTH = "usage: ", 78
# Values of options and arguments that parsers check later, by where argparse stores them.
_VALUES: Mapping[str, Callable[[], Iterable[str]]] = {
    "scenario": scenario.names, "simulated_host": processor.names, "uarch": uarch_names,
    "names": lambda: (*known_metrics(), *known_rules()), "table": lambda: TABLES,
    "on": lambda: ("finding", *(f"finding={rule}" for rule in known_rules())),
}  # fmt: skip
_LISTS: Mapping[str, Callable[[], Iterable[str]]] = {"on": known_rules, "table": lambda: TABLES}


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """An option, or a positional argument (`flags` is empty).

    Attributes:
        value: its value's name in help texts, "" if it takes none.
        choices: its values, empty if they are not listed. more: further ones, behind a comma.
        is_file: the value is a file or folder.
        group: title of its group, "" for the parser's own.
    """

    flags: tuple[str, ...]
    value: str
    choices: tuple[str, ...]
    is_file: bool
    text: str
    group: str = ""
    more: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """A command.

    Attributes:
        path: its words, (`nftop`, `cat`, `set`).
        text: one line, "" for nftop itself.
        usage: its synopsis, as argparse prints it on a terminal of 80 columns.
    """

    path: tuple[str, ...]
    text: str
    usage: str
    description: str
    epilog: str
    options: tuple[OptionSpec, ...]
    commands: tuple[CommandSpec, ...]

    def walk(self) -> Iterator[CommandSpec]:
        """This command and all below it."""
        yield self
        for command in self.commands:
            yield from command.walk()


def command_tree(parser: argparse.ArgumentParser, demo: argparse.ArgumentParser) -> CommandSpec:
    """All commands of nftop; `demo` is the parser of the simulated host's."""
    return _spec(parser, ("nftop",), "", {("nftop", "demo"): demo})


def _spec(
    parser: argparse.ArgumentParser,
    path: tuple[str, ...],
    text: str,
    others: dict[tuple[str, ...], argparse.ArgumentParser],
) -> CommandSpec:
    options: list[OptionSpec] = []
    commands: list[CommandSpec] = []
    if isinstance(parser, Parser):
        parser.complete()
    formatter = parser._get_formatter()  # noqa: SLF001
    own = (parser._positionals, parser._optionals)  # noqa: SLF001 - argparse has no public names
    for group in parser._action_groups:  # noqa: SLF001
        title = "" if group in own else group.title or ""
        for action in group._group_actions:  # noqa: SLF001
            if action.help == argparse.SUPPRESS:
                continue
            if not isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
                about = formatter._expand_help(action) if action.help else ""  # noqa: SLF001
                options.append(_option(action, about, title))
                continue
            for choice in action._choices_actions:  # noqa: SLF001
                below = (*path, choice.dest)
                inner = others[below] if below in others else action.choices[choice.dest]
                commands.append(_spec(inner, below, choice.help or "", others))
    return CommandSpec(
        path=path,
        text=text,
        usage=_usage(parser),
        description=parser.description or "",
        epilog=parser.epilog or "",
        options=tuple(options),
        commands=tuple(commands),
    )


def _usage(parser: argparse.ArgumentParser) -> str:
    formatter = parser._get_formatter()  # noqa: SLF001
    formatter._width = _WIDTH  # noqa: SLF001
    formatter.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups)  # noqa: SLF001
    usage = formatter.format_help().removeprefix(_USAGE)
    return usage.replace("\n" + " " * len(_USAGE), "\n").strip()


def _option(action: argparse.Action, text: str, group: str) -> OptionSpec:
    choices = tuple(str(choice) for choice in action.choices or ())
    value = ""
    if action.nargs != 0:
        listed = f"{{{','.join(choices)}}}" if choices else action.dest.upper()
        value = str(action.metavar or listed)
        choices = choices or tuple(_VALUES.get(action.dest, tuple)())
    return OptionSpec(
        flags=tuple(action.option_strings),
        value=value,
        choices=choices,
        is_file=action.type is file_name,
        text=text,
        group=group,
        more=tuple(_LISTS.get(action.dest, tuple)()),
    )
