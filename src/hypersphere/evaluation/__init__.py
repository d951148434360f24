"""How good embeddings are, with honest uncertainty."""

from hypersphere.evaluation.embed import embed, embed_images
from hypersphere.evaluation.embed_files import EmbeddedFile, EmbedTask, embed_to_file, ray_engine
from hypersphere.evaluation.embeddings import Embeddings, concatenated, load_embeddings, write_embeddings
from hypersphere.evaluation.metrics.calibrate import (
    ImpostorThreshold,
    all_pairs,
    calibrate_thresholds,
    impostor_thresholds,
)
from hypersphere.evaluation.metrics.embedding_quality import Margins, accuracy_by_shots, angular_fisher_score, margins
from hypersphere.evaluation.metrics.groups import GroupRate, draw_groups, rates_by_group, read_groups
from hypersphere.evaluation.metrics.identification import (
    cmc,
    mate_ranks,
    mated,
    open_set_curve,
    open_set_rate,
    open_set_roc,
    open_set_scores,
    ranks_among,
)
from hypersphere.evaluation.metrics.retrieval import Retrieval, average_precision, retrieve
from hypersphere.evaluation.metrics.roc import RULES, OperatingPoint, Roc, roc_curve, roc_from
from hypersphere.evaluation.metrics.search import Matches, search_gallery
from hypersphere.evaluation.metrics.similarity import Comparison
from hypersphere.evaluation.metrics.tail import HighestScores, tail_roc
from hypersphere.evaluation.metrics.verification import (
    Metrics,
    Verification,
    accuracy_at,
    curve_metrics,
    pair_metrics,
    verify_pairs,
)
from hypersphere.evaluation.results.compare_results import compare_results, read_result, write_comparison
from hypersphere.evaluation.results.measurement import LeftOut, Measurement, ScoredPair
from hypersphere.evaluation.results.report import write_report
from hypersphere.evaluation.results.result import Result, result_table, write_result
from hypersphere.evaluation.results.result_text import comparison_lines, result_lines
from hypersphere.evaluation.statistics.bootstrap import PairWeights, bootstrap_mean, bootstrap_roc
from hypersphere.evaluation.statistics.estimate import (
    Estimate,
    NotMeasurable,
    check_measurable,
    clopper_pearson_interval,
    guaranteed_proportion,
    proportion,
    wilson_interval,
)
from hypersphere.evaluation.statistics.histogram import ScoreHistogram, score_histogram
from hypersphere.evaluation.statistics.paired_tests import (
    Difference,
    compare_accuracy,
    compare_repeated,
    compare_tar,
    mcnemar,
)
from hypersphere.evaluation.statistics.scores import ScoreBuffer, SortedScores

__all__ = [
    "RULES",
    "Comparison",
    "Difference",
    "EmbedTask",
    "EmbeddedFile",
    "Embeddings",
    "Estimate",
    "GroupRate",
    "HighestScores",
    "ImpostorThreshold",
    "LeftOut",
    "Margins",
    "Matches",
    "Measurement",
    "Metrics",
    "NotMeasurable",
    "OperatingPoint",
    "PairWeights",
    "Result",
    "Retrieval",
    "Roc",
    "ScoreBuffer",
    "ScoreHistogram",
    "ScoredPair",
    "SortedScores",
    "Verification",
    "accuracy_at",
    "accuracy_by_shots",
    "all_pairs",
    "angular_fisher_score",
    "average_precision",
    "bootstrap_mean",
    "bootstrap_roc",
    "calibrate_thresholds",
    "check_measurable",
    "clopper_pearson_interval",
    "cmc",
    "compare_accuracy",
    "compare_repeated",
    "compare_results",
    "compare_tar",
    "comparison_lines",
    "concatenated",
    "curve_metrics",
    "draw_groups",
    "embed",
    "embed_images",
    "embed_to_file",
    "guaranteed_proportion",
    "impostor_thresholds",
    "load_embeddings",
    "margins",
    "mate_ranks",
    "mated",
    "mcnemar",
    "open_set_curve",
    "open_set_rate",
    "open_set_roc",
    "open_set_scores",
    "pair_metrics",
    "proportion",
    "ranks_among",
    "rates_by_group",
    "ray_engine",
    "read_groups",
    "read_result",
    "result_lines",
    "result_table",
    "retrieve",
    "roc_curve",
    "roc_from",
    "score_histogram",
    "search_gallery",
    "tail_roc",
    "verify_pairs",
    "wilson_interval",
    "write_comparison",
    "write_embeddings",
    "write_report",
    "write_result",
]
