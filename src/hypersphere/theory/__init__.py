"""The mathematics that users of losses need: expected softmax, what margins do, the margin advisor, the explorer."""

from hypersphere.theory.advice_text import advice_lines, judgement_lines
from hypersphere.theory.advisor import Advice, Choice, Imbalance, advise, margins_for, recommended_scale, warn
from hypersphere.theory.collapse import NeuralCollapse, neural_collapse
from hypersphere.theory.expected_softmax import (
    ExpectedSoftmax,
    half_nearest_angle,
    margin_loss,
    polar_collapse_loss,
    target_gradient,
    termination_angle,
    termination_cosine,
    vary,
    wrong_class_gradient,
)
from hypersphere.theory.explorer import explorer_page, save_explorer
from hypersphere.theory.margin_bounds import BalancedErrorBound, balanced_error_bound, smooth_margin_bound
from hypersphere.theory.normface import scale_for_bound, softmax_bound
from hypersphere.theory.tammes import BEST_KNOWN
from hypersphere.theory.termination import loss_termination_angle, target_logit, termination_angle_of
from hypersphere.theory.toy import (
    CONVERGED_DEGREES,
    OPTIMUM_DEGREES,
    TOY_LOSSES,
    TOY_STEPS,
    ToyLoss,
    ToySolution,
    solve_toy,
)
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
    "BEST_KNOWN",
    "CONVERGED_DEGREES",
    "OPTIMUM_DEGREES",
    "TOY_LOSSES",
    "TOY_STEPS",
    "Advice",
    "BalancedErrorBound",
    "Choice",
    "ExpectedSoftmax",
    "Imbalance",
    "NeuralCollapse",
    "SampledWeights",
    "ToyLoss",
    "ToySolution",
    "advice_lines",
    "advise",
    "balanced_error_bound",
    "error_bound",
    "explorer_page",
    "half_nearest_angle",
    "judgement_lines",
    "log_mean_weight",
    "log_negative_weight",
    "log_negative_weight_approximation",
    "loss_termination_angle",
    "margin_loss",
    "margins_for",
    "neural_collapse",
    "polar_collapse_loss",
    "recommended_scale",
    "relative_deviation",
    "sample_negative_weights",
    "save_explorer",
    "scale_for_bound",
    "smooth_margin_bound",
    "softmax_bound",
    "solve_toy",
    "target_gradient",
    "target_logit",
    "termination_angle",
    "termination_angle_of",
    "termination_cosine",
    "vary",
    "warn",
    "wrong_class_gradient",
]
