"""Which paired test fits a metric, by the items that were saved of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hypersphere.evaluation.arrays import Array
from hypersphere.evaluation.metrics.roc import Roc, roc_curve
from hypersphere.evaluation.results.decisions import MATED, OPEN_SET, SUBJECT, TRIALS, VALUE
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

_DECISIONS = {"accuracy": "right", "accuracy_hik_svm": "right_hik_svm"}
"""The items that say, one by one, whether an estimate counts them."""


@dataclass(frozen=True, eq=False)
class ResultPair:
    """The items of two results of the same data.

    Args:
        first, second: by name.
        wanted: the metrics to compare.
        replicates: of the bootstrap.
    """

    first: Mapping[str, Array]
    second: Mapping[str, Array]
    wanted: Sequence[str]
    replicates: int = 1000

    def difference(self, name: str) -> Difference | None:
        """The test of a metric; None where no items of it are there."""
        if self._have(f"{VALUE}{name}"):
            return self._of_means(name)
        if name in _DECISIONS and self._have(_DECISIONS[name]):
            return mcnemar(*self._pair(_DECISIONS[name]))
        if self._have(f"{TRIALS}{name.replace('_less_sd', '')}"):
            return self._of_trials(name)
        if self._have("scores", "same"):
            return self._best_accuracies() if name == "best_accuracy" else self._of_curves.get(name)
        rate = name.removeprefix("tpir@fpir=")
        if rate != name and self._have(f"{SUBJECT}tpir"):
            return self._of_open_sets(float(rate))
        return None

    def _have(self, *names: str) -> bool:
        return all(name in items for name in names for items in (self.first, self.second))

    def _pair(self, name: str) -> tuple[Array, Array]:
        return self.first[name], self.second[name]

    def _subjects(self) -> Subjects | None:
        return (self.first["left_subject"], self.first["right_subject"]) if self._have("left_subject") else None

    def _of_means(self, name: str) -> Difference:
        people = self.first.get(f"{SUBJECT}{name}")
        subjects = self._subjects() if people is None else (people, people)
        return compare_means(*self._pair(f"{VALUE}{name}"), subjects=subjects, replicates=self.replicates)

    def _of_trials(self, name: str) -> Difference:
        trials = self._pair(f"{TRIALS}{name.replace('_less_sd', '')}")
        if "_less_sd" in name:
            return compare_lowered(*trials, replicates=self.replicates)
        return compare_trials(*trials)

    def _best_accuracies(self) -> Difference:
        scores, same = self._pair("scores"), self.first["same"]
        one, two = ((each >= roc_curve(each, same).best_threshold()) == same for each in scores)
        return mcnemar(one, two)

    @cached_property
    def _of_curves(self) -> dict[str, Difference]:
        """The tests of all wanted estimates of the curves: curves are drawn once for all of them."""
        same = self.first["same"]
        found = {name: _reading(name, int(same.sum()), len(same)) for name in self.wanted}
        readings = {name: reading for name, reading in found.items() if reading is not None}
        scores = self._pair("scores")
        tests = compare_curves(
            *scores, same, list(readings.values()), subjects=self._subjects(), replicates=self.replicates
        )
        return dict(zip(readings, tests, strict=True))

    def _of_open_sets(self, fpir: float) -> Difference | None:
        galleries = [name.removeprefix(OPEN_SET) for name in self.first if name.startswith(OPEN_SET)]
        first, second = ([items[f"{OPEN_SET}{name}"] for name in galleries] for items in (self.first, self.second))
        found = compare_open_set(
            first,
            second,
            [self.first[f"{MATED}{name}"] for name in galleries],
            fpir,
            subjects=self.first[f"{SUBJECT}tpir"],
            replicates=self.replicates,
        )
        return None if isinstance(found, NotMeasurable) else found


def _reading(name: str, genuine: int, pairs: int) -> Reading | None:
    """What a metric reads off a curve; None for one that is not of a curve."""
    kind, _, rate = name.partition("=")
    if kind == "auc":
        return Reading(Roc.auc, pairs)
    if kind == "eer":
        return Reading(Roc.eer, min(genuine, pairs - genuine))
    if kind == "tar@far":
        return Reading(lambda roc: roc.tar_at(float(rate)), genuine)
    if kind == "fnmr@fmr":
        return Reading(lambda roc: 1 - roc.tar_at(float(rate)), genuine)
    return None
