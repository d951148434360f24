"""How good embeddings are, with honest uncertainty."""

from hypersphere.evaluation.embed import embed
from hypersphere.evaluation.paired import Difference, paired_difference
from hypersphere.evaluation.verification import Roc, Verification, roc_curve, verify_pairs, wilson_interval

__all__ = [
    "Difference",
    "Roc",
    "Verification",
    "embed",
    "paired_difference",
    "roc_curve",
    "verify_pairs",
    "wilson_interval",
]
