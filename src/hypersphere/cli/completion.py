"""Scripts that let shells complete the command, made from its parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from shlex import quote

from hypersphere.cli.main import build_parser
from hypersphere.cli.output import Results

NAME = "hypersphere"


@dataclass(frozen=True)
class Option:
    """An option: its names, what it is for, whether a value follows, and the values there are, where they are few."""

    names: tuple[str, ...]
    about: str
    takes_value: bool
    values: tuple[str, ...]


@dataclass(frozen=True)
class Place:
    """The program, a command or a sub-command: `words` may follow (with what they are for), and its options."""

    path: str
    words: dict[str, str]
    options: tuple[Option, ...]


def run(options: argparse.Namespace) -> Results:
    """Print the script."""
    script = {"bash": bash, "zsh": zsh, "fish": fish}[options.shell](list(places(build_parser(), NAME)))
    print(script, end="")
    return Results({"shell": options.shell, "script": script})


def places(parser: argparse.ArgumentParser, path: str) -> Iterator[Place]:
    """A parser and all below it."""
    formatter = parser._get_formatter()

    def about(action: argparse.Action) -> str:
        return formatter._expand_help(action) if action.help else ""

    words: dict[str, str] = {}
    options = []
    below: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            words.update({each.dest: about(each) for each in action._get_subactions()})
            below = dict(action.choices)
        elif action.option_strings:
            values = tuple(map(str, action.choices or ()))
            options.append(Option(tuple(action.option_strings), about(action), action.nargs != 0, values))
        else:
            words.update(dict.fromkeys(map(str, action.choices or ()), ""))
    yield Place(path, words, tuple(options))
    for name, inner in below.items():
        yield from places(inner, f"{path} {name}")


def _words(words: Iterable[str]) -> str:
    return quote(" ".join(words))


def _inner(found: list[Place]) -> str:
    """The places below the program, as a pattern of `case`."""
    return "|".join(quote(place.path) for place in found[1:])


def _values(found: list[Place]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """For every option that takes a value: place and name, and the values there are."""
    for place in found:
        for option in place.options:
            if option.takes_value:
                yield "|".join(quote(f"{place.path} {name}") for name in option.names), option.values


def bash(found: list[Place]) -> str:
    """The script for bash; where nothing of ours fits, names of files are completed."""
    values = "\n".join(f"        {pattern}) words={_words(known)} ;;" for pattern, known in _values(found))
    here = "\n".join(
        f"                {quote(place.path)}) words={_words(place.words)};"
        f" options={_words(name for option in place.options for name in option.names)} ;;"
        for place in found
    )
    return f"""\
_{NAME}() {{
    local place={NAME} word words= options=
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$place $word" in
            {_inner(found)}) place="$place $word" ;;
        esac
    done
    case "$place $previous" in
{values}
        *)
            case $place in
{here}
            esac
            [[ $current == -* ]] && words=$options ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _{NAME} {NAME}
"""


def zsh(found: list[Place]) -> str:
    """The script for zsh, to be sourced after compinit, or a file `_hypersphere` on its fpath."""

    def described(word: str, about: str) -> str:
        name = word.replace(":", "\\:")
        return quote(f"{name}:{about}" if about else name)

    values = "\n".join(
        f"        ({pattern}) found=({' '.join(described(word, '') for word in known)}) ;;"
        for pattern, known in _values(found)
    )
    here = ""
    for place in found:
        words = " ".join(described(word, about) for word, about in place.words.items())
        options = " ".join(described(name, option.about) for option in place.options for name in option.names)
        here += f"                ({quote(place.path)}) here=({words}); options=({options}) ;;\n"
    return f"""\
#compdef {NAME}
_{NAME}() {{
    local place={NAME} word previous=$words[CURRENT-1]
    local -a found here options
    for word in ${{words[2,CURRENT-1]}}; do
        case "$place $word" in
            ({_inner(found)}) place="$place $word" ;;
        esac
    done
    case "$place $previous" in
{values}
        (*)
            case $place in
{here}            esac
            if [[ $PREFIX == -* ]]; then found=($options); else found=($here); fi ;;
    esac
    if (( $#found )); then _describe {NAME} found; else _files; fi
}}
if [[ $funcstack[1] == _{NAME} ]]; then _{NAME} "$@"; else compdef _{NAME} {NAME}; fi
"""


def fish(found: list[Place]) -> str:
    """The script for fish."""

    def quoted(text: str) -> str:
        inside = text.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{inside}'"

    lines = [
        f"function __{NAME}_at",
        f"    set -l place {NAME}",
        "    for word in (commandline -opc)[2..-1]",
        '        switch "$place $word"',
        f"            case {' '.join(quoted(place.path) for place in found[1:])}",
        '                set place "$place $word"',
        "        end",
        "    end",
        '    test "$place" = "$argv"',
        "end",
    ]
    for place in found:
        start = f"complete -c {NAME} -n {quoted(f'__{NAME}_at {place.path}')}"
        lines += [f"{start} -f -a {quoted(word)} -d {quoted(about)}" for word, about in place.words.items()]
        for option in place.options:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            value = (
                f" -x -a {quoted(' '.join(option.values))}" if option.values else " -r" if option.takes_value else ""
            )
            lines.append(f"{start} {names}{value} -d {quoted(option.about)}")
    return "\n".join(lines) + "\n"
