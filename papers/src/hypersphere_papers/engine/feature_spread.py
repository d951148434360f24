"""How the features of few dimensions lie, by class: angles within classes and between them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hypersphere.geometry import normalize
from hypersphere_papers.engine.evidence import Evidence, Floats
from hypersphere_papers.engine.interval_text import difference
from hypersphere_papers.engine.outcome import Finding
from hypersphere_papers.engine.record import Record
from hypersphere_papers.engine.setting import Setting
from hypersphere_papers.engine.verdict import over_seeds

Features = tuple[str, Tensor, Tensor]
"""Title, features and labels."""
_SHOWN = 100


@dataclass(frozen=True)
class Spread:
    """How features lie: angles in degrees.

    Args:
        within: mean angle of a feature to the mean direction of its class.
        between: smallest angle between the mean directions of two classes.
        empty: of 2-D features, the largest sector of the plane without any class's mean direction.
    """

    within: float
    between: float
    empty: float


def spread(features: Tensor, labels: Tensor) -> Spread:
    """Measure the directions of features by class."""
    unit = normalize(features.double(), eps=0.0)
    means = normalize(torch.stack([unit[labels == c].mean(0) for c in range(int(labels.max()) + 1)]), eps=0.0)
    own = (unit * means[labels]).sum(1).clamp(-1, 1).acos()
    between = (means @ means.T).fill_diagonal_(-1).clamp(-1, 1).max().acos()
    around = torch.atan2(means[:, 1], means[:, 0]).sort().values
    gaps = torch.diff(torch.cat([around, around[:1] + 2 * math.pi]))
    return Spread(*(math.degrees(float(angle)) for angle in (own.mean(), between, gaps.max())))


def features_of(record: Record, title: str, new: str = "") -> Features:
    """Title, features and labels of training images, or of `"new "` ones."""
    points, labels = record.arrays[f"{new}features"], record.arrays[f"{new}labels"]
    return title, torch.from_numpy(points).float(), torch.from_numpy(labels.astype(np.int64))


def spread_ratio(record: Record) -> float:
    """Mean angle of features to the mean direction of their class, over the smallest angle between two of these."""
    found = spread(*features_of(record, "")[1:])
    return found.within / found.between


def ratios(evidence: Evidence, setting: Setting) -> Floats:
    """`spread_ratio` of every seed; NaN where training stopped itself or is not on record."""
    return of_seeds(evidence, setting, spread_ratio)


def of_seeds(evidence: Evidence, setting: Setting, measure: Callable[[Record], float]) -> Floats:
    """A number of every seed; NaN where training stopped itself or is not on record."""
    found = [math.nan if record.stopped else measure(record) for record in evidence.records[setting]]
    return np.array(found + [math.nan] * (len(evidence.job.seeds) - len(found)))


def falling(evidence: Evidence, before: Setting, after: Setting) -> Finding:
    """That the ratio is smaller for one setting than for the one before."""
    one, two = ratios(evidence, before), ratios(evidence, after)
    sentence = f"angles within a class over those between classes fall from {before.title} to {after.title}"
    text = f"{one.mean():.3f}, then {two.mean():.3f}{difference(two - one, 3)}"
    return evidence.judged(over_seeds(one - two), text, (before, after), sentence=sentence)


def drawn(evidence: Evidence, setting: Setting, images: int = _SHOWN) -> Features:
    """Title, features and labels of the first seed, so many of every class."""
    labels = evidence.first(setting, "labels").astype(np.int64)
    chosen = np.concatenate([np.flatnonzero(labels == c)[:images] for c in np.unique(labels)])
    points = torch.from_numpy(evidence.first(setting, "features")[chosen])
    return setting.title, points, torch.from_numpy(labels[chosen])
