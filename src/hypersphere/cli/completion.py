"""`hypersphere completion`: scripts that let shells complete the command, made from its parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from hypersphere.cli.output import Results

SHELLS = ("bash", "zsh", "fish")
NAME = "hypersphere"


def add_command(commands: Any) -> None:
    """Add `completion` to the command line."""
    parser = commands.add_parser(
        "completion",
        help="print a script that lets a shell complete commands and options",
        description="Print a script that lets a shell complete commands, options and their values. bash: put `source "
        "<(hypersphere completion bash)` into ~/.bashrc; zsh: `source <(hypersphere completion zsh)` into ~/.zshrc, "
        "after compinit; fish: hypersphere completion fish > ~/.config/fish/completions/hypersphere.fish",
    )
    parser.add_argument("shell", choices=SHELLS, help=", ".join(SHELLS))
    parser.set_defaults(run="completion:run")


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

    def option_words(self) -> dict[str, str]:
        """The names of the options, with what they are for."""
        return {name: option.about for option in self.options for name in option.names}


def run(options: argparse.Namespace) -> Results:
    """Print the script."""
    from hypersphere.cli.main import build_parser

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


def _template(shell: str) -> str:
    return Path(__file__).with_suffix(f".{shell}").read_text(encoding="utf-8")


def _fill(shell: str, found: list[Place], values: Iterable[str], here: Iterable[str]) -> str:
    inner = "|".join(quote(place.path) for place in found[1:])
    return (
        _template(shell).replace("INNER", inner).replace("VALUES", "\n".join(values)).replace("HERE", "\n".join(here))
    )


def _values(found: list[Place]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """For every option that takes a value: place and name as a pattern of `case`, and the values there are."""
    for place in found:
        for option in place.options:
            if option.takes_value:
                yield "|".join(quote(f"{place.path} {name}") for name in option.names), option.values


def bash(found: list[Place]) -> str:
    """The script for bash; where nothing of ours fits, names of files are completed."""

    def words(each: Iterable[str]) -> str:
        return quote(" ".join(each))

    values = (f"        {pattern}) words={words(known)} ;;" for pattern, known in _values(found))
    here = (
        f"                {quote(place.path)}) words={words(place.words)}; options={words(place.option_words())} ;;"
        for place in found
    )
    return _fill("bash", found, values, here)


def zsh(found: list[Place]) -> str:
    """The script for zsh, to be sourced after compinit, or a file `_hypersphere` on its fpath."""

    def described(words: dict[str, str]) -> str:
        escaped = ((word.replace(":", "\\:"), about) for word, about in words.items())
        return " ".join(quote(f"{word}:{about}" if about else word) for word, about in escaped)

    values = (
        f"        ({pattern}) found=({described(dict.fromkeys(known, ''))}) ;;" for pattern, known in _values(found)
    )
    here = (
        f"                ({quote(place.path)}) here=({described(place.words)});"
        f" options=({described(place.option_words())}) ;;"
        for place in found
    )
    return _fill("zsh", found, values, here)


def fish(found: list[Place]) -> str:
    """The script for fish."""

    def quoted(text: str) -> str:
        inside = text.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{inside}'"

    lines = [_template("fish").replace("INNER", " ".join(quoted(place.path) for place in found[1:]))]
    for place in found:
        start = f"complete -c {NAME} -n {quoted(f'__{NAME}_at {place.path}')}"
        lines += [f"{start} -f -a {quoted(word)} -d {quoted(about)}\n" for word, about in place.words.items()]
        for option in place.options:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            value = f" -x -a {quoted(' '.join(option.values))}" if option.values else " -r" * option.takes_value
            lines.append(f"{start} {names}{value} -d {quoted(option.about)}\n")
    return "".join(lines)
