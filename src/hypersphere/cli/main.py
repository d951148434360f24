"""Parse the command line and hand over to one file per command group."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence

from hypersphere.cli.commands import advise, bench, data, demo, evaluate, explore, reproduce, theory, train
from hypersphere.cli.parser import Parser, find_run
from hypersphere.core import Failure
from hypersphere.version import __version__


def build_parser() -> Parser:
    """All commands."""
    parser = Parser(prog="hypersphere", description="Learn, measure, understand and use embeddings on the unit sphere.")
    parser.add_argument("--version", action="version", version=f"hypersphere {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for group in (demo, train, data, evaluate, theory, reproduce, explore, advise, bench):
        group.add_command(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = build_parser()
    options, rest = parser.parse_known_args(arguments)
    _take_settings(parser, options, rest)
    options.command = shlex.join(["hypersphere", *(sys.argv[1:] if arguments is None else arguments)])
    try:
        status = find_run(options.run)(options)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, OSError, ModuleNotFoundError, Failure) as error:
        print(f"hypersphere: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("hypersphere: interrupted", file=sys.stderr)
        return 130
    return status or 0


def _take_settings(parser: argparse.ArgumentParser, options: argparse.Namespace, rest: list[str]) -> None:
    """`key=value` after an option is a setting like one before it; argparse gives it back as unknown."""
    unknown = [word for word in rest if word.startswith("-") or "=" not in word]
    if rest and (unknown or not hasattr(options, "settings")):
        parser.error(f"unrecognized arguments: {' '.join(unknown or rest)}")
    if rest:
        options.settings = [*options.settings, *rest]
