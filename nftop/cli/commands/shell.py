"""The commands `completion` and `man`: what shells and man(1) need, made from the parsers."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping

from nftop import __version__
from nftop.export.output import OK, USAGE, fail, put
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
    formatter = parser._get_formatter()  # noqa: SLF001
    own = (parser._positionals, parser._optionals)  # noqa: SLF001 - argparse has no public names
    for group in parser._action_groups:  # noqa: SLF001
        title = "" if group in own else group.title or ""
        for action in group._group_actions:  # noqa: SLF001
            if not isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
                text = formatter._expand_help(action) if action.help else ""  # noqa: SLF001
                options.append(_option(action, text, title))
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


_BASH = """\
# bash completion of nftop {version}, made by `nftop completion bash`
_nftop() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}}
    local command=nftop skip='' word i
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${{COMP_WORDS[i]}}
        if [[ $skip ]]; then skip=''; continue; fi
        case "$command $word" in
{commands}
            command="$command $word" ;;
        esac
        case "$command:$word" in
{values}
            skip=1 ;;
        esac
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
        if [[ -n $skip ]]; then skip=''; continue; fi
        case "$command $word" in
{commands}
            command="$command $word" ;;
        esac
        case "$command:$word" in
{values}
            skip=1 ;;
        esac
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


def bash(tree: CommandSpec) -> str:
    """Completion script of bash."""
    replies = []
    for command in tree.walk():
        for option in command.options:
            cases = "|".join(_quoted(command, flag) for flag in option.flags)
            if option.choices and option.flags:
                replies.append(f"        {cases}) {_compgen(option.choices)} ;;")
            elif option.is_file and option.flags:
                replies.append(
                    f'        {cases}) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;'
                )
    words = [
        f"    {shlex.quote(' '.join(command.path))}) {_compgen(_words(command))} ;;"
        for command in tree.walk()
    ]
    return _BASH.format(**_cases(tree), replies="\n".join(replies), words="\n".join(words))


def zsh(tree: CommandSpec) -> str:
    """Completion script of zsh, with descriptions."""
    replies, words = [], []
    for command in tree.walk():
        for option in command.options:
            cases = "|".join(_quoted(command, flag) for flag in option.flags)
            if option.choices and option.flags:
                listed = " ".join(map(shlex.quote, option.choices))
                replies.append(f"        {cases}) compadd -- {listed} ;;")
            elif option.is_file and option.flags:
                replies.append(f"        {cases}) _files ;;")
        listed = " ".join(
            shlex.quote(f"{word.replace(':', chr(92) + ':')}:{text}")
            for word, text in _described(command)
        )
        words.append(f"    {shlex.quote(' '.join(command.path))}) items=({listed}) ;;")
    return _ZSH.format(**_cases(tree), replies="\n".join(replies), words="\n".join(words))


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


def _cases(tree: CommandSpec) -> dict[str, str]:
    """What bash and zsh scripts have in common: patterns of `case`."""
    files = [
        " ".join(command.path)
        for command in tree.walk()
        if any(option.is_file and not option.flags for option in command.options)
    ]
    return {
        "version": __version__,
        "commands": f"        {'|'.join(map(shlex.quote, _paths(tree)))})",
        "values": f"        {'|'.join(map(shlex.quote, _valued(tree)))})",
        "files": f"    {'|'.join(map(shlex.quote, files))})",
    }


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


def manual_page(command: CommandSpec, tree: CommandSpec) -> str:
    """A page in man(7) macros: the command and what is below it; nftop's own names all commands."""
    name = "-".join(command.path)
    is_root = command.path == tree.path
    text = command.text or "a top for hosts that forward packets in software"
    lines = [
        f'.TH {name.upper()} 1 "" "nftop {__version__}" "nftop"',
        ".SH NAME", rf"{_roff(name)} \- {_roff(text.partition(': ')[0] if is_root else text)}",
        ".SH SYNOPSIS", ".nf", _roff(command.usage), ".fi",
        ".SH DESCRIPTION", *_prose(command.description or f"{text[:1].upper()}{text[1:]}."),
    ]  # fmt: skip
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
