"""Commands that other distributions add, by the entry point group `hypersphere.commands`."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from hypersphere.core import PAPERS_HINT

ENTRY_POINTS = "hypersphere.commands"
"""An entry point `NAME = "package.module:function"` names the function that declares `hypersphere NAME`.

It takes what `argparse` returns for sub-commands, as `add_command` of the modules here does. Its module is imported for
every command line, so it must not wait for torch; what the command runs is declared as `run="package.module:function"`.
"""
_ELSEWHERE = {
    "theory": ("what the papers prove or show in small, computed", f"is part of {PAPERS_HINT}"),
    "reproduce": ("every figure and table of the papers, by name", f"is part of {PAPERS_HINT}"),
    "bench": ("speed on this machine", "is not installed: in a checkout, run python benchmarks/speed.py head or train"),
}
"""Commands that are in the same repository and not in this package: without it they say where they are."""


def add_installed_commands(commands: Any) -> None:
    """Add the commands of the other distributions that are installed; one that cannot be loaded says why when named."""
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name):
        _add(commands, point)
    for name, (about, where) in _ELSEWHERE.items():
        if name not in commands.choices:
            problem = f"`hypersphere {name}` {where}"
            commands.add_parser(name, help=about, description=problem).set_defaults(problem=problem)


def _add(commands: Any, point: EntryPoint) -> None:
    owner = point.dist.name if point.dist is not None else point.value
    if point.name in commands.choices:
        print(f"hypersphere: warning: the command {point.name} of {owner} exists already", file=sys.stderr)
        return
    try:
        point.load()(commands)
    except Exception as error:  # another distribution may be broken in any way, and the library goes on
        problem = f"the command {point.name} of {owner} cannot be loaded: {type(error).__name__}: {error}"
        parser = commands.choices.get(point.name) or commands.add_parser(point.name, help=f"cannot be loaded ({owner})")
        parser.set_defaults(problem=problem)
