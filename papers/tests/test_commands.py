"""The distribution declares its commands, and what they copy is what the laboratory says."""

import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

from hypersphere.cli.installed_commands import ENTRY_POINTS
from hypersphere.cli.main import build_parser
from hypersphere.version import __version__
from hypersphere_papers import commands
from hypersphere_papers.theorems import THEOREMS

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def test_every_entry_point_declares_its_command() -> None:
    points = PROJECT["entry-points"][ENTRY_POINTS]
    assert set(points) == {"reproduce", "theory"}
    for name, value in points.items():
        assert EntryPoint(name, value, ENTRY_POINTS).load() is getattr(commands, f"add_{name}")


def test_both_are_installed() -> None:
    actions = build_parser()._subparsers
    assert actions is not None
    (choices,) = (action.choices for action in actions._group_actions)
    assert choices is not None
    for name in ("reproduce", "theory"):
        assert not choices[name].get_default("problem"), "run `make setup`"  # type: ignore[index]


def test_the_version_is_that_of_the_library() -> None:
    assert PROJECT["version"] == __version__
    assert PROJECT["dependencies"] == [f"hypersphere-learn=={__version__}"]


def test_the_items_of_theory_are_the_theorems() -> None:
    assert {name: theorem.title for name, theorem in THEOREMS.items()} == commands.ITEMS
