"""What a protocol measures, before it is a result: several tasks of one protocol each add their part."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hypersphere.evaluation.arrays import Array, Floats
from hypersphere.evaluation.metrics.roc import Roc
from hypersphere.evaluation.metrics.verification import Metrics
from hypersphere.evaluation.statistics.choose_test import PairedBy, Pairing
from hypersphere.evaluation.statistics.estimate import rate_name
from hypersphere.evaluation.statistics.histogram import ScoreHistogram


class LeftOut(int):
    """A count of what was left out of a protocol; all other counts are plain numbers."""


@dataclass(frozen=True)
class ScoredPair:
    """A pair of images, for showing: their names, the score, the threshold it was decided at, and what else to say."""

    left: str
    right: str
    score: float
    threshold: float | None = None
    note: str = ""


@dataclass
class Measurement:
    """Metrics, and what a report draws.

    Args:
        metrics: estimates by name, such as `accuracy`, `eer`, `tar@far=1e-3`; shares are fractions.
        counts: images, pairs; what was left out is counted as `LeftOut`.
        details: further plain values, such as the accuracy of every fold.
        curves: by name, for ROC and DET.
        cmc: by name, the identification rate at rank 1, 2, ...
        histograms: by name, of genuine and impostor scores.
        worst: by what they are (`false matches`, `false non-matches`, `mistakes`), the worst pairs first.
        items: for paired comparisons, (n,) each; docs/result-files.md names them.
        pairings: by metric, which paired test compares it with that of another result.
    """

    metrics: Metrics = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    curves: dict[str, Roc] = field(default_factory=dict)
    cmc: dict[str, Floats] = field(default_factory=dict)
    histograms: dict[str, ScoreHistogram] = field(default_factory=dict)
    worst: dict[str, list[ScoredPair]] = field(default_factory=dict)
    items: dict[str, Array] = field(default_factory=dict)
    pairings: dict[str, Pairing] = field(default_factory=dict)

    def join(self, other: Measurement) -> None:
        """Add what another task has measured."""
        for part in dataclasses.fields(Measurement):
            getattr(self, part.name).update(getattr(other, part.name))

    def add_means(self, values: Mapping[str, npt.ArrayLike], subjects: npt.ArrayLike | None = None) -> None:
        """Keep the items of metrics that are means over items.

        Args:
            values: by metric, (n,) numbers whose mean it is, such as whether each decision is right.
            subjects: (n,) whose items they are; None where every item stands for itself.
        """
        for name, each in values.items():
            value, people = f"value:{name}", () if subjects is None else (f"subject:{name}",)
            self.items[value] = np.asarray(each)
            self.items |= {person: np.asarray(subjects) for person in people}
            self.pairings[name] = Pairing(PairedBy.MEANS, (value,), subjects=people)

    def add_decided_pairs(self, items: Mapping[str, Array], fars: Sequence[float], prefix: str = "") -> None:
        """Keep the items of pairs that were scored and decided, and how the metrics of their curve are compared.

        Args:
            items: `right`, `scores`, `same`; `left_subject` and `right_subject` where people are known.
            fars: of the metrics `tar@far=...` and `fnmr@fmr=...`.
            prefix: before the names of items and metrics, such as `lfw/`.
        """
        self.items |= {f"{prefix}{name}": each for name, each in items.items()}
        people = tuple(f"{prefix}{side}" for side in ("left_subject", "right_subject") if side in items)
        scores, same = (f"{prefix}scores",), (f"{prefix}same",)
        found = {
            "accuracy": Pairing(PairedBy.DECISIONS, (f"{prefix}right",)),
            "best_accuracy": Pairing(PairedBy.BEST_ACCURACY, scores, same),
            "auc": Pairing(PairedBy.AUC, scores, same, people),
            "eer": Pairing(PairedBy.EER, scores, same, people),
            **{rate_name("tar@far", far): Pairing(PairedBy.TAR, scores, same, people, far) for far in fars},
            **{rate_name("fnmr@fmr", far): Pairing(PairedBy.FNMR, scores, same, people, far) for far in fars},
        }
        self.pairings |= {f"{prefix}{name}": pairing for name, pairing in found.items()}
