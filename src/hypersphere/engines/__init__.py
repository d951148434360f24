"""The reduction over the negatives: the only work that grows with N x C."""

from hypersphere.engines.options import ENGINES, PRECISIONS, EngineOptions, Precision
from hypersphere.engines.reduce import reduce_negatives
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

__all__ = [
    "ENGINES",
    "KINDS",
    "PRECISIONS",
    "CircleNegative",
    "DividedAngle",
    "EngineOptions",
    "Kind",
    "Modulated",
    "Precision",
    "Reduced",
    "Reduction",
    "Riesz",
    "ScoreFunction",
    "Similarity",
    "compute_dtype",
    "product",
    "reduce_negatives",
    "softplus",
    "use_triton",
]
