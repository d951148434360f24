"""Pair verification: every estimate of a curve, and accuracy by folds whose threshold comes from the other folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hypersphere.evaluation.arrays import Bools, Floats, Ints, labels_for, scored_pairs
from hypersphere.evaluation.metrics.roc import Roc, roc_curve
from hypersphere.evaluation.metrics.similarity import own_scores
from hypersphere.evaluation.statistics.bootstrap import (
    PairWeights,
    Subjects,
    bootstrap_pairs,
    bootstrap_roc,
    percentile_estimate,
)
from hypersphere.evaluation.statistics.estimate import (
    Estimate,
    NotMeasurable,
    check_measurable,
    proportion,
    rate_name,
    wilson_interval,
)
from hypersphere.evaluation.statistics.histogram import MEAN_OF_FOLDS, ScoreHistogram, score_histogram
from hypersphere.evaluation.statistics.scores import SortedScores

Metrics = dict[str, Estimate | NotMeasurable]
"""Estimates by name: `accuracy`, `auc`, `eer`, `tar@far=1e-3`, `fnmr@fmr=1e-3`."""

FARS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)


def curve_metrics(roc: Roc, fars: Sequence[float] = FARS) -> Metrics:
    """Area, equal error rate, TAR and FNMR of a curve; pairs are taken as independent.

    Args:
        roc: the curve.
        fars: where TAR and FNMR are wanted.
    """
    metrics: Metrics = {"auc": roc.area(), "eer": roc.equal_error()}
    for far in fars:
        point = roc.operating_point(far)
        metrics[rate_name("tar@far", far)] = point if isinstance(point, NotMeasurable) else point.tar
        metrics[rate_name("fnmr@fmr", far)] = point if isinstance(point, NotMeasurable) else point.fnmr
    return metrics


def pair_metrics(
    scores: npt.ArrayLike,
    same: npt.ArrayLike,
    subjects: Subjects,
    fars: Sequence[float] = FARS,
    *,
    replicates: int = 1000,
    seed: int = 0,
) -> Metrics:
    """The estimates of `curve_metrics` with intervals by bootstrap over subjects, for pairs that share people.

    Args:
        scores: (n,) similarities, higher for the same person.
        same: (n,) truth.
        subjects: (n,) numbers of the people on the first images, and on the second.
        fars: where TAR and FNMR are wanted.
        replicates: how many draws of subjects.
        seed: of the draws.
    """
    roc = roc_curve(scores, same)
    count = PairWeights(roc.genuine + roc.impostors, subjects).count
    usable = [far for far in fars if check_measurable(far, roc.impostors) is None]

    def read(curve: Roc) -> list[float]:
        return [curve.auc(), curve.eer(), *(curve.tar_at(far) for far in usable)]

    drawn = bootstrap_roc(scores, same, read, subjects=subjects, replicates=replicates, seed=seed)
    metrics = curve_metrics(roc, fars)
    method = "bootstrap over subjects"
    for column, (name, value) in enumerate((("auc", roc.auc()), ("eer", roc.eer()))):
        metrics[name] = percentile_estimate(value, drawn[:, column], metrics[name].n, count, method)
    for column, far in enumerate(usable, start=2):
        tar = percentile_estimate(roc.tar_at(far), drawn[:, column], roc.genuine, count, method)
        missed = float(roc.fnmr[roc.point_at(far)])
        metrics[rate_name("tar@far", far)] = tar
        metrics[rate_name("fnmr@fmr", far)] = Estimate(missed, 1 - tar.high, 1 - tar.low, tar.n, tar.interval)
    return metrics


def accuracy_at(genuine: SortedScores, impostors: SortedScores, threshold: float) -> Estimate:
    """Share of right decisions at a threshold: accepted genuine pairs and impostor pairs that are not."""
    accepted, wrongly = (int(scores.at_least([threshold])[0]) for scores in (genuine, impostors))
    return proportion(accepted + impostors.total - wrongly, genuine.total + impostors.total)


@dataclass(frozen=True)
class Verification:
    """The result of a pair protocol.

    Args:
        accuracy: mean over the folds, each at the threshold that is best on the others; the interval is that of the
            share of all pairs.
        deviation: standard deviation over the folds (n - 1); the standard error that LFW prints is this / sqrt(folds).
        fold_accuracies: of each fold.
        fold_thresholds: of each fold, from the others.
        right: (n,) whether each pair was decided rightly, for paired tests.
        roc: over all pairs.
    """

    accuracy: Estimate
    deviation: float
    fold_accuracies: Floats
    fold_thresholds: Floats
    right: Bools
    roc: Roc

    def folds(self) -> dict[str, Any]:
        """Accuracies, thresholds and their deviation, as the details of a result have them."""
        return {
            "fold_accuracies": self.fold_accuracies.tolist(),
            "fold_thresholds": self.fold_thresholds.tolist(),
            "deviation": self.deviation,
        }


def verify_pairs(
    scores: npt.ArrayLike, same: npt.ArrayLike, folds: int | npt.ArrayLike = 10, subjects: Subjects | None = None
) -> Verification:
    """Accuracy of "the same person" by thresholding, each fold in turn tested at the best threshold of the others.

    Args:
        scores: (n,) similarities, higher for the same person; or (folds, n), where row k was made with what the other
            folds than the k-th teach (a mean, a PCA): its threshold is chosen on that row too.
        same: (n,) truth.
        folds: how many consecutive parts of the list, as LFW's; or (n,) the fold of each pair.
        subjects: (n,) numbers of the people on the first images, and on the second, for an interval by bootstrap over
            subjects (1,000 draws, seed 0); without, Wilson's, which takes pairs as independent.
    """
    table = np.atleast_1d(np.asarray(scores))
    member = fold_of_pairs(folds, table.shape[-1])
    similarity, truth = scored_pairs(own_scores(table, member), same)
    similarity = similarity.astype(np.float64)
    rows = np.broadcast_to(table.astype(np.float64), (len(np.unique(member)), len(truth)))
    right = np.zeros(len(truth), dtype=bool)
    thresholds, accuracies = [], []
    for row, fold in zip(rows, np.unique(member), strict=True):
        inside = member == fold
        if truth[~inside].all() or not truth[~inside].any():
            raise ValueError(f"same: outside fold {fold} all pairs are of one kind, so no threshold can be chosen")
        threshold = roc_curve(row[~inside], truth[~inside]).best_threshold()
        right[inside] = (similarity[inside] >= threshold) == truth[inside]
        thresholds.append(threshold)
        accuracies.append(float(right[inside].mean()))
    mean, total = float(np.mean(accuracies)), len(truth)
    accuracy = Estimate(mean, *wilson_interval(min(mean * total, total), total), total, "wilson")
    if subjects is not None:
        accuracy = bootstrap_pairs(right, subjects, mean)
    return Verification(
        accuracy,
        float(np.std(accuracies, ddof=1)),
        np.array(accuracies),
        np.array(thresholds),
        right,
        roc_curve(similarity, truth),
    )


def decided_histogram(found: Verification, scores: Floats, same: Bools, edges: npt.ArrayLike) -> ScoreHistogram:
    """How far the scores of the two kinds of pairs lie apart, with the mean of the folds' thresholds."""
    picture = score_histogram(SortedScores(scores[same]), SortedScores(scores[~same]), edges)
    return picture.at(float(found.fold_thresholds.mean()), MEAN_OF_FOLDS)


def fold_of_pairs(folds: int | npt.ArrayLike, count: int) -> Ints:
    """The fold of each pair, from the number of folds (consecutive parts of nearly equal size) or as given."""
    if np.ndim(folds) == 0:
        number = int(np.asarray(folds))
        if not 2 <= number <= count:
            raise ValueError(f"folds={number} must be at least 2 and at most the number of pairs, {count}")
        sizes = [len(part) for part in np.array_split(np.arange(count), number)]
        return np.repeat(np.arange(number), sizes)
    member = labels_for("folds", folds, count)
    if len(np.unique(member)) < 2:
        raise ValueError("folds names a single fold; a threshold from the other folds needs at least 2")
    return member
