"""List the options of commands that no test of the last run of pytest ran: `python tools/unused_options.py`."""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hypersphere.cli.main import build_parser

ROOT = Path(__file__).parents[1]
RECORD = "hypersphere/options_run"
"""Where `tests/options_run.py` leaves the options that ran, in pytest's cache."""
OF_EVERY_COMMAND = ("--quiet", "--verbose", "--json")
EXITING = ("--help", "--version")


def declared() -> set[str]:
    """Return every command and each of its options: `evaluate pairs`, `evaluate pairs --far`, and `--json` once."""
    return {*OF_EVERY_COMMAND, *(name for path, parser in _commands((), build_parser()) for name in _of(path, parser))}


def named(words: Sequence[str]) -> set[str]:
    """Return what a command line runs, by the names of `declared`."""
    path: tuple[str, ...] = ()
    parser: argparse.ArgumentParser = build_parser()
    found = set()
    for word in words[: words.index("--")] if "--" in words else words:
        action = parser._option_string_actions.get(word.partition("=")[0])
        below = _below(parser)
        if action is not None:
            found.add(_name(path, action))
        elif word in below:
            path, parser = (*path, word), below[word]
    return {*found, " ".join(path)}


def unused(ran: Iterable[str]) -> list[str]:
    """Return the declared names that did not run, sorted."""
    return sorted(declared() - set(ran))


def _commands(
    path: tuple[str, ...], parser: argparse.ArgumentParser
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    if parser.get_default("run") is not None:
        yield path, parser
    for name, inner in _below(parser).items():
        yield from _commands((*path, name), inner)


def _below(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return {name: child for action in inner for name, child in action.choices.items()}


def _of(path: tuple[str, ...], parser: argparse.ArgumentParser) -> Iterator[str]:
    yield " ".join(path)
    for action in parser._actions:
        if action.option_strings and action.option_strings[-1] not in EXITING:
            yield _name(path, action)


def _name(path: tuple[str, ...], action: argparse.Action) -> str:
    option = next(name for name in action.option_strings if name.startswith("--"))
    return option if option in OF_EVERY_COMMAND else " ".join((*path, option))


def main() -> int:
    """Print the list; 1 if there is anything on it."""
    record = ROOT / ".pytest_cache" / "v" / RECORD
    if not record.is_file():
        sys.exit("run the tests first: no record of options is in .pytest_cache")
    left = unused(json.loads(record.read_text()))
    print("\n".join(left) if left else "every option of every command was run")
    return int(bool(left))


if __name__ == "__main__":
    sys.exit(main())
