"""Evidence: what the records of an item say, with intervals over people and over seeds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hypersphere_papers.engine.interval_text import difference, interval
from hypersphere_papers.engine.job import Job, item
from hypersphere_papers.engine.measure import METRICS
from hypersphere_papers.engine.outcome import NOT_MEASURED, Finding, Outcome
from hypersphere_papers.engine.record import Record
from hypersphere_papers.engine.setting import Setting
from hypersphere_papers.engine.setting_fit import setting_fits
from hypersphere_papers.engine.verdict import (
    ALIKE,
    BETTER,
    FITTED,
    NO_WORSE,
    Interval,
    Rule,
    Verdict,
    every,
    gain_of,
    over_seeds,
    rounded_down,
)

Floats = npt.NDArray[np.float64]
Subjects = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


@dataclass(frozen=True)
class Printed:
    """What the paper prints of a row of its table, of other data, to stand beside ours.

    Args:
        row: of the catalogue.
        text: the number with its column; nothing where the paper prints none.
    """

    row: str
    text: str


class Evidence:
    """The records of an item's settings.

    Args:
        job: the item's.
        records: of each setting, one per seed.
    """

    def __init__(self, job: Job, records: Mapping[Setting, Sequence[Record]]) -> None:
        self.job, self.records = job, records

    def on(self, data: str) -> Evidence:
        """The part of one kind of data, with as many seeds as its settings have."""
        records = {setting: found for setting, found in self.records.items() if setting.data == data}
        seeds = max((len(found) for found in records.values()), default=0)
        return Evidence(replace(self.job, seeds=self.job.seeds[:seeds]), records)

    def stopped(self, setting: Setting) -> str:
        """Why a run of it stopped early, or that runs are missing; nothing where all were measured."""
        if len(self.records[setting]) < len(self.job.seeds):
            return f"{len(self.records[setting])} of {len(self.job.seeds)} seeds are on record"
        return next((f"seed {r.seed} stopped: {r.stopped}" for r in self.records[setting] if r.stopped), "")

    def unfit(self, *settings: Setting) -> str:
        """Why runs are no test of their losses, that is stopped or did not fit; nothing where all are."""
        for setting in settings:
            if problem := self.stopped(setting):
                return f"{setting.title}: {problem}"
            shares = [record.numbers.get("train accuracy", math.nan) for record in self.records[setting]]
            if any(share < FITTED for share in shares):
                return f"{setting.title} did not fit: {rounded_down(min(shares))} % of the training images right"
        return ""

    def judged(
        self, interval: Interval | None, ours: str, settings: Sequence[Setting], *, sentence: str = "", note: str = ""
    ) -> Finding:
        """A measured sentence about settings; undecided where one of their runs is no test."""
        stopped = any(self.stopped(setting) for setting in settings)
        return self.job.judged(
            None if stopped else interval,
            NOT_MEASURED if stopped else ours,
            sentence=sentence,
            note=note,
            problem=self.unfit(*settings),
            measured=not stopped,
            proxy=self.proxy(settings),
        )

    def proxy(self, settings: Sequence[Setting]) -> bool:
        """Whether a sentence about settings is about what stands in for the paper's experiment."""
        return self.job.entry.stands_in == "all" or any(
            setting.small or setting.data == "faces" for setting in settings
        )

    def decided(
        self,
        verdict: Verdict,
        ours: str,
        settings: Sequence[Setting],
        *,
        sentence: str,
        note: str = "",
        fitted: bool = False,
    ) -> Finding:
        """A sentence whose verdict is put together of several; undecided where a run stopped.

        With `fitted` it is undecided, too, where a run did not fit.
        """
        if any(self.stopped(setting) for setting in settings):
            return self.judged(None, ours, settings, sentence=sentence)
        found = Finding(what=sentence, ours=ours, verdict=verdict, note=note, proxy=self.proxy(settings))
        return found.withheld(problem) if fitted and (problem := self.unfit(*settings)) else found

    def value(self, name: str, setting: Setting, metric: str, *, digits: int | None = None, note: str = "") -> Finding:
        """A number of the paper's, beside the mean of a setting over seeds."""
        if problem := self.stopped(setting):
            paper, row = f"{self.job.entry.printed(name):.10g}", name.rpartition(", ")[0]
            return Finding(what=name, ours=NOT_MEASURED, paper=paper, note=problem, measured=False, row=row)
        return self.job.value(name, self.mean(setting, metric), digits=digits, note=note)

    def values(self, setting: Setting, name: str) -> Floats:
        """A number of every seed; NaN where training stopped itself or is not on record."""
        found = [record.numbers.get(name, math.nan) for record in self.records[setting]]
        return np.array(found + [math.nan] * (len(self.job.seeds) - len(found)))

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

    def row(self, setting: Setting, name: str, *, data: str = "", paper: Printed | None = None) -> Finding:
        """A line of a table: the mean of a number of `METRICS`, and the interval over seeds; of those that trained."""
        printed = paper or Printed("", "")
        metric = METRICS[name]
        label = f"{setting.title}: {f'{data}: ' if data else ''}{metric.title}"
        problem, values = self.stopped(setting), self.values(setting, name)
        values = values[np.isfinite(values)]
        if not len(values):
            return Finding(
                what=label, ours=NOT_MEASURED, paper=printed.text, note=problem, measured=False, row=printed.row
            )
        spread = f" ({interval(values, f'.{metric.digits}f', metric.bounds)})" if len(values) > 1 else ""
        ours = f"{values.mean():.{metric.digits}f}{spread}"
        return Finding(what=label, ours=ours, paper=printed.text, note=problem, row=printed.row)

    def printed(self, row: str, column: str) -> Printed:
        """The paper's own number of a row, with its column."""
        number = self.job.entry.printed(f"{row}, {column}")
        return Printed(row, "" if math.isnan(number) else f"{column} {number:.10g}")

    def unprinted(self, row: str) -> Printed | None:
        """Name a row of the paper's table beside a number that it does not print; None where it is no row."""
        return Printed(row, "") if row in self.job.entry.rows else None

    def decisions(self, setting: Setting, outcome: str) -> Floats:
        """(seeds, decisions): whether each was right, or the precision of each query."""
        return np.stack([record.arrays[outcome].astype(np.float64) for record in self.records[setting]])

    def subjects(self, setting: Setting, outcome: str) -> Subjects:
        """Whose images each decision is about."""
        if setting.data == "faces":
            left, right = self.first(setting, f"{outcome} subjects")
            return left, right
        every_image = np.arange(len(self.first(setting, outcome)))
        return every_image, every_image

    def gain(
        self,
        better: Setting,
        worse: Setting,
        outcome: str = "pairs",
        *,
        against: str = "",
        few: int = 0,
        weighted: bool = True,
    ) -> Interval | None:
        """The gain of one setting over another in decisions of the same things, by the seeds that trained with both.

        None where there is no such seed.

        Args:
            better, worse: the second's value is subtracted.
            outcome: which decisions.
            against: of the second, where they have another name.
            few: only those of the last so many classes.
            weighted: count decisions by their `weights`; otherwise alike.
        """
        ours, theirs = ({r.seed: r for r in self.records[each] if not r.stopped} for each in (better, worse))
        seeds = sorted(ours.keys() & theirs.keys())
        if not seeds:
            return None
        left, right = self.subjects(better, outcome)
        one = np.stack([theirs[seed].arrays[against or outcome].astype(np.float64) for seed in seeds])
        two = np.stack([ours[seed].arrays[outcome].astype(np.float64) for seed in seeds])
        chosen = left > left.max() - few if few else np.ones(len(left), dtype=bool)
        weights = self.weights(better, outcome)[chosen] if weighted else None
        found = gain_of(one[:, chosen], two[:, chosen], (left[chosen], right[chosen]), weights)
        self.job.judging()
        return found

    def weights(self, setting: Setting, outcome: str) -> Floats:
        """(decisions,) how much each counts: alike, but for pairs of which a few people have very many."""
        arrays = next(record.arrays for record in self.records[setting] if not record.stopped)
        return arrays.get(f"{outcome} weights", np.ones(len(arrays[outcome])))

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
        return self._judged_gain(better, worse, outcome, said, NO_WORSE if equal else BETTER, against=against, few=few)

    def about_as_good(self, one: Setting, other: Setting, outcome: str, *, sentence: str) -> Finding:
        """That one setting differs from another by less than the margin, on both sides."""
        return self._judged_gain(one, other, outcome, sentence, ALIKE)

    def _judged_gain(
        self, better: Setting, worse: Setting, outcome: str, sentence: str, rule: Rule, **chosen: Any
    ) -> Finding:
        def gain(weighted: bool) -> Interval | None:
            return self.gain(better, worse, outcome, **chosen, weighted=weighted)

        return self.judged_both_ways(
            gain, (better, worse), outcome, sentence=sentence, rule=rule, problem=self.unfit(better, worse)
        )

    def judged_both_ways(
        self,
        gain: Callable[[bool], Interval | None],
        settings: Sequence[Setting],
        outcome: str,
        *,
        sentence: str,
        rule: Rule = BETTER,
        problem: str = "",
    ) -> Finding:
        """A sentence about a gain; where decisions have weights, undecided unless it is decided so without them, too.

        The thresholds of the decisions were chosen by pairs, of which a few people have most.

        Args:
            gain: called with whether decisions count by their weights.
            settings, outcome: whose decisions; the first has their weights.
            sentence, rule, problem: as of `Job.judged`.
        """
        by_people = gain(True)
        text = NOT_MEASURED if by_people is None else by_people.text()
        found = self.job.judged(
            by_people,
            text,
            sentence=sentence,
            rule=rule,
            problem=problem,
            measured=by_people is not None,
            proxy=self.proxy(settings),
        )
        if found.verdict == "undecided" or np.ptp(self.weights(settings[0], outcome)) == 0:
            return found
        by_pairs = gain(False)
        assert by_pairs is not None
        why = f"by pairs, not people: {by_pairs.text()}, {rule(by_pairs)}"
        return found if rule(by_pairs) == found.verdict else found.withheld(why)

    def larger(self, name: str, large: Setting, small: Setting, *, sentence: str = "") -> Finding:
        """That a number is larger under one setting than under another; undecided where a run is no test."""
        one, two, digits = self.values(large, name), self.values(small, name), METRICS[name].digits
        said = sentence or f"{name} is larger under {large.title} than under {small.title}"
        text = f"{one.mean():.{digits}f} and {two.mean():.{digits}f}{difference(one - two, digits)}"
        return self.judged(over_seeds(one - two), text, (large, small), sentence=said)

    def best_inside(
        self, settings: Sequence[Setting], outcome: str, *, chosen_by: str, sentence: str, where: str = ""
    ) -> list[Finding]:
        """That the best of settings, which stand in order, is neither first nor last, and better than the first.

        The best of the inner ones, chosen by other decisions than it is judged by, must be better than both ends.

        Args:
            settings: in order; the first has no margin, weight or whatever it is.
            outcome: the decisions that judge.
            chosen_by: those that choose.
            sentence: that the best is inside.
            where: said after the sentence that it is better than the first.
        """
        first, *inner, last = settings
        means = np.array([self.mean(setting, chosen_by) for setting in inner])
        if np.isnan(means).all():
            return [self.judged(None, NOT_MEASURED, settings, sentence=sentence)]
        best = inner[int(np.nanargmax(means))]
        ends = [
            self.better(best, end, outcome, sentence=f"{best.title} is better than {end.title}{where}")
            for end in (first, last)
        ]
        gains = "; ".join(f"{end.title} {found.ours}" for end, found in zip((first, last), ends, strict=True))
        inside = Finding(
            what=sentence,
            ours=f"{best.title}, {self.mean(best, outcome):.2f}; over {gains}",
            verdict=every([end.verdict or "undecided" for end in ends]),
            note=self.unfit(best, first, last),
            measured=all(end.measured for end in ends),
            proxy=self.proxy(settings),
            p_value=None if any(end.p_value is None for end in ends) else max(end.p_value or 0.0 for end in ends),
        )
        return [inside, ends[0]]


Judge = Callable[[Evidence], Outcome]
Wanted = Callable[[Job], Sequence[Setting]]
_WANTED: dict[str, Wanted] = {}


def experiment(name: str, settings: Sequence[Setting] | Wanted) -> Callable[[Judge], Judge]:
    """Decorator: the function judges the item of this id, from the records of these settings.

    Args:
        name: the id.
        settings: or what makes them, where they depend on the job.
    """
    wanted: Wanted = settings if callable(settings) else lambda _: settings
    _WANTED[name] = wanted

    def enter(judge: Judge) -> Judge:
        item(name)(lambda job: _run(job, wanted(job), judge))
        return judge

    return enter


def _run(job: Job, settings: Sequence[Setting], judge: Judge) -> Outcome:
    """Judge the records of settings that the job has."""
    keys = {setting.key(seed): None for setting in settings for seed in job.seeds}
    failures = [job.gathered.failures[key] for key in keys if key in job.gathered.failures]
    if failures:
        raise ValueError(f"{job.entry.id}: {len(failures)} runs failed, first {failures[0]}")
    found = job.gathered.records
    records = {setting: [found[k] for seed in job.seeds if (k := setting.key(seed)) in found] for setting in settings}
    with job.progress(f"judging {job.entry.id}", "intervals") as bar:
        done = itertools.count(1)
        outcome = judge(Evidence(replace(job, judging=lambda: bar(next(done), 0)), records))
    notes = [*outcome.notes, _trained([found[key] for key in keys if key in found])]
    findings = outcome.findings
    if job.entry.stands_in == "all":
        findings = [replace(finding, proxy=finding.verdict is not None) for finding in findings]
    outcome = replace(outcome, findings=findings, notes=notes, fits=setting_fits(records))
    lost = [s.title for s in settings if s.measure == "features" and all(r.stopped for r in records[s])]
    if not lost:
        return outcome
    return replace(outcome, figures={}, notes=[*outcome.notes, f"No figure: {', '.join(lost)} did not train."])


def _trained(records: Sequence[Record]) -> str:
    """Where the runs of an item were trained, and how long each took."""
    if not records:
        return "No run is on record."
    seconds = [record.seconds for record in records]
    machines = ", and on ".join(sorted({record.machine for record in records}))
    shared = "; other items share some of them" if len(records) > 1 else ""
    return f"{len(records)} runs of {np.mean(seconds):.1f} s each in the mean, on {machines}{shared}."


def settings_of(job: Job) -> Sequence[Setting]:
    """The settings that an item needs; one that trains nothing here needs none."""
    return _WANTED[job.entry.id](job) if job.entry.id in _WANTED else ()
