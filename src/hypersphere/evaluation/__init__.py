"""How good embeddings are, with honest uncertainty."""

from hypersphere.evaluation.bootstrap import bootstrap_mean, bootstrap_roc
from hypersphere.evaluation.counting import ScoreCounts
from hypersphere.evaluation.embed import embed
from hypersphere.evaluation.figures import (
    Figure,
    NotMeasurable,
    clopper_pearson_interval,
    guaranteed_proportion,
    proportion,
    wilson_interval,
)
from hypersphere.evaluation.histogram import ScoreHistogram, score_histogram
from hypersphere.evaluation.roc import RULES, OperatingPoint, Roc, roc_curve, roc_from
from hypersphere.evaluation.scores import Scores, SortedScores
from hypersphere.evaluation.verification import (
    Metrics,
    Verification,
    accuracy_at,
    curve_metrics,
    pair_metrics,
    verify_pairs,
)

__all__ = [
    "RULES",
    "Figure",
    "Metrics",
    "NotMeasurable",
    "OperatingPoint",
    "Roc",
    "ScoreCounts",
    "ScoreHistogram",
    "Scores",
    "SortedScores",
    "Verification",
    "accuracy_at",
    "bootstrap_mean",
    "bootstrap_roc",
    "clopper_pearson_interval",
    "curve_metrics",
    "embed",
    "guaranteed_proportion",
    "pair_metrics",
    "proportion",
    "roc_curve",
    "roc_from",
    "score_histogram",
    "verify_pairs",
    "wilson_interval",
]
