"""Draw which room imports which, from the imports: `docs/images/rooms.svg`."""

from __future__ import annotations

import ast
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "hypersphere"
PICTURE = ROOT / "docs" / "images" / "rooms.svg"
WIDTH, ROW, BOX = 840, 62, (104, 30)
Graph = dict[str, set[str]]


def imports(source: Path = SOURCE) -> Graph:
    """Return for each room the rooms that it uses: by an import, or as an attribute of the package (`hs.training`)."""
    rooms = {path.name for path in source.iterdir() if (path / "__init__.py").is_file()}
    graph: Graph = {room: set() for room in sorted(rooms)}
    for path in sorted(source.rglob("*.py")):
        room = path.relative_to(source).parts[0]
        if room not in rooms:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "hs":
                names = [f"hypersphere.{node.attr}"]
            used = {name.split(".")[1] for name in names if name.startswith("hypersphere.")}
            graph[room] |= (used & rooms) - {room}
    return graph


def reduced(graph: Graph) -> Graph:
    """Return the graph without the arrows that follow from others: a room that is reached through another."""
    return {
        room: {other for other in used if not any(other in _reached(graph, third) for third in used)}
        for room, used in graph.items()
    }


def _reached(graph: Graph, room: str) -> set[str]:
    return graph[room].union(*(_reached(graph, other) for other in graph[room]))


def layers(graph: Graph) -> dict[str, int]:
    """Return the layer of each room: one above the highest that it uses."""
    found: dict[str, int] = {}

    def layer(room: str) -> int:
        if room not in found:
            found[room] = 1 + max((layer(other) for other in graph[room]), default=-1)
        return found[room]

    for room in graph:
        layer(room)
    return found


def _placed(graph: Graph, level: dict[str, int]) -> tuple[list[list[str]], Graph]:
    """The layers, each in its order, and the arrows; one that passes layers gets a nameless place in each of them."""
    rows: list[list[str]] = [[] for _ in range(max(level.values()) + 1)]
    arrows: Graph = {}
    for room in graph:
        rows[level[room]].append(room)
        for other in sorted(graph[room]):
            chain = [room, *(f"{room}>{other}>{k}" for k in range(level[room] - 1, level[other], -1)), other]
            for above, below in pairwise(chain):
                arrows.setdefault(above, set()).add(below)
            for place, name in zip(range(level[room] - 1, level[other], -1), chain[1:-1], strict=True):
                rows[place].append(name)
    for sweep in range(8):  # order each layer by where its neighbours are, up and down in turn
        order = range(1, len(rows)) if sweep % 2 == 0 else range(len(rows) - 2, -1, -1)
        for k in order:
            beside = rows[k - 1] if sweep % 2 == 0 else rows[k + 1]
            at = {name: (place + 0.5) / len(beside) for place, name in enumerate(beside)}
            rows[k].sort(key=lambda name, at=at: (_mean(name, arrows, at), name))  # type: ignore[misc]
    return rows, arrows


def _mean(name: str, arrows: Graph, at: dict[str, float]) -> float:
    near = [at[other] for other in arrows.get(name, ()) if other in at]
    near += [at[other] for other in at if name in arrows.get(other, ())]
    return sum(near) / len(near) if near else 0.5


def draw(graph: Graph) -> str:
    """Return the picture: above each room what uses it. The same graph gives the same bytes.

    Args:
        graph: of `imports`.
    """
    small = reduced(graph)
    rows, arrows = _placed(small, layers(small))
    height = ROW * len(rows) + 10
    at = {
        name: (round(WIDTH * (place + 0.5) / len(row)), round(height - ROW * (k + 0.5)))
        for k, row in enumerate(rows)
        for place, name in enumerate(row)
    }
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for above, below in sorted((above, below) for above, used in arrows.items() for below in used):
        (x, y), (u, v) = at[above], at[below]
        y, v = (y + BOX[1] // 2 if above in small else y), (v - BOX[1] // 2 if below in small else v)
        middle = (y + v) // 2
        lines.append(f'<path d="M{x} {y}C{x} {middle} {u} {middle} {u} {v}" fill="none" stroke="#8a94a6"/>')
    for room in small:
        x, y = at[room]
        left, top = x - BOX[0] // 2, y - BOX[1] // 2
        lines.append(
            f'<rect x="{left}" y="{top}" width="{BOX[0]}" height="{BOX[1]}" rx="5" fill="#eef3fb" stroke="#3b5b92"/>'
        )
        lines.append(f'<text x="{x}" y="{y + 5}" text-anchor="middle" fill="#1c2738">{room}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(draw(imports()), encoding="utf-8")
    print(PICTURE.relative_to(ROOT))


if __name__ == "__main__":
    main()
