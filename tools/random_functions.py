"""Print functions drawn at random, by seed, for a reader to judge: `python tools/random_functions.py [SEED] [COUNT]`.

Each should say within 30 seconds what it is for and what may be changed.
"""

import ast
import random
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "hypersphere"


def functions() -> list[tuple[Path, ast.FunctionDef]]:
    """Return all functions and methods of the library, in the order of files and lines."""
    return [
        (path, node)
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    ]


def main() -> None:
    seed, count = (int(word) for word in [*sys.argv[1:3], "0", "10"][:1] + [*sys.argv[2:3], "10"][:1])
    for path, node in random.Random(seed).sample(functions(), count):
        lines = path.read_text().splitlines()[node.lineno - 1 : node.end_lineno]
        print(f"\n{path.relative_to(SOURCE)}:{node.lineno}")
        print("\n".join(lines))


if __name__ == "__main__":
    main()
