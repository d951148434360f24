"""Parse the command line and hand over to one file per command group."""

from __future__ import annotations

import argparse
import io
import os
import platform
import shlex
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

from hypersphere.cli.installed_commands import add_installed_commands
from hypersphere.cli.output import red
from hypersphere.cli.parser import Parser, find_run
from hypersphere.core import Failure, Progress
from hypersphere.version import __version__

GROUPS = (
    "demo", "verify", "find", "enroll", "identify", "cluster", "calibrate", "align", "gallery", "serve", "keys",
    "train", "compare", "data", "evaluate", "embed", "models", "check", "export", "import_model", "explore", "advise",
    "completion",
)  # fmt: skip
"""The files that declare and run the commands, in the order of `--help`."""
_WRONGLY_ASKED = (ValueError, FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)


@cache
def build_parser() -> Parser:
    """All commands; built once, for programs that run many."""
    parser = Parser(prog="hypersphere", description="Learn, measure, understand and use embeddings on the unit sphere.")
    parser.set_defaults(quiet=False, verbose=False, json=False, goes_on=False, problem="")
    parser.add_argument("--version", action="version", version=f"hypersphere {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for group in GROUPS:
        import_module(f"hypersphere.cli.{group}").add_command(commands)
    add_installed_commands(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns:
        0; 1 where the work failed; 2 where what was asked for cannot be done (so does argparse); 130 after Ctrl-C; 141
        where whoever read the output has gone; 143 after SIGTERM.
    """
    _prepare_output()
    try:
        options, rest = build_parser().parse_known_args(arguments)
    except SystemExit:
        if not _flushed():
            return 141
        raise
    options = argparse.Namespace(
        **{
            **vars(options),
            **_all_settings(options, rest),
            "command": shlex.join(["hypersphere", *(sys.argv[1:] if arguments is None else arguments)]),
        }
    )
    Progress.silent = options.quiet
    start = time.monotonic()
    try:
        with _plain_warnings(), _tidy_after_sigterm(), redirect_stdout(sys.stderr) if options.json else nullcontext():
            if options.problem:
                raise Failure(options.problem)
            results = find_run(options.run)(options)
        if options.json and results is not None:
            print(results.to_json(sys.stdout.encoding or "utf-8"))
        sys.stdout.flush()
    except BrokenPipeError:
        _flushed()
        return 141
    except _WRONGLY_ASKED as error:
        return _failed(error, 2, options.verbose)
    except (OSError, ModuleNotFoundError, Failure) as error:
        _flushed()
        return _failed(error, 1, options.verbose)
    except KeyboardInterrupt as error:
        saved = "; the same command goes on from what is saved" if options.goes_on else ""
        return _failed(error, 130, options.verbose, f"interrupted{saved}")
    if options.verbose:
        _say_how(time.monotonic() - start)
    return 0 if results is None else results.status


def _prepare_output() -> None:
    """Let names that an output cannot hold be printed with escapes, and a closed output be one that nobody reads."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _flushed() -> bool:
    """Whether standard output took everything; if it did not, Python must not try it again when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


@contextmanager
def _tidy_after_sigterm() -> Iterator[None]:
    """Let SIGTERM end the command as an error does, so that files half written are removed.

    Processes of torchrun keep the system's way: one that waits for the others would not notice.
    """
    if "WORLD_SIZE" in os.environ or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _failed(error: BaseException, status: int, verbose: bool, words: str | None = None) -> int:
    """Say what went wrong in one line, or after its traceback."""
    if verbose:
        traceback.print_exception(error)
    print(f"{red('hypersphere:', sys.stderr)} {words or _in_words(error)}", file=sys.stderr)
    return status


def _say_how(seconds: float) -> None:
    """Versions and time, of `--verbose`."""
    loaded = [f"{name} {sys.modules[name].__version__}" for name in ("torch", "numpy", "scipy") if name in sys.modules]
    versions = ", ".join([f"hypersphere {__version__}", f"Python {platform.python_version()}", *loaded])
    print(f"{versions}; took {seconds:.1f} s", file=sys.stderr)


def _all_settings(options: argparse.Namespace, rest: list[str]) -> dict[str, list[str]]:
    """`key=value` after an option is a setting like one before it; argparse gives it back as unknown.

    A command that cannot be run (`problem`) knows none of its options, and refuses none.
    """
    if options.problem:
        return {}
    unknown = [word for word in rest if word.startswith("-") or "=" not in word]
    if rest and (unknown or not hasattr(options, "settings")):
        options.parser.refuse(unknown or rest, settings=hasattr(options, "settings"))
    return {"settings": [*options.settings, *rest]} if rest else {}


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Write the package's own warnings as a line on standard error; those of others stay as they are."""
    with warnings.catch_warnings():
        shown = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], filename: str, lineno: int, *rest: Any) -> None:
            if filename.startswith(str(Path(__file__).parents[1])):
                print(f"hypersphere: warning: {message}", file=sys.stderr)
            else:
                shown(message, category, filename, lineno, *rest)

        warnings.showwarning = show  # type: ignore[assignment]
        yield


def _in_words(error: BaseException) -> str:
    """Return an error as a sentence: one of the system names its file and not its number."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)
