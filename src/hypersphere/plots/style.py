"""The one style: colour-blind safe, readable in print."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypersphere.core import import_extra, install_hint, whole_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F", "#F0E442")
"""Okabe and Ito's palette, with grey."""
NO_PICTURES = install_hint("matplotlib", "Pictures are left out: drawing them")
"""What a command says that goes on without matplotlib."""

_STYLE: dict[str, Any] = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 11,
    "figure.constrained_layout.use": True,
    "figure.dpi": 150,
    "font.size": 9,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "svg.hashsalt": "hypersphere",
}


def new_figure(width: float, height: float) -> Figure:
    """An empty figure in the project's style, `width` x `height` inches, tied to no window."""
    mpl = import_extra("matplotlib", "drawing figures")
    from cycler import cycler
    from matplotlib.figure import Figure

    style: Any = {**_STYLE, "axes.prop_cycle": cycler(color=COLORS)}
    mpl.rcParams.update(style)
    return Figure(figsize=(width, height))


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write the figure by its file name's ending, making the folder if need be; a partial file is never left."""
    import numpy as np

    # matplotlib projects what it allocated beside a surface's corners, whatever is there, before it leaves it out
    with whole_file(path) as partial, np.errstate(over="ignore"):
        figure.savefig(partial)
    return Path(path)
