"""Run the notebooks and make pages of them, without Jupyter: `python -m tools.notebooks` writes their outputs anew."""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "notebooks"
_DPI = 80


def notebooks() -> list[Path]:
    """Return the notebooks of the repository."""
    return sorted(FOLDER.glob("*.ipynb"))


def read(path: Path) -> dict[str, Any]:
    """Return a notebook's JSON."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def source(cell: dict[str, Any]) -> str:
    """Return the text of a cell, which is a list of lines in the file."""
    return "".join(cell["source"])


def run(notebook: dict[str, Any], scope: dict[str, Any] | None = None) -> dict[str, Any]:
    """Run the code cells in order in one fresh namespace, in the working folder; return the notebook with its outputs.

    Args:
        notebook: its JSON.
        scope: the namespace, to look at afterwards.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    names = {"__name__": "__main__"} if scope is None else scope
    cells, count = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            outputs = list(_outputs(source(cell), count, names))
            cells.append({**cell, "execution_count": count, "outputs": outputs})
        else:
            cells.append(cell)
    return {**notebook, "cells": cells}


def _outputs(code: str, count: int, scope: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what a cell prints, what its last expression is, and the figures that it leaves open."""
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    body = ast.parse(code).body
    last = ast.Expression(body.pop().value) if body and isinstance(body[-1], ast.Expr) else None  # type: ignore[attr-defined]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), f"<cell {count}>", "exec"), scope)
        value = eval(compile(last, f"<cell {count}>", "eval"), scope) if last else None
    if printed.getvalue():
        yield {"output_type": "stream", "name": "stdout", "text": printed.getvalue().splitlines(keepends=True)}
    if value is not None and not isinstance(value, Figure) and not code.rstrip().endswith(";"):
        text = repr(value).splitlines(keepends=True)
        yield {"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": {"text/plain": text}}
    for figure in [*([value] if isinstance(value, Figure) else []), *map(plt.figure, plt.get_fignums())]:
        picture = io.BytesIO()
        figure.savefig(picture, format="png", dpi=_DPI, metadata={"Software": None})
        data = {"image/png": base64.b64encode(picture.getvalue()).decode(), "text/plain": ["<Figure>"]}
        yield {"output_type": "display_data", "metadata": {}, "data": data}
    plt.close("all")


def page(path: Path, images: Path) -> str:
    """Return a notebook as Markdown, and write its pictures.

    Args:
        path: of the notebook.
        images: the folder for its pictures, which the page names by `images/`.
    """
    parts, pictures = [], 0
    images.mkdir(parents=True, exist_ok=True)
    for cell in read(path)["cells"]:
        if cell["cell_type"] == "markdown":
            parts.append(source(cell))
            continue
        parts.append(f"```python\n{source(cell)}\n```")
        for output in cell["outputs"]:
            if "image/png" in output.get("data", {}):
                pictures += 1
                name = f"{path.stem}-{pictures}.png"
                (images / name).write_bytes(base64.b64decode(output["data"]["image/png"]))
                parts.append(f"![What the cell draws]({images.name}/{name})")
            else:
                text = "".join(output.get("text") or output["data"]["text/plain"]).rstrip("\n")
                parts.append(f"```text\n{text}\n```")
    parts.append(f"This page is the notebook `notebooks/{path.name}`, with the outputs of `python -m tools.notebooks`.")
    return "\n\n".join(parts) + "\n"


def main() -> int:
    """Run every notebook in an empty folder and write it back with its outputs."""
    sys.path.insert(0, str(ROOT / "src"))
    for path in notebooks():
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                found = run(read(path))
            finally:
                os.chdir(ROOT)
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
