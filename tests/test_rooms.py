"""The architecture, as tests."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "hypersphere"
ROOMS = [
    "core",
    "geometry",
    "distributed",
    "engines",
    "losses",
    "heads",
    "optim",
    "backbones",
    "data",
    "pocket",
    "models",
    "plots",
    "evaluation",
    "training",
    "theory",
    "reproduce",
    "cli",
]
FILES = sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str | None:
    inside = path.relative_to(SOURCE)
    return inside.parts[0] if len(inside.parts) > 1 else None


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            names.add(node.module or "")
    return names


def test_the_rooms_are_the_ones_documented() -> None:
    assert {room_of(path) for path in FILES} - {None} == set(ROOMS)
    assert ", ".join(ROOMS) in (ROOT / "CONTRIBUTING.md").read_text()


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_room_imports_only_from_rooms_before_it(path: Path) -> None:
    room = room_of(path)
    if room is None:
        return
    for name in imported(path):
        parts = name.split(".")
        if parts[0] != "hypersphere" or parts[1:] == ["version"]:
            continue
        assert len(parts) > 1, f"{path.name} imports the package itself"
        assert ROOMS.index(parts[1]) <= ROOMS.index(room), f"{path.name} imports {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_the_command_prints_and_nothing_unpickles(path: Path) -> None:
    calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    names = {ast.unparse(call) for call in calls}
    assert not names & {"eval", "exec", "pickle.load", "pickle.loads"}
    for call in (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)):
        if ast.unparse(call.func) == "torch.load":
            assert "weights_only=True" in ast.unparse(call)
    if room_of(path) != "cli":
        assert "print" not in names
