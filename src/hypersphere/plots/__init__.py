"""Figures in one style. matplotlib is an extra (`pip install hypersphere[plots]`), imported when a figure is drawn."""

from hypersphere.plots.sphere import draw_spheres
from hypersphere.plots.style import COLORS, new_figure, save_figure

__all__ = ["COLORS", "draw_spheres", "new_figure", "save_figure"]
