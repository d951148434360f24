"""The page on the architecture agrees with the code: its picture, its rooms, and every place on its two ways."""

import ast
import re
from pathlib import Path

import pytest

from tools import rooms

PAGE = (rooms.ROOT / "docs" / "architecture.md").read_text()
PLACE = re.compile(r"`([\w/]+\.py):([\w.]+)`")


def test_the_picture_is_that_of_the_imports() -> None:
    assert rooms.PICTURE.read_text() == rooms.draw(rooms.imports()), "run `python tools/rooms.py`"


def test_every_room_has_its_row() -> None:
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, flags=re.MULTILINE)) == set(rooms.imports())


@pytest.mark.parametrize("title", ["From `create_head` to a kernel", "From a recipe to a model"])
def test_a_way_has_at_most_eight_hops(title: str) -> None:
    (section,) = re.findall(rf"^## {re.escape(title)}\n(.*?)^## ", PAGE, flags=re.MULTILINE | re.DOTALL)
    hops = re.findall(r"^\d+\. (.*)$", section, flags=re.MULTILINE)
    assert 2 <= len(hops) <= 8
    assert all(PLACE.match(hop) for hop in hops)


@pytest.mark.parametrize(("path", "name"), PLACE.findall(PAGE))
def test_a_place_on_a_way_exists(path: str, name: str) -> None:
    node: ast.AST = ast.parse((rooms.SOURCE / path).read_text())
    for part in name.split("."):
        inside = [each for each in ast.iter_child_nodes(node) if getattr(each, "name", None) == part]
        assert inside, f"{path} has no {name}"
        node = inside[0]


def test_a_small_house(tmp_path: Path) -> None:
    texts = {
        "low": "import numpy",
        "left": "from hypersphere.low import x",
        "right": "import hypersphere.low.deep",
        "top": "import hypersphere as hs\nfrom hypersphere import low\nhs.left.go(hs.right, hs.version)",
    }
    for room, text in texts.items():
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").write_text(text)
    (tmp_path / "__init__.py").write_text("import hypersphere.top")
    graph = rooms.imports(tmp_path)
    assert graph == {"low": set(), "left": {"low"}, "right": {"low"}, "top": {"left", "right", "low"}}
    assert rooms.reduced(graph)["top"] == {"left", "right"}
    assert rooms.layers(graph) == {"low": 0, "left": 1, "right": 1, "top": 2}
    assert rooms.draw(graph).count("<path") == 4
