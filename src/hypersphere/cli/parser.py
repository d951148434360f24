"""How commands are declared: an argument parser that suggests, and runs that are loaded when they are wanted."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from typing import Any

from hypersphere.core import nearest

Run = Callable[[argparse.Namespace], int | None]


class Parser(argparse.ArgumentParser):
    """An argument parser that names the nearest choice to a wrong one, and guesses no abbreviations.

    With abbreviations, `--seed` would mean `--seeds` in one command and the seed itself in another.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "allow_abbrev": False})

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(
                action, f"{value!r} is unknown; {nearest(str(value), map(str, action.choices))}"
            )


def find_run(run: str) -> Run:
    """The function that a command runs.

    Args:
        run: `module:function` in `hypersphere.cli`. Commands are declared with names, not functions, because the
            modules that run them import torch, and `--help` does not need it.
    """
    module, _, function = run.partition(":")
    found: Run = getattr(import_module(f"hypersphere.cli.{module}"), function)
    return found
