"""`nftop completion`: completion scripts of bash, zsh and fish, made from the parsers."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping

from nftop import __version__
from nftop.cli.command_tree import CommandSpec, command_tree
from nftop.export.output import OK, put
from nftop.model.data_files import data_file
from nftop.model.struct import dataclass


@dataclass(frozen=True, slots=True)
class _Dialect:
    """What bash and zsh have different.

    Attributes:
        head: file of the script's begin.
        before: the words before the cursor; `previous` is the last of them.
        offer: the command that offers words, from the words.
        offer_list: the same from first words of a list with commas, and from those behind a comma.
        describe: the same from pairs of word and description.
        files: the command that offers files, `more_files` besides what is offered already.
    """

    head: str
    declarations: str
    before: str
    previous: str
    offer: Callable[[Iterable[str]], str]
    offer_list: Callable[[Iterable[str], Iterable[str]], str]
    describe: Callable[[Iterable[tuple[str, str]]], str]
    files: str
    more_files: str
    show: str
    tail: str


def completion(options: argparse.Namespace) -> int:
    """`nftop completion SHELL`: the shell's completion script on standard output."""
    put(sys.stdout, SHELLS[options.shell](command_tree(options.parser, options.demo_parser)))
    return OK


def bash(tree: CommandSpec) -> str:
    """Completion script of bash."""
    return _script(tree, _BASH)


def zsh(tree: CommandSpec) -> str:
    """Completion script of zsh, with descriptions."""
    return _script(tree, _ZSH)


def _script(tree: CommandSpec, shell: _Dialect) -> str:
    replies, words, files = [], [], []
    for command in tree.walk():
        path = " ".join(command.path)
        words.append(f"    {_pattern([path])}) {shell.describe(_described(command))} ;;")
        if any(option.is_file and not option.flags for option in command.options):
            files.append(path)
        for option in command.options:
            if option.flags and (option.choices or option.is_file):
                reply = shell.offer(option.choices) if option.choices else shell.files
                reply = shell.offer_list(option.choices, option.more) if option.more else reply
                flags = _pattern(f"{path}:{flag}" for flag in option.flags)
                replies.append(f"        {flags}) {reply} ;;")
    # One walk through the words before the cursor, one table of what may follow.
    return _template("completion.sh.in").format(
        head=_template(shell.head).format(version=__version__),
        declarations=shell.declarations,
        before=shell.before,
        commands=_pattern(_paths(tree)),
        values=_pattern(_valued(tree)),
        previous=shell.previous,
        replies="\n".join(replies),
        words="\n".join(words),
        show=shell.show,
        files=_pattern(files),
        more_files=shell.more_files,
        tail=shell.tail,
    )


def fish(tree: CommandSpec) -> str:
    """Completion script of fish, with descriptions."""
    rules = []
    for command in tree.walk():
        here = f"complete -c nftop -n {_fish('__nftop_command ' + _fish(' '.join(command.path)))}"
        rules += [
            f"{here} -a {_fish(below.path[-1])} -d {_fish(_brief(below.text))}"
            for below in command.commands
        ]
        for option in command.options:
            if not option.flags:
                if option.choices:
                    rules.append(f"{here} -a {_fish(' '.join(option.choices))}")
                if option.is_file:
                    rules.append(f"{here} -F")
                continue
            flags = " ".join(
                f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
                for flag in option.flags
            )
            values = f" -a {_fish(' '.join(option.choices))}" if option.choices else ""
            if option.more:
                values = f" -a {_fish(f'({_list_words(option.choices, option.more)})')}"
            takes = ("" if not option.value else " -r -F" if option.is_file else " -x") + values
            rules.append(f"{here} {flags}{takes} -d {_fish(_brief(option.text))}")
    return _template("completion.fish.in").format(
        version=__version__,
        commands=" ".join(map(_fish, _paths(tree))),
        values=" ".join(map(_fish, _valued(tree))),
        rules="\n".join(rules),
    )


def _template(name: str) -> str:
    """A script whose fields in braces are for `str.format`."""
    return data_file(__package__, name).decode()


SHELLS: Mapping[str, Callable[[CommandSpec], str]] = {"bash": bash, "zsh": zsh, "fish": fish}


def _paths(tree: CommandSpec) -> list[str]:
    return [" ".join(command.path) for command in tree.walk() if command.path != tree.path]


def _valued(tree: CommandSpec) -> list[str]:
    """`command:option` of every option that takes a value."""
    return [
        f"{' '.join(command.path)}:{flag}"
        for command in tree.walk()
        for option in command.options
        if option.value
        for flag in option.flags
    ]


def _pattern(words: Iterable[str]) -> str:
    """Pattern of `case` that matches one of the words."""
    return "|".join(map(shlex.quote, words))


def _list_words(words: Iterable[str], more: Iterable[str]) -> str:
    """Call of the script's function that offers the words of a list with commas."""
    return f"__nftop_list '{' '.join(words)}' '{' '.join(more)}'"


def _compgen(words: Iterable[str]) -> str:
    return f'mapfile -t COMPREPLY < <(compgen -W {shlex.quote(" ".join(words))} -- "$cur")'


def _zsh_items(described: Iterable[tuple[str, str]]) -> str:
    """Array for `_describe`, in which a colon ends the word."""
    items = (f"{word.replace(':', chr(92) + ':')}:{text}" for word, text in described)
    return f"items=({' '.join(map(shlex.quote, items))})"


_BASH = _Dialect(
    head="completion.bash.in",
    declarations="local cur; local -a words; __nftop_words; COMPREPLY=()",
    before='"${words[@]:1}"',
    previous="${words[-1]}",
    offer=_compgen,
    offer_list=_list_words,
    describe=lambda described: _compgen(word for word, _ in described),
    files='mapfile -t COMPREPLY < <(compgen -f -- "$cur")',
    more_files="[[ $cur == -* ]] || "
    'mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$cur")',
    show="# COMPREPLY has them",
    tail="complete -o filenames -F _nftop nftop",
)
_ZSH = _Dialect(
    head="completion.zsh.in",
    declarations="local -a items",
    before='"${(@)words[2,CURRENT-1]}"',
    previous="${words[CURRENT-1]}",
    offer=lambda words: f"compadd -- {' '.join(map(shlex.quote, words))}",
    offer_list=_list_words,
    describe=_zsh_items,
    files="_files",
    more_files="_files",
    show='_describe -t commands "$command" items',
    tail="if [[ $funcstack[1] == _nftop ]]; then\n"
    '    _nftop "$@"\nelse\n    compdef _nftop nftop\nfi',
)


def _described(command: CommandSpec) -> list[tuple[str, str]]:
    """What may come next, with a short description: commands, positional choices, options."""
    next_words = [(below.path[-1], _brief(below.text)) for below in command.commands]
    for option in command.options:
        words = option.flags or option.choices
        next_words += [(word, _brief(option.text)) for word in words]
    return next_words


def _brief(text: str) -> str:
    """The text up to its first stop, colon or bracket."""
    return textwrap.shorten(re.split(r"[;:(]|\. ", text)[0].strip(), 60, placeholder="...")


def _fish(text: str) -> str:
    r"""Quoted for fish, in which only \ and ' are special within single quotes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
