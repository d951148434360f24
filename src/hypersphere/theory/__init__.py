"""What the papers prove or show in small, computed."""

from hypersphere.theory.advisor import Advice, Choice, Imbalance, advise, margins_for, recommended_scale, warn
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
from hypersphere.theory.minimise import minimise
from hypersphere.theory.normface import (
    best_probability,
    check_agents,
    check_scaling,
    least_loss,
    scale_for_bound,
    softmax_bound,
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
    "Advice",
    "Choice",
    "Imbalance",
    "Item",
    "Report",
    "Row",
    "SampledWeights",
    "Setting",
    "ToyLoss",
    "ToySolution",
    "advise",
    "best_probability",
    "cap_boundary",
    "check_agents",
    "check_scaling",
    "decide",
    "draw_toy",
    "equatorial_prototypes",
    "error_bound",
    "half_nearest_angle",
    "least_loss",
    "log_mean_weight",
    "log_negative_weight",
    "log_negative_weight_approximation",
    "margin_loss",
    "margins_for",
    "minimise",
    "polar_collapse_loss",
    "recommended_scale",
    "relative_deviation",
    "sample_negative_weights",
    "scale_for_bound",
    "softmax_bound",
    "solve_toy",
    "target_gradient",
    "termination_angle",
    "termination_angle_of",
    "termination_cosine",
    "warn",
    "wrong_class_gradient",
]
