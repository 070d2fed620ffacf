"""`nftop man`: manual pages in man(7) macros, made from the parsers."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Iterable

from nftop import __version__
from nftop.cli.command_tree import CommandSpec, OptionSpec, command_tree
from nftop.export.output import OK, USAGE, fail, put

_EXAMPLES = re.compile(r"(?ms)^examples:\n(.*?)(?:\n\n|\Z)")
_EXIT = re.compile(r"(?ms)^exit codes: (.*?)(?:\n\n|\Z)")
_ENVIRONMENT = (
    ("NO_COLOR", "no colours, unless --color always"),
    ("COLORFGBG", "ground of the terminal, for --theme auto"),
    ("XDG_CONFIG_HOME, XDG_DATA_HOME", "folders of the configuration and of recordings"),
)
_FILES = (
    ("/etc/nftop/config.toml", "options of the host"),
    ("~/.config/nftop/config.toml", "options of the user, which override the host's"),
    ("~/.config/nftop/rules.toml", "rules that were muted or changed on screen"),
    ("~/.config/nftop/profiles/", "profiles of cache classes"),
    ("~/.local/share/nftop/recordings/", "recordings"),
    ("~/.local/share/nftop/baselines/", "baselines with a name"),
    ("/var/lib/nftop/", "journal and history of changes of the host"),
)
_CODES = (
    ("0", "ok"), ("1", "failure"), ("2", "usage"), ("4", "a recording that can't be read"),
    ("5", "the host is not in the requested state: nftop recover"),
    ("128 + n", "ended by signal n"),
)  # fmt: skip


def man(options: argparse.Namespace) -> int:
    """`nftop man [COMMAND]`: a manual page on standard output; `--list`: the pages' names."""
    tree = command_tree(options.parser, options.demo_parser)
    pages = {"-".join(command.path): command for command in (tree, *tree.commands)}
    if options.listed:
        put(sys.stdout, "".join(f"{name}\n" for name in pages))
        return OK
    name = f"nftop-{options.page}" if options.page else "nftop"
    if name not in pages:
        return fail(f"no manual page of this name: {options.page}", USAGE)
    put(sys.stdout, manual_page(pages[name], tree))
    return OK


def manual_page(command: CommandSpec, tree: CommandSpec) -> str:
    """A page in man(7) macros: the command and what is below it; nftop's own names all commands."""
    name = "-".join(command.path)
    is_root = command.path == tree.path
    text = command.text or "a top for hosts that forward packets in software"
    lines = [
        f'.TH {name.upper()} 1 "" "nftop {__version__}" "nftop"',
        ".SH NAME",
        rf"{_roff(name)} \- {_roff(text.partition(': ')[0] if is_root else text)}",
        ".SH SYNOPSIS",
        ".nf",
        _roff(command.usage),
        ".fi",
        ".SH DESCRIPTION",
        *_prose(command.description or f"{text[:1].upper()}{text[1:]}."),
    ]
    codes, examples = _EXIT.findall(command.epilog), _EXAMPLES.findall(command.epilog)
    lines += _prose(_EXAMPLES.sub("", _EXIT.sub("", command.epilog)))
    if command.commands:
        lines += [".SH COMMANDS"]
        for below in command.commands:
            lines += [".TP", rf"\fB{_roff(below.path[-1])}\fR", _roff(below.text)]
    lines += [".SH OPTIONS", *_options(command.options)]
    # The simulated host's commands are those of nftop, which have pages of their own.
    has_details = not is_root and command.path != (*tree.path, "demo")
    for below in list(command.walk())[1:] if has_details else ():
        lines += [f'.SH "{_roff(" ".join(below.path).upper())}"', ".nf", _roff(below.usage)]
        texts = (below.description, below.epilog)
        lines += [".fi", *(text for item in texts if item for text in _prose(item))]
        lines += _options(below.options)
    if is_root:
        for title, rows in (("ENVIRONMENT", _ENVIRONMENT), ("FILES", _FILES)):
            lines += [f".SH {title}", *_tagged(rows)]
        lines += [".SH EXIT STATUS", *_tagged(_CODES)]
    for text in codes:
        lines += [".SH EXIT STATUS", *_prose(text)]
    for text in examples:
        lines += [".SH EXAMPLES", ".nf", *map(_roff, textwrap.dedent(text).splitlines()), ".fi"]
    return "\n".join([*lines, ".SH SEE ALSO", ",\n".join(_see_also(command, tree))]) + "\n"


def _see_also(command: CommandSpec, tree: CommandSpec) -> list[str]:
    pages = ["-".join(other.path) for other in (tree, *tree.commands) if other != command]
    return [rf"\fB{_roff(page)}\fR(1)" for page in pages]


def _options(options: Iterable[OptionSpec]) -> list[str]:
    lines, group = [], ""
    for option in options:
        if option.group != group:
            group = option.group
            lines += [f'.SS "{_roff(group)}"'] if group else []
        flags = ", ".join(rf"\fB{_roff(flag)}\fR" for flag in option.flags)
        value = rf"\fI{_roff(option.value)}\fR" if option.value else ""
        lines += [".TP", " ".join(filter(None, (flags, value))), _roff(option.text) or "."]
    return lines


def _tagged(rows: Iterable[tuple[str, str]]) -> list[str]:
    return [line for tag, text in rows for line in (".TP", rf"\fB{_roff(tag)}\fR", _roff(text))]


def _prose(text: str) -> list[str]:
    """Paragraphs; indented lines stay as they are."""
    lines: list[str] = []
    for paragraph in filter(None, re.split(r"\n\s*\n", text.strip("\n"))):
        verbatim = all(line.startswith("  ") for line in paragraph.splitlines()[1:])
        if verbatim and "\n" in paragraph:
            lines += [".PP", ".nf", *map(_roff, paragraph.splitlines()), ".fi"]
        else:
            lines += [".PP", _roff(" ".join(paragraph.split()))]
    return lines[1:] if lines[:1] == [".PP"] else lines


def _roff(text: str) -> str:
    """Text in which roff finds no request and no escape; `-` is the character of options."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    return re.sub(r"(?m)^([.'])", r"\\&\1", escaped)
