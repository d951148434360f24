"""What the papers prove or show in small, computed."""

from hypersphere.theory.advisor import Advice, Choice, Imbalance, advise, margins_for, recommended_scale, warn
from hypersphere.theory.collapse import NeuralCollapse, neural_collapse
from hypersphere.theory.decisions import cap_boundary, decide, equatorial_prototypes
from hypersphere.theory.explorer import explorer_page, save_explorer
from hypersphere.theory.items import ITEMS, Item
from hypersphere.theory.largest import (
    Solution,
    best_of,
    collapsed_softmax,
    descend_sample_margin,
    gm_bound,
    largest_sample_margin,
    least_energy,
    least_risk,
    simplex_energy,
    simplex_margin_degrees,
)
from hypersphere.theory.losses import (
    Setting,
    half_nearest_angle,
    margin_loss,
    polar_collapse_loss,
    target_gradient,
    termination_angle,
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
from hypersphere.theory.termination import loss_termination_angle, target_logit, termination_angle_of
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
    "NeuralCollapse",
    "Report",
    "Row",
    "SampledWeights",
    "Setting",
    "Solution",
    "ToyLoss",
    "ToySolution",
    "advise",
    "best_of",
    "best_probability",
    "cap_boundary",
    "check_agents",
    "check_scaling",
    "collapsed_softmax",
    "decide",
    "descend_sample_margin",
    "draw_toy",
    "equatorial_prototypes",
    "error_bound",
    "explorer_page",
    "gm_bound",
    "half_nearest_angle",
    "largest_sample_margin",
    "least_energy",
    "least_loss",
    "least_risk",
    "log_mean_weight",
    "log_negative_weight",
    "log_negative_weight_approximation",
    "loss_termination_angle",
    "margin_loss",
    "margins_for",
    "minimise",
    "neural_collapse",
    "polar_collapse_loss",
    "recommended_scale",
    "relative_deviation",
    "sample_negative_weights",
    "save_explorer",
    "scale_for_bound",
    "simplex_energy",
    "simplex_margin_degrees",
    "softmax_bound",
    "solve_toy",
    "target_gradient",
    "target_logit",
    "termination_angle",
    "termination_angle_of",
    "termination_cosine",
    "warn",
    "wrong_class_gradient",
]
