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

# Of bash and zsh: a word completes the name of a command, or is an option whose value comes next.
_WORD = """\
        if [[ -n $skip ]]; then skip=''; continue; fi
        case "$command $word" in
        {commands})
            command="$command $word" ;;
        esac
        case "$command:$word" in
        {values})
            skip=1 ;;
        esac"""
_BASH = """\
# bash completion of nftop {version}, made by `nftop completion bash`
_nftop() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}}
    local command=nftop skip='' word i
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${{COMP_WORDS[i]}}
{word}
    done
    COMPREPLY=()
    if [[ $skip ]]; then
        case "$command:$prev" in
{replies}
        *) ;;
        esac
        return
    fi
    case "$command" in
{words}
    *) ;;
    esac
    case "$command" in
{files}
        [[ $cur == -* ]] ||
            mapfile -t -O "${{#COMPREPLY[@]}}" COMPREPLY < <(compgen -f -- "$cur") ;;
    *) ;;
    esac
}}
complete -o filenames -F _nftop nftop
"""
_ZSH = """\
#compdef nftop
# zsh completion of nftop {version}, made by `nftop completion zsh`
_nftop() {{
    local command=nftop skip='' word
    local -a items
    for word in "${{(@)words[2,CURRENT-1]}}"; do
{word}
    done
    if [[ -n $skip ]]; then
        case "$command:${{words[CURRENT-1]}}" in
{replies}
        esac
        return
    fi
    case "$command" in
{words}
    esac
    _describe -t commands "$command" items
    case "$command" in
{files}
        _files ;;
    esac
}}
if [[ $funcstack[1] == _nftop ]]; then
    _nftop "$@"
else
    compdef _nftop nftop
fi
"""
_FISH = """\
# fish completion of nftop {version}, made by `nftop completion fish`
function __nftop_command
    set -l command nftop
    set -l skip
    set -l tokens (commandline -opc)
    for word in $tokens[2..-1]
        if test -n "$skip"
            set skip
            continue
        end
        switch "$command $word"
            case {commands}
                set command "$command $word"
        end
        switch "$command:$word"
            case {values}
                set skip 1
        end
    end
    test "$command" = "$argv[1]"
end
complete -c nftop -f
{rules}
"""


def completion(options: argparse.Namespace) -> int:
    """`nftop completion SHELL`: the shell's completion script on standard output."""
    put(sys.stdout, SHELLS[options.shell](command_tree(options.parser, options.demo_parser)))
    return OK


def bash(tree: CommandSpec) -> str:
    """Completion script of bash."""
    words = [f"{_case(command)} {_compgen(_words(command))} ;;" for command in tree.walk()]
    files = 'mapfile -t COMPREPLY < <(compgen -f -- "$cur")'
    return _BASH.format(**_cases(tree, _compgen, files), words="\n".join(words))


def zsh(tree: CommandSpec) -> str:
    """Completion script of zsh, with descriptions."""
    words = []
    for command in tree.walk():
        listed = _listed(
            f"{word.replace(':', chr(92) + ':')}:{text}" for word, text in _described(command)
        )
        words.append(f"{_case(command)} items=({listed}) ;;")
    choices = _cases(tree, lambda choices: f"compadd -- {_listed(choices)}", "_files")
    return _ZSH.format(**choices, words="\n".join(words))


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
            flags = " ".join(_fish_flag(flag) for flag in option.flags)
            values = f" -a {_fish(' '.join(option.choices))}" if option.choices else ""
            takes = ("" if not option.value else " -r -F" if option.is_file else " -x") + values
            rules.append(f"{here} {flags}{takes} -d {_fish(_brief(option.text))}")
    return _FISH.format(
        version=__version__,
        commands=" ".join(map(_fish, _paths(tree))),
        values=" ".join(map(_fish, _valued(tree))),
        rules="\n".join(rules),
    )


SHELLS: Mapping[str, Callable[[CommandSpec], str]] = {"bash": bash, "zsh": zsh, "fish": fish}


def _cases(tree: CommandSpec, reply: Callable[[Iterable[str]], str], files: str) -> dict[str, str]:
    """What bash and zsh scripts have in common: patterns of `case`.

    `reply`: completes a value that has choices; `files`: completes a file's name.
    """
    replies = []
    for command in tree.walk():
        for option in command.options:
            cases = "|".join(_quoted(command, flag) for flag in option.flags)
            if cases and (option.choices or option.is_file):
                done = reply(option.choices) if option.choices else files
                replies.append(f"        {cases}) {done} ;;")
    of_files = [
        command
        for command in tree.walk()
        if any(option.is_file and not option.flags for option in command.options)
    ]
    paths, valued = ("|".join(map(shlex.quote, words)) for words in (_paths(tree), _valued(tree)))
    return {
        "version": __version__,
        "word": _WORD.format(commands=paths, values=valued),
        "replies": "\n".join(replies),
        "files": f"    {'|'.join(shlex.quote(' '.join(command.path)) for command in of_files)})",
    }


def _case(command: CommandSpec) -> str:
    return f"    {shlex.quote(' '.join(command.path))})"


def _listed(words: Iterable[str]) -> str:
    return " ".join(map(shlex.quote, words))


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


def _quoted(command: CommandSpec, flag: str) -> str:
    return shlex.quote(f"{' '.join(command.path)}:{flag}")


def _compgen(words: Iterable[str]) -> str:
    return f'mapfile -t COMPREPLY < <(compgen -W {shlex.quote(" ".join(words))} -- "$cur")'


def _words(command: CommandSpec) -> list[str]:
    return [word for word, _ in _described(command)]


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


def _fish_flag(flag: str) -> str:
    return f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
