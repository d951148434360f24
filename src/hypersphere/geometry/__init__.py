"""The sphere itself: unit vectors, angles, margins between them, and configurations of points."""

from hypersphere.geometry.configurations import regular_simplex, riesz_energy, tammes, uniform_cap, uniform_sphere
from hypersphere.geometry.margins import SampleMargins, class_margin, sample_margins, summarize_sample_margins
from hypersphere.geometry.sphere import (
    EPS,
    angle_between,
    angle_from_cosine,
    norm,
    normalize,
    sine_from_cosine,
    with_slope,
)

__all__ = [
    "EPS",
    "SampleMargins",
    "angle_between",
    "angle_from_cosine",
    "class_margin",
    "norm",
    "normalize",
    "regular_simplex",
    "riesz_energy",
    "sample_margins",
    "sine_from_cosine",
    "summarize_sample_margins",
    "tammes",
    "uniform_cap",
    "uniform_sphere",
    "with_slope",
]
