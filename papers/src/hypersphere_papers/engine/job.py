"""What a runnable item is: a function from a job to an outcome, registered by its id."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hypersphere.core import Reporter, counted, duration
from hypersphere_papers.catalogue import Entry
from hypersphere_papers.engine.outcome import Finding, Outcome, checked
from hypersphere_papers.engine.runs import Announce, Gathered, ProgressFactory, silent
from hypersphere_papers.engine.verdict import BETTER, Interval, Rule, exactly


@dataclass(frozen=True, kw_only=True)
class Job:
    """What an item is given.

    Args:
        entry: its line of the catalogue.
        data: of a `real` item, the path.
        seeds: of an item that trains, one run each.
        epochs: of a `real` item that trains; its own small number by default.
        gathered: the runs that it asked for, and those that broke.
        progress: see `ProgressFactory`.
        announce: called with a sentence before something long begins.
        judging: called after every interval over people, of which an item may need many.
    """

    entry: Entry
    data: Path | None = None
    seeds: tuple[int, ...] = (0,)
    epochs: int | None = None
    gathered: Gathered = field(default_factory=Gathered)
    progress: ProgressFactory = silent
    announce: Announce = lambda _: None
    judging: Callable[[], None] = lambda: None

    @contextlib.contextmanager
    def training(
        self, runs: int, steps: int, seconds_a_step: Callable[[], float]
    ) -> Iterator[Callable[[int], Reporter]]:
        """Announce runs and about how long they take, then show one bar over the steps of all of them.

        Args:
            runs: how many there are.
            steps: of each.
            seconds_a_step: measures how long one takes; called before the first run.

        Yields:
            what gives the reporter of a run by its number, from 0 on.
        """
        self.announce(f"{counted(runs, 'run')} of {steps:,} steps")
        self.announce(f"about {duration(runs * steps * seconds_a_step())}")
        with self.progress(self.entry.id, "steps") as report:
            yield lambda run: lambda done, _: report(run * steps + done, runs * steps)

    def value(self, name: str, ours: float, *, digits: int | None = None, note: str = "") -> Finding:
        """Ours beside the paper's value of that name in the catalogue, judged by its tolerance.

        Args:
            name: of the catalogue's `values`, or "row, column".
            ours: the number.
            digits: behind the point; as many as the paper prints, and one more, by default.
            note: said besides the catalogue's reason.
        """
        paper = self.entry.printed(name)
        tolerance = self.entry.tolerances.get(name, self.entry.tolerance)
        verdict = None if tolerance is None or math.isnan(paper) else exactly(abs(ours - paper) <= tolerance)
        reason = self.entry.reasons.get(name, "") if verdict != "held" else ""
        places = _places(paper) + 1 if digits is None else digits
        text = f"{ours:.{places}f}" if abs(ours) < 1e6 else f"{ours:.5g}"
        return Finding(
            what=name,
            ours=text,
            paper="" if math.isnan(paper) else f"{paper:.10g}",
            tolerance=tolerance,
            verdict=verdict,
            note="; ".join(part for part in (reason, note) if part),
            row="" if name in self.entry.values else name.rpartition(", ")[0],
        )

    def claim(self, held: bool, ours: str, *, sentence: str = "", note: str = "") -> Finding:
        """Whether a sentence that is computed, not measured, is true: the catalogue's claim, or a part of it."""
        return checked(sentence or self.entry.claim, ours, held, note=note)

    def judged(
        self,
        interval: Interval | None,
        ours: str,
        *,
        sentence: str = "",
        note: str = "",
        rule: Rule = BETTER,
        problem: str = "",
        measured: bool = True,
        proxy: bool = False,
    ) -> Finding:
        """A sentence that was measured.

        Args:
            interval: of the amount on the claimed side; without, the sentence is undecided.
            ours: the measurement as text.
            sentence: the catalogue's claim by default.
            note: said besides.
            rule: of the verdict.
            problem: why the runs are no test of the sentence, which is then undecided.
            measured, proxy: as of `Finding`.
        """
        verdict = rule(interval)
        known = interval is not None
        return Finding(
            what=sentence or self.entry.claim,
            ours=ours,
            verdict="undecided" if problem else verdict,
            alone=verdict if problem and known else None,
            detectable=float(f"{interval.half_width:.2g}") if interval is not None else None,
            note=problem or note or ("" if known else "no interval: one run"),
            measured=measured,
            proxy=proxy,
            p_value=None if problem or interval is None else rule.p_value(interval),
        )


Run = Callable[[Job], Outcome]
_ITEMS: dict[str, Run] = {}


def item(*ids: str) -> Callable[[Run], Run]:
    """Decorator: the function runs the catalogue's entries of these ids."""

    def enter(run: Run) -> Run:
        for name in ids:
            if name in _ITEMS:
                raise ValueError(f"item {name!r} is registered twice")
            _ITEMS[name] = run
        return run

    return enter


def find_item(name: str) -> Run | None:
    """What runs an id; None where nothing does yet."""
    return _ITEMS.get(name)


def item_ids() -> list[str]:
    """Every id that something runs."""
    return sorted(_ITEMS)


def _places(number: float) -> int:
    """Digits behind the point that a printed number has."""
    text = f"{number:.10g}"
    return len(text.partition(".")[2]) if "e" not in text else 0
