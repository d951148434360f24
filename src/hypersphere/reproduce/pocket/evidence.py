"""Evidence: what the records of an item say, with intervals over people and over seeds."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hypersphere.evaluation.paired import compare_means
from hypersphere.reproduce.items import Finding, Job, Outcome, item
from hypersphere.reproduce.pocket.images import NEW_IMAGES, unseen_labels
from hypersphere.reproduce.pocket.measure import probes, unseen_pairs
from hypersphere.reproduce.pocket.records import Record
from hypersphere.reproduce.pocket.runs import gather
from hypersphere.reproduce.pocket.settings import Setting

Floats = npt.NDArray[np.float64]
PEOPLE = (
    "Pocket faces: cnn4 trained on 200 people with 20 images of 32 x 32, 620 steps of AdamW; tested on 400 other "
    "people (identities 30,000,000 and up), on whom no setting was chosen. Gains are in points, with their interval "
    "over people (paired, means of the seeds) and every seed's own. A sentence held where the whole interval "
    "and every seed are on its side; 'at least as good' held unless the interval is wholly below zero."
)
CLASSES = (
    "Pocket faces: cnn4 as a classifier of the people named, tested on 100 new images of each. Numbers are means over "
    "seeds with Student's interval; a sentence held where every seed agrees, even where the "
    "interval of so few seeds reaches zero."
)


@dataclass(frozen=True)
class Gain:
    """How much better one setting is than another.

    Args:
        mean: in points, over seeds.
        low, high: 95 % over people, paired by decision.
        seeds: of every seed alone.
    """

    mean: float
    low: float
    high: float
    seeds: tuple[float, ...]

    @property
    def better(self) -> bool:
        """The interval over people and every seed are above zero."""
        return self.low > 0 and min(self.seeds) > 0

    @property
    def not_worse(self) -> bool:
        """Above zero, or zero is within the interval over people."""
        return self.mean >= 0 or self.high >= 0

    def text(self) -> str:
        """`+1.20 (+0.80 to +1.60; seeds +0.50, +1.20, +1.90)`."""
        over_seeds = f"; seeds {each(self.seeds, '+.2f')}" if len(self.seeds) > 1 else ""
        return f"{self.mean:+.2f} ({self.low:+.2f} to {self.high:+.2f}{over_seeds})"


class Evidence:
    """The records of an item's settings.

    Args:
        job: the item's.
        records: of each setting, one per seed.
    """

    def __init__(self, job: Job, records: Mapping[Setting, Sequence[Record]]) -> None:
        self.job, self.records = job, records

    def stopped(self, setting: Setting) -> str:
        """Why a run of it stopped early; nothing where none did."""
        return next((f"seed {r.seed} stopped: {r.stopped}" for r in self.records[setting] if r.stopped), "")

    def values(self, setting: Setting, name: str) -> Floats:
        """A number of every seed; NaN where training stopped itself."""
        return np.array([record.numbers.get(name, math.nan) for record in self.records[setting]])

    def mean(self, setting: Setting, name: str) -> float:
        """Over seeds; NaN where one of them stopped."""
        return float(self.values(setting, name).mean())

    def array(self, setting: Setting, name: str) -> npt.NDArray[Any]:
        """An array, summed over seeds (counts of histograms); zeros of one bin where training stopped."""
        found = [record.arrays[name] for record in self.records[setting] if name in record.arrays]
        return np.sum(found, axis=0) if found else np.zeros(1)

    def first(self, setting: Setting, name: str) -> npt.NDArray[Any]:
        """An array of the first seed that trained."""
        for record in self.records[setting]:
            if not record.stopped:
                return record.arrays[name]
        raise ValueError(f"{setting.title}: no seed trained; {self.stopped(setting)}")

    def row(self, setting: Setting, name: str, *, unit: str = "", paper: str = "", digits: int = 2) -> Finding:
        """A line of a table: the mean and the interval over seeds."""
        label = f"{setting.title}{f': {unit}' if unit else ''}"
        problem = self.stopped(setting)
        if problem:
            return Finding(what=label, ours="not measured", paper=paper, note=problem)
        values = self.values(setting, name)
        bounds = (0.0, 100.0) if unit.endswith("%") else (-math.inf, math.inf)
        spread = f" ({interval(values, f'.{digits}f', bounds)})" if len(values) > 1 else ""
        return Finding(what=label, ours=f"{values.mean():.{digits}f}{spread}", paper=paper)

    def printed(self, row: str, column: str) -> str:
        """The paper's own number of a row, with its column: of other data, to stand beside ours."""
        number = self.job.entry.printed(f"{row}, {column}")
        return "" if math.isnan(number) else f"{column} {number:.10g}"

    def decisions(self, setting: Setting, outcome: str) -> Floats:
        """(seeds, decisions): whether each was right, or the precision of each query."""
        return np.stack([record.arrays[outcome].astype(np.float64) for record in self.records[setting]])

    def gain(
        self, better: Setting, worse: Setting, outcome: str = "pairs", *, against: str = "", few: int = 0
    ) -> Gain | None:
        """The gain of one setting over another in decisions of the same things; None where a run stopped itself.

        Args:
            better, worse: the second's figure is subtracted.
            outcome: which decisions.
            against: of the second, where they have another name.
            few: only those of the last so many classes.
        """
        if self.stopped(better) or self.stopped(worse):
            return None
        left, right = subjects_of(better, outcome)
        one, two = self.decisions(worse, against or outcome), self.decisions(better, outcome)
        chosen = left > left.max() - few if few else np.ones(len(left), dtype=bool)
        return gain_of(one[:, chosen], two[:, chosen], (left[chosen], right[chosen]))

    def better(
        self,
        better: Setting,
        worse: Setting,
        outcome: str = "pairs",
        *,
        sentence: str = "",
        equal: bool = False,
        against: str = "",
        few: int = 0,
    ) -> Finding:
        """That one setting is better than another (or, with `equal`, no worse); `against` and `few` as for `gain`."""
        words = "at least as good as" if equal else "better than"
        said = sentence or f"{better.title} is {words} {worse.title}"
        gain = self.gain(better, worse, outcome, against=against, few=few)
        if gain is None:
            problem = self.stopped(worse)
            if problem and not self.stopped(better):
                return self.job.claim(True, "a run of the other stopped", sentence=said, note=problem)
            return self.job.claim(False, "a run of it stopped", sentence=said, note=self.stopped(better))
        held = gain.not_worse if equal else gain.better
        undecided = "" if held or gain.high < 0 or equal else "undecided: not every seed, or not the whole interval"
        return self.job.claim(held, gain.text(), sentence=said, note=undecided)

    def larger(self, name: str, large: Setting, small: Setting, *, sentence: str = "", digits: int = 2) -> Finding:
        """That a number is larger under one setting than under another, in every seed; open where a run stopped."""
        one, two = self.values(large, name), self.values(small, name)
        said = sentence or f"{name} is larger under {large.title} than under {small.title}"
        problem = self.stopped(large) or self.stopped(small)
        if problem:
            return Finding(what=said, ours="not measured", note=problem)
        text = f"{one.mean():.{digits}f} and {two.mean():.{digits}f}{difference(one - two, digits)}"
        return self.job.claim(bool((one > two).all()), text, sentence=said)

    def best_inside(
        self, settings: Sequence[Setting], outcome: str, *, none: Setting | None = None, sentence: str = ""
    ) -> list[Finding]:
        """That the best of settings, which stand in order, is neither the first nor the last, and better than none."""
        means = np.array([self.mean(setting, outcome) for setting in settings])
        if np.isnan(means).all():
            return [self.job.claim(False, "none trained", sentence=sentence)]
        place = int(np.nanargmax(means))
        best = settings[place]
        found = [
            self.job.claim(
                0 < place < len(settings) - 1,
                f"{best.title}, {means[place]:.2f}",
                sentence=sentence,
                note="the best is chosen on the people it is judged on",
            )
        ]
        if none is not None and none != best:
            found.append(self.better(best, none, outcome))
        return found


def gain_of(worse: Floats, better: Floats, subjects: tuple[npt.ArrayLike, npt.ArrayLike]) -> Gain:
    """The gain in points, of (seeds, decisions) each."""
    figure = compare_means(worse.mean(0), better.mean(0), subjects=subjects).figure
    each = 100 * (better - worse).mean(1)
    return Gain(100 * figure.value, 100 * figure.low, 100 * figure.high, tuple(float(gain) for gain in each))


@functools.cache
def _unseen_subjects(outcome: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    labels = unseen_labels()
    if outcome.startswith("pairs"):
        left, right, _ = unseen_pairs()
        return labels[left], labels[right]
    people = labels[probes()] if outcome == "probes" else np.unique(labels)
    return people, people


def subjects_of(setting: Setting, outcome: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Whose images each decision is about."""
    if outcome != "samples":
        return _unseen_subjects(outcome)
    people = np.repeat(np.arange(setting.recipe(0).data.identities), NEW_IMAGES)
    return people, people


def each(values: Sequence[float] | Floats, form: str) -> str:
    """`+0.50, +1.20, +1.90`."""
    return ", ".join(f"{value:{form}}" for value in values)


def difference(values: Floats, digits: int) -> str:
    """`; difference -0.01 to +0.05, by seed +0.010, +0.020, +0.030`; nothing of one seed."""
    if len(values) < 2:
        return ""
    return f"; difference {interval(values, f'+.{digits}f')}, by seed {each(values, f'+.{digits + 1}f')}"


def interval(values: npt.ArrayLike, form: str, bounds: tuple[float, float] = (-math.inf, math.inf)) -> str:
    """Student's 95 % interval of the mean of a few values, cut at the bounds of what they can be."""
    from scipy.stats import t

    numbers: Floats = np.asarray(values, dtype=np.float64)
    mean = numbers.mean()
    half = t.ppf(0.975, len(numbers) - 1) * numbers.std(ddof=1) / math.sqrt(len(numbers)) if len(numbers) > 1 else 0.0
    return f"{max(mean - half, bounds[0]):{form}} to {min(mean + half, bounds[1]):{form}}"


Judge = Callable[[Evidence], Outcome]
_SETTINGS: dict[str, tuple[Setting, ...]] = {}


def pocket_item(name: str, settings: Sequence[Setting]) -> Callable[[Judge], Judge]:
    """Decorator: the function judges the item of this id, from the records of these settings."""
    _SETTINGS[name] = tuple(settings)

    def enter(judge: Judge) -> Judge:
        def run(job: Job) -> Outcome:
            with job.progress(name, "steps") as report:
                got = gather(settings, job.seeds, job.cache, jobs=job.jobs, device=job.device, progress=report)
            if got.failures:
                raise ValueError(f"{name}: {len(got.failures)} runs failed, first {next(iter(got.failures.values()))}")
            records = {setting: [got.records[setting.key(seed)] for seed in job.seeds] for setting in settings}
            outcome = judge(Evidence(job, records))
            findings = [_measured(finding) for finding in outcome.findings]
            outcome = replace(outcome, findings=findings, notes=[*outcome.notes, _trained(got.records)])
            lost = [s.title for s in settings if s.measure == "features" and all(r.stopped for r in records[s])]
            if not lost:
                return outcome
            return replace(outcome, figures={}, notes=[*outcome.notes, f"No figure: {', '.join(lost)} did not train."])

        item(name)(run)
        return judge

    return enter


def _measured(finding: Finding) -> Finding:
    """A finding with a NaN among its numbers, of a run that stopped, is left open."""
    if not re.search(r"\bnan\b", finding.ours):
        return finding
    return replace(finding, ours="not measured", held=None, note=finding.note or "a run stopped")


def _trained(records: Mapping[str, Record]) -> str:
    """Where the runs of an item were trained, and how long each took."""
    seconds = [record.seconds for record in records.values()]
    machines = ", and on ".join(sorted({record.machine for record in records.values()}))
    shared = "; other items share some of them" if len(records) > 1 else ""
    return f"{len(records)} runs of {np.mean(seconds):.1f} s each in the mean, on {machines}{shared}."


def settings_of(names: Sequence[str]) -> list[Setting]:
    """All settings that items need; items that train nothing here need none."""
    return [setting for name in names for setting in _SETTINGS.get(name, ())]
