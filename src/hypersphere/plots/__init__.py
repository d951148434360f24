"""Figures in one style, and reports that hold them.

matplotlib is an extra (`pip install '.[plots]'` in a checkout), imported when a figure is drawn.
"""

from hypersphere.plots.curves import draw_training
from hypersphere.plots.evaluation import draw_cmc, draw_score_histogram
from hypersphere.plots.page import ImagePair, Page, interval, percent, points
from hypersphere.plots.panels import Line, Panel, draw_panels
from hypersphere.plots.plane import draw_features
from hypersphere.plots.regions import draw_plane_regions, draw_sphere_region, draw_sphere_regions
from hypersphere.plots.sketch import draw_arrow, draw_box, draw_chain, new_sketch
from hypersphere.plots.spheres import draw_spheres, project_to_sphere
from hypersphere.plots.style import COLORS, NO_PICTURES, new_figure, save_figure
from hypersphere.plots.verification_curves import draw_det, draw_roc, draw_similarities

__all__ = [
    "COLORS",
    "NO_PICTURES",
    "ImagePair",
    "Line",
    "Page",
    "Panel",
    "draw_arrow",
    "draw_box",
    "draw_chain",
    "draw_cmc",
    "draw_det",
    "draw_features",
    "draw_panels",
    "draw_plane_regions",
    "draw_roc",
    "draw_score_histogram",
    "draw_similarities",
    "draw_sphere_region",
    "draw_sphere_regions",
    "draw_spheres",
    "draw_training",
    "interval",
    "new_figure",
    "new_sketch",
    "percent",
    "points",
    "project_to_sphere",
    "save_figure",
]
