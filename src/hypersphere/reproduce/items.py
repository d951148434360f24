"""What a runnable item is: a function from a job to findings and figures, registered by its id."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hypersphere.core import Reporter, duration
from hypersphere.reproduce.catalogue import Entry
from hypersphere.reproduce.verdicts import Interval, Verdict, judge
from hypersphere.theory import Report, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ProgressFactory = Callable[[str, str], contextlib.AbstractContextManager[Reporter]]
"""Called with a title and a unit; gives a reporter of (done, total)."""


@contextlib.contextmanager
def silent(title: str, unit: str) -> Iterator[Reporter]:
    """Progress that nobody sees."""
    yield lambda done, total: None


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One number or one sentence, beside the paper's.

    Args:
        what: in words, with the unit; for a claim the sentence.
        ours: as text.
        paper: as text; nothing where it prints none.
        tolerance: within which the two had to agree.
        verdict: on the number or the sentence; None where there was nothing to decide.
        alone: what the interval alone would say, where the runs are no test and the verdict is undecided.
        detectable: half the width of the interval that was judged: a smaller effect could not have been seen.
        note: the reason of a difference, what an undecided one lacks.
    """

    what: str
    ours: str
    paper: str = ""
    tolerance: float | None = None
    verdict: Verdict | None = None
    alone: Verdict | None = None
    detectable: float | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What an item found.

    Args:
        findings: numbers and sentences.
        figures: by file name without ending, what draws each.
        notes: paragraphs.
        seeds: that were used; those of the job by default.
    """

    findings: Sequence[Finding] = ()
    figures: Mapping[str, Callable[[], Figure]] = field(default_factory=dict)
    notes: Sequence[str] = ()
    seeds: tuple[int, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Job:
    """What an item is given.

    Args:
        entry: its line of the catalogue.
        data: of a `real` item, the path.
        seeds: of a `pocket` or `real` item that trains, one run each.
        epochs: of a `real` item that trains; its own small number by default.
        cache: of a `pocket` item, the folder of its runs.
        jobs: of a `pocket` item, processes that train at once.
        device: of a `pocket` item that trains.
        progress: see `ProgressFactory`.
        announce: called with a sentence before something long begins.
    """

    entry: Entry
    data: Path | None = None
    seeds: tuple[int, ...] = (0,)
    epochs: int | None = None
    cache: Path = Path("runs/reproduce/cache")
    jobs: int = 1
    device: str = "cpu"
    progress: ProgressFactory = silent
    announce: Callable[[str], None] = lambda _: None

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
        self.announce(f"{runs} {'run' if runs == 1 else 'runs'} of {steps:,} steps")
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
        verdict = None if tolerance is None or math.isnan(paper) else _exactly(abs(ours - paper) <= tolerance)
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
        )

    def claim(self, held: bool, ours: str, *, sentence: str = "", note: str = "") -> Finding:
        """Whether a sentence that is computed, not measured, is true: the catalogue's claim, or a part of it."""
        return Finding(what=sentence or self.entry.claim, ours=ours, verdict=_exactly(held), note=note)

    def judged(
        self,
        interval: Interval | None,
        ours: str,
        *,
        sentence: str = "",
        note: str = "",
        margin: float = 0.0,
        problem: str = "",
    ) -> Finding:
        """A sentence that was measured, by the rule of `judge`.

        Args:
            interval: of the amount on the claimed side; without, the sentence is undecided.
            ours: the measurement as text.
            sentence: the catalogue's claim by default.
            note: said besides.
            margin: of non-inferiority.
            problem: why the runs are no test of the sentence, which is then undecided.
        """
        verdict = judge(interval, margin=margin)
        known = interval is not None
        return Finding(
            what=sentence or self.entry.claim,
            ours=ours,
            verdict="undecided" if problem else verdict,
            alone=verdict if problem and known else None,
            detectable=float(f"{interval.half_width:.2g}") if interval is not None else None,
            note=problem or note or ("" if known else "no interval: one run"),
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


def from_rows(rows: Iterable[Row]) -> list[Finding]:
    """Rows of a theory report, with the verdicts of their notes."""
    verdicts: dict[str, Verdict] = {"held": "held", "reached": "held", "DID NOT HOLD": "contradicted"}
    return [
        Finding(
            what=row.what,
            ours=row.ours,
            paper=row.paper,
            verdict=verdicts.get(row.note.rpartition("corrected ")[2]),
            note=row.note,
        )
        for row in rows
    ]


def from_report(
    report: Report, figures: Mapping[str, str] | None = None, *, rows: Sequence[Row] | None = None
) -> Outcome:
    """A theory report as an outcome.

    Args:
        report: of `hypersphere.theory`.
        figures: our names of those of its figures that belong here; all by default.
        rows: those that belong here; all by default.
    """
    chosen = {name: name for name in report.figures} if figures is None else figures
    return Outcome(
        findings=from_rows(report.rows if rows is None else rows),
        figures={new: report.figures[old] for old, new in chosen.items()},
        notes=report.notes,
    )


def _exactly(held: bool) -> Verdict:
    return "held" if held else "contradicted"


def _places(number: float) -> int:
    """Digits behind the point that a printed number has."""
    text = f"{number:.10g}"
    return len(text.partition(".")[2]) if "e" not in text else 0
