"""Pair verification: LFW, CALFW, CPLFW, AgeDB-30, CFP, packs and any pair list; one set or several pooled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hypersphere.core import Reporter
from hypersphere.core.config import as_table
from hypersphere.evaluation.arrays import Array, Floats, Ints, numbered
from hypersphere.evaluation.embeddings import Embeddings
from hypersphere.evaluation.metrics.similarity import Comparison, own_scores
from hypersphere.evaluation.metrics.verification import (
    FARS,
    Metrics,
    Verification,
    curve_metrics,
    pair_metrics,
    verify_pairs,
)
from hypersphere.evaluation.protocols.official_files import counted
from hypersphere.evaluation.protocols.pairs.pair_list import PairList
from hypersphere.evaluation.protocols.pairs.pair_rows import PairRows, pooled
from hypersphere.evaluation.protocols.worst import worst_decisions
from hypersphere.evaluation.results.decisions import outcomes
from hypersphere.evaluation.results.provenance import items_digest, joined_files
from hypersphere.evaluation.results.result import RULE_SENTENCES, LeftOut, Result
from hypersphere.evaluation.statistics.bootstrap import PairWeights, Subjects, percentile_estimate
from hypersphere.evaluation.statistics.estimate import Estimate
from hypersphere.evaluation.statistics.histogram import MEAN_OF_FOLDS, score_histogram
from hypersphere.evaluation.statistics.scores import SortedScores

RULES = (
    "Accuracy: the mean over folds, each decided at the threshold that is best on the other folds.",
    "Best accuracy: all pairs at the one threshold that is best on these pairs themselves, which is optimistic.",
    *RULE_SENTENCES,
)
POOLED_RULE = (
    "Pooled: metrics without the name of a set are of all pairs of all sets together, at common thresholds; fold k is "
    "fold k of every set."
)
LEARNED_RULE = (
    "Learned: mean and PCA of a fold come from the pairs of the other folds, each image counted as often as it occurs; "
    "curves join the folds' scores."
)
BINS = 80


def evaluate_pairs(
    sets: Sequence[tuple[PairList, Sequence[Embeddings]]],
    comparison: Comparison | None = None,
    *,
    allow_missing: bool = False,
    fars: Sequence[float] = FARS,
    replicates: int = 1000,
    progress: Reporter | None = None,
) -> Result:
    """Verify the pairs of one set, or of several: then each by itself, and all pooled (SphereFace2 sec. 3.1).

    Args:
        sets: each set of pairs with its embeddings; of several (late snapshots) the scores are averaged, and
            `mean_snapshot_accuracy` is the mean of their accuracies (NormFace sec. 5.1).
        comparison: how embeddings are compared; cosines by default.
        allow_missing: leave out pairs whose images have no embedding, and count them.
        fars: where TAR and FNMR are wanted.
        replicates: draws of subjects, for intervals of sets whose people are known.
        progress: called as `progress(done, total)`, by set.
    """
    how = comparison or Comparison()
    if len({pairs.title for pairs, _ in sets}) < len(sets) or not sets:
        raise ValueError(
            f"sets must have different titles: {', '.join(pairs.title for pairs, _ in sets) or 'none given'}"
        )
    gathered = [PairRows.of(pairs, embeddings, allow_missing) for pairs, embeddings in sets]
    whole = gathered[0] if len(sets) == 1 else pooled(gathered)
    parts = [("", whole), *((one.pairs.title, one) for one in gathered if len(sets) > 1)]
    measured = {}
    for done, (title, part) in enumerate(parts, start=1):
        measured[title] = _measure(part, how, fars, replicates)
        if progress is not None:
            progress(done, len(parts))
    metrics: Metrics = {}
    details: dict[str, Any] = {}
    for title, one in measured.items():
        prefix = f"{title}/" if title else ""
        metrics |= {f"{prefix}{name}": estimate for name, estimate in one.metrics.items()}
        details[title or "all"] = one.details
    main = measured[""]
    pairs = whole.pairs
    decided = main.verification
    people = pairs.subjects
    items: dict[str, Array] = {"fold": pairs.folds}
    for title, part in parts:
        items |= {f"{title}/{name}" if title else name: each for name, each in _items(part, measured[title]).items()}
    low, high = (-1.0, 1.0) if how.similarity == "cosine" else (float(main.scores.min()), float(main.scores.max()))
    edges = np.linspace(low, high if high > low else low + 1, BINS + 1)
    genuine, impostors = (SortedScores(main.scores[kind]) for kind in (pairs.same, ~pairs.same))
    options = {
        "center": how.center,
        "pca": how.pca,
        "normalize": how.normalize,
        "similarity": how.similarity,
        "folds": len(decided.fold_accuracies),
        "allow_missing": allow_missing,
        "sets": [one.pairs.title for one in gathered],
        "embeddings": [as_table(dict(made.options)) for _, embeddings in sets for made in embeddings],
        "merge": "mean of scores" if whole.several else "none",
        "intervals": f"{replicates} draws of subjects" if people is not None else "pairs taken as independent",
    }
    rules = RULES + (POOLED_RULE,) * (len(sets) > 1) + (LEARNED_RULE,) * how.learns
    return Result(
        protocol="pairs",
        metrics=metrics,
        options=options,
        rules=rules,
        counts={
            "pairs": len(pairs),
            "genuine": int(pairs.same.sum()),
            "impostors": int((~pairs.same).sum()),
            "repeated_pairs": len(pairs) - len({frozenset(both) for both in zip(pairs.left, pairs.right, strict=True)}),
            "images": len(whole.names),
            **counted(whole.missing),
            "pairs_left_out": LeftOut(whole.missing_pairs),
        },
        details=details,
        curves={title or "all": one.verification.roc for title, one in measured.items()},
        histograms={
            "all": score_histogram(genuine, impostors, edges).at(float(decided.fold_thresholds.mean()), MEAN_OF_FOLDS)
        },
        worst=worst_decisions(
            pairs.left,
            pairs.right,
            pairs.same,
            decided.right,
            main.scores,
            decided.fold_thresholds[np.unique(pairs.folds, return_inverse=True)[1]],
        ),
        items=items,
        items_digest=_digest(pairs),
        files=joined_files([pairs.files, *(made.files for _, embeddings in sets for made in embeddings)]),
        left_out=whole.missing,
    )


@dataclass(frozen=True, eq=False)
class _Measured:
    metrics: Metrics
    details: Mapping[str, Any]
    scores: Floats
    verification: Verification
    snapshots: Floats | None


def _measure(data: PairRows, how: Comparison, fars: Sequence[float], replicates: int) -> _Measured:
    pairs = data.pairs
    parts = [how.fold_scores(values, data.left, data.right, pairs.folds, data.names) for values in data.values]
    table: Floats = np.mean(parts, axis=0)
    people = None if pairs.subjects is None else _numbered(pairs.subjects)
    decided = verify_pairs(table, pairs.same, pairs.folds, people)
    scores = own_scores(table, pairs.folds)
    metrics: Metrics = {"accuracy": decided.accuracy}
    details: dict[str, Any] = {
        "pairs": len(pairs),
        "deviation": decided.deviation,
        "standard_error": decided.deviation / np.sqrt(len(decided.fold_accuracies)),
        "fold_accuracies": decided.fold_accuracies.tolist(),
        "fold_thresholds": decided.fold_thresholds.tolist(),
    }
    rights = None
    if data.several:
        each_own = [verify_pairs(part, pairs.same, pairs.folds) for part in parts]
        own = [each.accuracy.value for each in each_own]
        rights = np.mean([each.right for each in each_own], axis=0)
        metrics["mean_snapshot_accuracy"] = _share(rights, people)
        details["snapshot_accuracies"] = own
    roc = decided.roc
    details["best_threshold"] = roc.best_threshold()
    metrics["best_accuracy"] = _share((scores >= roc.best_threshold()) == pairs.same, people)
    if people is None:
        metrics |= curve_metrics(roc, fars)
    else:
        metrics |= pair_metrics(scores, pairs.same, people, fars, replicates=replicates)
    return _Measured(metrics, details, scores, decided, rights)


def _items(data: PairRows, measured: _Measured) -> dict[str, Array]:
    pairs, decided = data.pairs, measured.verification
    items: dict[str, Array] = {"right": decided.right, "scores": measured.scores, "same": pairs.same}
    if measured.snapshots is not None:
        items |= outcomes({"mean_snapshot_accuracy": measured.snapshots})
    if pairs.subjects is not None:
        items |= dict(zip(("left_subject", "right_subject"), _numbered(pairs.subjects), strict=True))
    return items


def _share(right: npt.ArrayLike, people: Subjects | None) -> Estimate:
    """The share of right decisions, with the interval of drawing people where they are known, pairs otherwise."""
    numbers = np.asarray(right, dtype=np.float64)
    weights = PairWeights(len(numbers), people)
    drawn = weights.means(numbers, 1000, 0)
    return percentile_estimate(float(numbers.mean()), drawn, len(numbers), weights.count, weights.name)


def _numbered(subjects: tuple[Sequence[str], Sequence[str]]) -> tuple[Ints, Ints]:
    count = len(subjects[0])
    numbers = numbered([*subjects[0], *subjects[1]])
    return numbers[:count], numbers[count:]


def _digest(pairs: PairList) -> str:
    rows = zip(pairs.left, pairs.right, pairs.same.tolist(), pairs.folds.tolist(), strict=True)
    return items_digest(f"{left}\t{right}\t{same}\t{fold}" for left, right, same, fold in rows)
