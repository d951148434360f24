"""How well the runs of a setting fit: only runs that did are a test of their loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from hypersphere_papers.engine.record import Record
from hypersphere_papers.engine.setting import Setting
from hypersphere_papers.engine.verdict import FITTED

FitState = Literal["fitted", "did not fit", "stopped", "not recorded"]
_DATA = {"mnist": "MNIST", "faces": "real faces", "cifar10": "CIFAR-10"}
_DIGITS = 4
"""That are kept: more than one of a million training images changes."""


@dataclass(frozen=True, kw_only=True)
class SettingFit:
    """What the runs of a setting came to on their own training images.

    Args:
        title: of the setting; of several that are the same runs, all of theirs.
        seeds: runs that are on record.
        stopped: why training ended early, of each run in which it did.
        steps: of the optimizer, of a run that was trained to its end; None where none is on record.
        train_accuracy: per cent of the training images right, the mean of the runs that were trained to their end; None
            where it is not on record.
        lowest_train_accuracy: that of the run that has the lowest.
        norm: mean length ||x|| of the embeddings of the training images; None where it is not on record.
    """

    title: str
    seeds: int
    stopped: tuple[str, ...] = ()
    steps: int | None = None
    train_accuracy: float | None = None
    lowest_train_accuracy: float | None = None
    norm: float | None = None

    @property
    def state(self) -> FitState:
        """Whether the runs are a test of the loss: all were trained to their end, and the lowest has fitted."""
        if self.stopped:
            return "stopped"
        if self.lowest_train_accuracy is None:
            return "not recorded"
        return "fitted" if self.lowest_train_accuracy >= FITTED else "did not fit"


def setting_fits(records: Mapping[Setting, Sequence[Record]]) -> list[SettingFit]:
    """The fit of every setting, those whose runs are the same as one, with titles that tell all of them apart."""
    merged: dict[tuple[str, SettingFit], list[Setting]] = {}
    for setting, found in records.items():
        recipe = replace(setting, measure="verification").key(0)
        merged.setdefault((recipe, _fit(setting, found)), []).append(setting)
    titles = _titles([first for first, *_ in merged.values()])
    fits = []
    for (_, fit), (first, *others) in merged.items():
        names = [titles[first], *(each.title for each in others if each.title != first.title)]
        fits.append(replace(fit, title=" / ".join(dict.fromkeys(names))))
    return fits


def _fit(setting: Setting, records: Sequence[Record]) -> SettingFit:
    """The fit without a title. A run that has numbers was trained, even where something else of it is missing."""
    ended = [record for record in records if record.numbers or not record.stopped]
    accuracies, norms = (
        [record.numbers[name] for record in ended if math.isfinite(record.numbers.get(name, math.nan))]
        for name in ("train accuracy", "norm")
    )
    return SettingFit(
        title="",
        seeds=len(records),
        stopped=tuple(record.stopped for record in records if record not in ended),
        steps=_steps(setting, ended),
        train_accuracy=_rounded(fmean, accuracies),
        lowest_train_accuracy=_rounded(min, accuracies),
        norm=_rounded(fmean, norms),
    )


def _rounded(combine: Callable[[Iterable[float]], float], values: Sequence[float]) -> float | None:
    return round(float(combine(values)), _DIGITS) if values else None


def _steps(setting: Setting, ended: Sequence[Record]) -> int | None:
    """The steps of all stages: those that the recipe states, or what the record tells of the last, by their epochs."""
    if not ended:
        return None
    stages = [stage.train for stage in setting.recipe(ended[0].seed).stages()]
    stated = [train.steps for train in stages if train.steps is not None]
    if len(stated) == len(stages):
        return sum(stated)
    last, known = stages[-1], max(record.steps for record in ended)
    epochs = [
        train.epochs
        for train in stages
        if train.epochs is not None and (train.batch_size, train.sampler) == (last.batch_size, last.sampler)
    ]
    return round(known * sum(epochs) / epochs[-1]) if known and len(epochs) == len(stages) else None


def _titles(settings: Sequence[Setting]) -> dict[Setting, str]:
    """Titles; those that several settings have, with what tells these apart: the data, the overrides, the measure."""
    found = {}
    for setting in settings:
        same = [each for each in settings if each.title == setting.title]
        words = [setting.title]
        if any(each.data != setting.data for each in same):
            words.append(_DATA[setting.data])
            same = [each for each in same if each.data == setting.data]
        if any(each.overrides != setting.overrides for each in same):
            common = set.intersection(*(set(each.overrides) for each in same))
            words += [entry for entry in setting.overrides if entry not in common]
            same = [each for each in same if each.overrides == setting.overrides]
        if any(each.measure != setting.measure for each in same):
            words.append(setting.measure)
        found[setting] = ", ".join(words)
    return found
