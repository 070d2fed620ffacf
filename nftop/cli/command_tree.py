"""Commands and options of the parsers as data, for completions and manual pages."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from nftop.cli.parsers.common import Parser
from nftop.model.struct import dataclass

_USAGE = "usage: "
# Metavars of values that are files or folders.
_FILE_VALUE = re.compile(r"(?:FILE|PATH|[AB])(?:\[@FROM,TO\])?")


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """An option, or a positional argument (`flags` is empty).

    Attributes:
        value: its value's name in help texts, "" if it takes none.
        choices: its values, empty if they are not listed.
        is_file: the value is a file or folder.
        group: title of its group, "" for the parser's own.
    """

    flags: tuple[str, ...]
    value: str
    choices: tuple[str, ...]
    is_file: bool
    text: str
    group: str = ""


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """A command.

    Attributes:
        path: its words, (`nftop`, `cat`, `set`).
        text: one line, "" for nftop itself.
        usage: its synopsis, as argparse prints it.
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
        usage=parser.format_usage()
        .removeprefix(_USAGE)
        .replace("\n" + " " * len(_USAGE), "\n")
        .strip(),
        description=parser.description or "",
        epilog=parser.epilog or "",
        options=tuple(options),
        commands=tuple(commands),
    )


def _option(action: argparse.Action, text: str, group: str) -> OptionSpec:
    choices = tuple(str(choice) for choice in action.choices or ())
    value = ""
    if action.nargs != 0:
        listed = f"{{{','.join(choices)}}}" if choices else action.dest.upper()
        value = str(action.metavar or listed)
    return OptionSpec(
        flags=tuple(action.option_strings),
        value=value,
        choices=choices,
        is_file=_FILE_VALUE.fullmatch(value) is not None,
        text=text,
        group=group,
    )
