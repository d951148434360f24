"""The reduction over the negatives: the only work that grows with N x C."""

from hypersphere.engines.options import ENGINES, PRECISIONS, EngineOptions, Precision
from hypersphere.engines.reduce import reduce_negatives, reduce_to_loss
from hypersphere.engines.row_losses import MarginSoftmaxRow, RowLoss, SphereFace2Row
from hypersphere.engines.score_functions import (
    CircleNegative,
    DividedAngle,
    Modulated,
    Riesz,
    ScoreFunction,
    Similarity,
)
from hypersphere.engines.spec import KINDS, Kind, Reduced, Reduction, compute_dtype, product, softplus
from hypersphere.engines.triton.available import use_triton
from hypersphere.engines.triton.whole_loss import Recorder

__all__ = [
    "ENGINES",
    "KINDS",
    "PRECISIONS",
    "CircleNegative",
    "DividedAngle",
    "EngineOptions",
    "Kind",
    "MarginSoftmaxRow",
    "Modulated",
    "Precision",
    "Recorder",
    "Reduced",
    "Reduction",
    "Riesz",
    "RowLoss",
    "ScoreFunction",
    "Similarity",
    "SphereFace2Row",
    "compute_dtype",
    "product",
    "reduce_negatives",
    "reduce_to_loss",
    "softplus",
    "use_triton",
]
