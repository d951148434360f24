"""What the papers prove or show in small, computed."""

from hypersphere.theory.decisions import cap_boundary, decide, equatorial_prototypes
from hypersphere.theory.items import ITEMS, Item
from hypersphere.theory.losses import (
    Setting,
    half_nearest_angle,
    margin_loss,
    polar_collapse_loss,
    target_gradient,
    termination_angle,
    termination_angle_of,
    termination_cosine,
    wrong_class_gradient,
)
from hypersphere.theory.report import Report, Row
from hypersphere.theory.toy import OPTIMUM_DEGREES, TOY_LOSSES, ToyLoss, ToySolution, draw_toy, solve_toy
from hypersphere.theory.weights import (
    SampledWeights,
    error_bound,
    log_mean_weight,
    log_negative_weight,
    log_negative_weight_approximation,
    relative_deviation,
    sample_negative_weights,
)

__all__ = [
    "ITEMS",
    "OPTIMUM_DEGREES",
    "TOY_LOSSES",
    "Item",
    "Report",
    "Row",
    "SampledWeights",
    "Setting",
    "ToyLoss",
    "ToySolution",
    "cap_boundary",
    "decide",
    "draw_toy",
    "equatorial_prototypes",
    "error_bound",
    "half_nearest_angle",
    "log_mean_weight",
    "log_negative_weight",
    "log_negative_weight_approximation",
    "margin_loss",
    "polar_collapse_loss",
    "relative_deviation",
    "sample_negative_weights",
    "solve_toy",
    "target_gradient",
    "termination_angle",
    "termination_angle_of",
    "termination_cosine",
    "wrong_class_gradient",
]
