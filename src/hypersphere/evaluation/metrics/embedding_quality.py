"""What embeddings are like, apart from any protocol: scatter, margins, accuracy by how often a class was seen."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from hypersphere.evaluation.arrays import Array, Bools, Floats, Ints, finite_rows, labels_for
from hypersphere.evaluation.statistics.bootstrap import bootstrap_mean, percentile_estimate, subject_draws
from hypersphere.evaluation.statistics.estimate import Estimate, exact, wilson_interval
from hypersphere.geometry import class_margin, sample_margins, summarize_sample_margins

MANY, FEW = 100, 20
"""ImageNet-LT's groups: more than 100 training images are many, fewer than 20 few, those between medium."""


def angular_fisher_score(
    embeddings: npt.ArrayLike, labels: npt.ArrayLike, *, replicates: int = 1000, seed: int = 0
) -> Estimate:
    """The angular Fisher score (SphereFace eq. 11, App. E); lower is more discriminative.

        AFS = S_w / S_b,  S_w = sum_i sum_{x in X_i} (1 - cos(x, m_i)),  S_b = sum_i n_i (1 - cos(m_i, m))

    m_i is the mean of class i and m of all embeddings, as they are given: normalise them first for mean directions.

    Args:
        embeddings: (samples, dim).
        labels: (samples,) classes.
        replicates: draws of classes for the interval.
        seed: of the draws.
    """
    rows = finite_rows("embeddings", embeddings).astype(np.float64)
    classes, member, counts = np.unique(
        labels_for("labels", labels, len(rows)), return_inverse=True, return_counts=True
    )
    if len(classes) < 2:
        raise ValueError("labels names a single class; the scatter between classes needs at least 2")
    sums = np.zeros((len(classes), rows.shape[1]))
    np.add.at(sums, member, rows)
    directions = _directions("the mean of a class", sums)
    own = (_directions("an embedding", rows) * directions[member]).sum(axis=1)
    within = np.bincount(member, weights=1 - own)

    def score(weights: Array) -> float:
        middle = _directions("the mean of all embeddings", (weights @ sums)[None])[0]
        return float(weights @ within / (weights @ (counts * (1 - directions @ middle))))

    value = score(np.ones(len(classes)))
    if len(classes) == 2:
        raise ValueError("labels names two classes; an interval over classes needs at least 3")
    draws = subject_draws(len(classes), replicates, seed)
    drawn = np.array([score(weights) for weights in draws if np.count_nonzero(weights) > 1])
    return percentile_estimate(
        value, drawn, len(rows), len(classes), "bootstrap over classes", share=False, unit="ratio"
    )


@dataclass(frozen=True)
class Margins:
    """Margins of a trained sphere (largest-margins eqs. 2.2, 2.5, 2.6).

    Args:
        class_margin: the smallest angle between two prototypes, in degrees.
        mean: mean sample margin, in cosines, bootstrapped over samples.
        minimum: the smallest.
        share_positive: share of samples nearest to their own prototype.
        each: (samples,) the sample margins.
    """

    class_margin: Estimate
    mean: Estimate
    minimum: Estimate
    share_positive: Estimate
    each: Floats = field(repr=False, compare=False)


def margins(embeddings: npt.ArrayLike, prototypes: npt.ArrayLike, labels: npt.ArrayLike) -> Margins:
    """Class margin and sample margins; samples of label -1 are left out.

    Args:
        embeddings: (samples, dim).
        prototypes: (classes, dim).
        labels: (samples,) classes.
    """
    rows = torch.from_numpy(finite_rows("embeddings", embeddings))
    centres = torch.from_numpy(finite_rows("prototypes", prototypes, rows.shape[1]))
    each = sample_margins(rows, centres, torch.from_numpy(labels_for("labels", labels, len(rows))))
    summary, known = summarize_sample_margins(each), each[~each.isnan()].double().numpy()
    hits = int((known > 0).sum())
    return Margins(
        class_margin=exact(float(class_margin(centres).rad2deg()), len(centres), "degrees"),
        mean=bootstrap_mean(known, share=False, unit="cosine"),
        minimum=exact(summary.minimum, len(known), "cosine"),
        share_positive=Estimate(summary.share_positive, *wilson_interval(hits, len(known)), len(known), "wilson"),
        each=known,
    )


def accuracy_by_shots(
    right: npt.ArrayLike, labels: npt.ArrayLike, class_counts: npt.ArrayLike, many: int = MANY, few: int = FEW
) -> dict[str, Estimate]:
    """Mean accuracy of the classes with many, medium and few training images, and of all; empty groups are left out.

    The mean is over classes, as ImageNet-LT's authors take it. The interval is Wilson's for the number of samples that
    an unweighted share would need for the same variance, K^2 / sum_i (1 / n_i): their number, if the test is balanced.

    Args:
        right: (samples,) whether each was classified rightly.
        labels: (samples,) classes.
        class_counts: (classes,) training images of each.
        many: more than this many training images are many.
        few: fewer than this many are few.
    """
    groups = class_accuracies(right, labels, class_counts, many, few)
    return {name: _class_mean(accuracies, tested) for name, (_, accuracies, tested) in groups.items()}


def class_accuracies(
    right: npt.ArrayLike, labels: npt.ArrayLike, class_counts: npt.ArrayLike, many: int = MANY, few: int = FEW
) -> dict[str, tuple[Ints, Floats, Ints]]:
    """By group, as `accuracy_by_shots` has them: its classes, the accuracy of each, and its number of samples."""
    hits: Bools = np.asarray(right, dtype=bool)
    classes, shots = labels_for("labels", labels, len(hits)), np.asarray(class_counts)
    if len(classes) == 0 or classes.min() < 0 or classes.max() >= len(shots):
        raise ValueError(f"labels must lie in [0, {len(shots)}), the classes that class_counts counts")
    tested = np.bincount(classes, minlength=len(shots))
    rightly = np.bincount(classes, weights=hits.astype(np.float64), minlength=len(shots))
    groups: dict[str, Bools] = {
        "many": shots > many,
        "medium": (shots <= many) & (shots >= few),
        "few": shots < few,
        "all": np.ones(len(shots), dtype=bool),
    }
    chosen = {name: np.flatnonzero(group & (tested > 0)) for name, group in groups.items()}
    return {name: (own, rightly[own] / tested[own], tested[own]) for name, own in chosen.items() if len(own)}


def _class_mean(accuracies: Floats, tested: Ints) -> Estimate:
    value = float(accuracies.mean())
    size = len(tested) ** 2 / (1 / tested).sum()
    worth = max(1, int(size + 1e-6))
    return Estimate(value, *wilson_interval(min(value, 1.0) * worth, worth), int(tested.sum()), "wilson")


def _directions(what: str, rows: Floats) -> Floats:
    lengths: Floats = np.linalg.norm(rows, axis=1, keepdims=True)
    if (lengths == 0).any():
        raise ValueError(f"{what} is the zero vector, which has no direction (row {int(np.argmin(lengths))})")
    return rows / lengths
