"""How commands are declared: a parser that suggests, options that several share, runs that are loaded when wanted."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import hypersphere as hs
from hypersphere.cli.output import Results, red
from hypersphere.core import nearest

Run = Callable[[argparse.Namespace], Results | None]


class Parser(argparse.ArgumentParser):
    """An argument parser that names the nearest choice to a wrong one, and guesses no abbreviations.

    With abbreviations, `--seed` would mean `--seeds` in one command and the seed itself in another. Every parser, of
    the program, a command or a sub-command, takes `--quiet`, `--verbose` and `--json`, so that they work in any place,
    and leaves itself in the options as `parser`: the one of the command that was named stays there.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "allow_abbrev": False})
        self.hints: dict[str, str] = {}  # by an option that people expect and that does not exist: what to use
        self.set_defaults(parser=self)
        shown = self.add_argument_group("output")
        for names, about in (
            (("-q", "--quiet"), "no progress and no words around the results"),
            (("-v", "--verbose"), "versions and time taken; a traceback with an error"),
            (("--json",), "one JSON document on standard output; words go to standard error"),
        ):
            shown.add_argument(*names, action="store_true", default=argparse.SUPPRESS, help=about)

    def error(self, message: str) -> NoReturn:
        """Say how the command is used and what is wrong; exit with status 2."""
        self.print_usage(sys.stderr)
        self.exit(2, f"{red(f'{self.prog}:', sys.stderr)} {message}\n")

    def refuse(self, words: Sequence[str], *, settings: bool = False) -> NoReturn:
        """Words that the command does not know: the nearest option to the first, where one is near.

        Args:
            words: as they were given.
            settings: whether the command takes those of a recipe, of which the first may be one.
        """
        known = [name for name in self._option_string_actions if name.startswith("--")]
        option = words[0].partition("=")[0]
        begun = [name for name in known if len(option) > len("--e") and name.startswith(option)]
        close = begun or difflib.get_close_matches(option, known, n=1, cutoff=0.7)
        hint = f" (did you mean {close[0]}?)" if close else ""
        hint = f" ({self.hints[option]})" if option in self.hints else hint
        if settings and not close and words[0].startswith("--"):
            hint = f"; settings of the recipe are written key=value: {hs.training.as_setting(words)}"
        self.error(f"unrecognized arguments: {' '.join(words)}{hint}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(
                action, f"{value!r} is unknown; {nearest(str(value), map(str, action.choices))}"
            )


def find_run(run: str) -> Run:
    """The function that a command runs.

    Args:
        run: `module:function` in `hypersphere.cli`, or of another distribution `package.module:function`. Commands are
            declared with names, not functions, so that a module is free to import what `--help` does not need.
    """
    module, _, function = run.partition(":")
    command: Run = getattr(import_module(module if "." in module else f"hypersphere.cli.{module}"), function)
    return command


def model_path(text: str) -> Path:
    """Read where a model is; `starter` is the one that comes with the package (`./starter` a folder of that name)."""
    return Path(__file__).parents[1] / "starter" if text == "starter" else Path(text)


def check_exists(path: Path | None, option: str = "") -> None:
    """ValueError for a path, perhaps of an option, that was given and is not there: told before torch is loaded."""
    if path is not None and not path.exists():
        raise ValueError(f"{option} {path} is missing".lstrip())


def add_device(parser: argparse._ActionsContainer, default: str | None = None) -> None:
    """`--device`, of every command that computes."""
    usual = default or "cuda where there is one, otherwise cpu"
    parser.add_argument("--device", default=default, help=f"cpu, cuda, cuda:N or mps ({usual})")


def add_plugins(parser: argparse._ActionsContainer) -> None:
    """`--plugin`, of every command that makes networks and losses by name, or runs protocols."""
    parser.add_argument(
        "--plugin",
        action="append",
        type=Path,
        default=[],
        metavar="FILE",
        help="run a Python file that registers losses, backbones or protocols of your own; may be repeated",
    )


def add_loading(parser: argparse.ArgumentParser) -> None:
    """`--workers` and `--compile`, of every command that trains."""
    parser.add_argument(
        "--workers", type=int, metavar="N", help="processes that load images (0 on a CPU, up to 8 beside a GPU)"
    )
    parser.add_argument(
        "--compile", action=argparse.BooleanOptionalAction, default=False, help="hand the network to torch.compile"
    )


def add_seeds(parser: argparse.ArgumentParser) -> None:
    """`--seeds`, of every command that repeats trainings."""
    parser.add_argument(
        "--seeds", type=int, default=1, metavar="N", help="runs of each training, with seeds 0 to N - 1 (%(default)s)"
    )
