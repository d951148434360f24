"""The sphere itself: unit vectors, angles, margins between them, caps, and configurations of points."""

from hypersphere.geometry.caps import cap_angle, cap_angle_statistics, log_angle_density, log_cap_area, uniform_cap
from hypersphere.geometry.configurations import regular_simplex, riesz_energy, tammes, uniform_sphere
from hypersphere.geometry.margins import SampleMargins, class_margin, sample_margins, summarize_sample_margins
from hypersphere.geometry.nearest import (
    NearestAngle,
    nearest_angle,
    nearest_angle_asymptotics,
    sample_nearest_angles,
)
from hypersphere.geometry.sphere import (
    EPS,
    angle_between,
    angle_from_cosine,
    norm,
    normalize,
    sine_from_cosine,
    with_derivative,
)

__all__ = [
    "EPS",
    "NearestAngle",
    "SampleMargins",
    "angle_between",
    "angle_from_cosine",
    "cap_angle",
    "cap_angle_statistics",
    "class_margin",
    "log_angle_density",
    "log_cap_area",
    "nearest_angle",
    "nearest_angle_asymptotics",
    "norm",
    "normalize",
    "regular_simplex",
    "riesz_energy",
    "sample_margins",
    "sample_nearest_angles",
    "sine_from_cosine",
    "summarize_sample_margins",
    "tammes",
    "uniform_cap",
    "uniform_sphere",
    "with_derivative",
]
