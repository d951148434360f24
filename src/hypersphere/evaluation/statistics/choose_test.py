"""Which paired test compares a metric of two results: stated where the metric is measured, and kept with the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from hypersphere.evaluation.arrays import Array
from hypersphere.evaluation.metrics.roc import Roc, roc_curve
from hypersphere.evaluation.statistics.bootstrap import Subjects
from hypersphere.evaluation.statistics.estimate import NotMeasurable
from hypersphere.evaluation.statistics.paired_tests import (
    Difference,
    Reading,
    compare_curves,
    compare_lowered,
    compare_means,
    compare_open_set,
    compare_trials,
    mcnemar,
)


class PairedBy(StrEnum):
    """What of single items two results are compared by."""

    DECISIONS = "decisions"
    """Whether each was decided rightly: McNemar's exact test."""
    MEANS = "means"
    """Numbers whose mean the metric is: the paired bootstrap."""
    TRIALS = "trials"
    """The metric in every trial: Student's paired t test."""
    TRIALS_LESS_SD = "trials_less_sd"
    """The same, of a metric that is mean - sd: the bootstrap over trials."""
    AUC = "auc"
    """Scores, of which the area under the curve is read off: the paired bootstrap, as for the next three."""
    EER = "eer"
    TAR = "tar"
    FNMR = "fnmr"
    BEST_ACCURACY = "best_accuracy"
    """Scores, decided at the threshold that is best on them: McNemar's exact test."""
    OPEN_SET = "open_set"
    """Scores of probes, gallery by gallery: the paired bootstrap over their people."""
    NOTHING = "nothing"
    """A fact, which estimates nothing."""


_OF_CURVES = (PairedBy.AUC, PairedBy.EER, PairedBy.TAR, PairedBy.FNMR)


@dataclass(frozen=True)
class Pairing:
    """How a metric of two results is compared.

    Args:
        by: what is compared.
        values: names of the items that hold it; of an open set one for each gallery.
        truth: of scores, names of the items that say which are genuine, or which probes have a mate.
        subjects: names of the items that say whose they are: of single items, or of pairs the left and the right ones;
            none where every item stands for itself.
        rate: the FAR or FPIR at which the metric is read off.
    """

    by: PairedBy
    values: tuple[str, ...] = ()
    truth: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    rate: float | None = None

    @property
    def items(self) -> tuple[str, ...]:
        """The names of all items it needs."""
        return self.values + self.truth + self.subjects

    def table(self) -> dict[str, Any]:
        """As result.json has it."""
        names = {key: list(getattr(self, key)) for key in ("values", "truth", "subjects") if getattr(self, key)}
        return {"by": str(self.by), **names, **({} if self.rate is None else {"rate": self.rate})}

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Pairing:
        """What `table` gave; ValueError, KeyError or TypeError for anything else."""
        names = {key: table.get(key, []) for key in ("values", "truth", "subjects")}
        if not all(isinstance(each, list) and all(isinstance(name, str) for name in each) for each in names.values()):
            raise ValueError("names of items that are no lists of text")
        rate = None if table.get("rate") is None else float(table["rate"])
        return cls(PairedBy(table["by"]), **{key: tuple(each) for key, each in names.items()}, rate=rate)


@dataclass(frozen=True, eq=False)
class ResultPair:
    """The items of two results of the same data.

    Args:
        first, second: by name.
        pairings: of the metrics to compare.
        replicates: of the bootstrap.
    """

    first: Mapping[str, Array]
    second: Mapping[str, Array]
    pairings: Mapping[str, Pairing]
    replicates: int = 1000
    _curves: dict[str, Difference] = field(default_factory=dict)

    def difference(self, name: str) -> Difference | None:
        """The test of a metric; None where no items of it are there."""
        pairing = self.pairings.get(name)
        if pairing is None or not all(item in items for item in pairing.items for items in (self.first, self.second)):
            return None
        if pairing.by in _OF_CURVES:
            if name not in self._curves:
                self._curves.update(self._of_curves(pairing))
            return self._curves[name]
        tests: dict[PairedBy, Callable[[Pairing], Difference | None]] = {
            PairedBy.DECISIONS: lambda _: mcnemar(*self._both(pairing)),
            PairedBy.MEANS: self._of_means,
            PairedBy.TRIALS: lambda _: compare_trials(*self._both(pairing)),
            PairedBy.TRIALS_LESS_SD: lambda _: compare_lowered(*self._both(pairing), replicates=self.replicates),
            PairedBy.BEST_ACCURACY: self._of_best_accuracies,
            PairedBy.OPEN_SET: self._of_open_sets,
            PairedBy.NOTHING: lambda _: None,
        }
        return tests[pairing.by](pairing)

    def _both(self, pairing: Pairing) -> tuple[Array, Array]:
        (name,) = pairing.values
        return self.first[name], self.second[name]

    def _subjects(self, pairing: Pairing) -> Subjects | None:
        people = [self.first[name] for name in pairing.subjects]
        return (people[0], people[-1]) if people else None

    def _of_means(self, pairing: Pairing) -> Difference:
        return compare_means(*self._both(pairing), subjects=self._subjects(pairing), replicates=self.replicates)

    def _of_best_accuracies(self, pairing: Pairing) -> Difference:
        same = self.first[pairing.truth[0]]
        one, two = ((each >= roc_curve(each, same).best_threshold()) == same for each in self._both(pairing))
        return mcnemar(one, two)

    def _of_curves(self, pairing: Pairing) -> dict[str, Difference]:
        """The tests of all metrics of the same curves, which are drawn once for all of them."""
        same = self.first[pairing.truth[0]]
        readings = {
            name: reading
            for name, other in self.pairings.items()
            if other.values == pairing.values and (reading := _reading(other, int(same.sum()), len(same)))
        }
        tests = compare_curves(
            *self._both(pairing),
            same,
            list(readings.values()),
            subjects=self._subjects(pairing),
            replicates=self.replicates,
        )
        return dict(zip(readings, tests, strict=True))

    def _of_open_sets(self, pairing: Pairing) -> Difference | None:
        if pairing.rate is None:
            raise ValueError("an open set without a rate")
        first, second = ([items[name] for name in pairing.values] for items in (self.first, self.second))
        found = compare_open_set(
            first,
            second,
            [self.first[name] for name in pairing.truth],
            pairing.rate,
            subjects=self.first[pairing.subjects[0]],
            replicates=self.replicates,
        )
        return None if isinstance(found, NotMeasurable) else found


def _reading(pairing: Pairing, genuine: int, pairs: int) -> Reading | None:
    """What a metric reads off a curve; None for one that is not of a curve."""
    rate = pairing.rate or 0.0
    readings = {
        PairedBy.AUC: Reading(Roc.auc, pairs),
        PairedBy.EER: Reading(Roc.eer, min(genuine, pairs - genuine)),
        PairedBy.TAR: Reading(lambda roc: roc.tar_at(rate), genuine),
        PairedBy.FNMR: Reading(lambda roc: 1 - roc.tar_at(rate), genuine),
    }
    return readings.get(pairing.by)
