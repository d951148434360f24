"""What an item found: numbers and sentences beside the paper's, and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hypersphere.core import Reporter
from hypersphere_papers.engine.setting_fit import SettingFit
from hypersphere_papers.engine.verdict import Verdict, exactly

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NOT_MEASURED = "not measured"
"""What is ours where runs are missing or stopped."""
PROXY_WORDS: Mapping[Verdict, str] = {"held": "agrees", "contradicted": "disagrees", "undecided": "cannot tell"}
"""What a verdict is called where something else stands in for the paper's experiment."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One number or one sentence, beside the paper's.

    Args:
        what: in words, with the unit; for a claim the sentence.
        ours: as text.
        paper: as text; nothing where it prints none.
        tolerance: within which the two had to agree.
        verdict: on the number or the sentence; None where there was nothing to decide.
        alone: what the interval alone would say, where the verdict was withheld.
        detectable: half the width of the interval that was judged: a smaller effect could not have been seen.
        note: the reason of a difference, what an undecided one lacks.
        measured: whether there is something of ours, and nothing is missing of what it is put together from.
        proxy: whether it is about an experiment that only stands in for the paper's.
        row: of the paper's table, where it is a number of that row.
        p_value: of the interval that decides; None where the runs are no test, or several sentences are put together.
    """

    what: str
    ours: str
    paper: str = ""
    tolerance: float | None = None
    verdict: Verdict | None = None
    alone: Verdict | None = None
    detectable: float | None = None
    note: str = ""
    measured: bool = True
    proxy: bool = False
    row: str = ""
    p_value: float | None = None

    @property
    def word(self) -> str:
        """The verdict as it is printed, nothing where there is none; of a proxy whether it agrees."""
        if self.verdict is None:
            return ""
        return PROXY_WORDS[self.verdict] if self.proxy else self.verdict

    def withheld(self, why: str) -> Finding:
        """The same, undecided for a reason; `alone` keeps what it would say without."""
        return replace(self, verdict="undecided", alone=self.alone or self.verdict, note=why)


def number(what: str, ours: str, paper: str = "", note: str = "") -> Finding:
    """A number that is shown and not judged."""
    return Finding(what=what, ours=ours, paper=paper, note=note)


def checked(what: str, ours: str, held: bool, paper: str = "", note: str = "") -> Finding:
    """A statement that was computed, and is true or not."""
    return Finding(what=what, ours=ours, paper=paper, verdict=exactly(held), note=note)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What an item, or a theorem, found.

    Args:
        findings: numbers and sentences.
        figures: by file name without ending, what draws each; nothing is drawn before it is asked for.
        notes: paragraphs.
        fits: of the runs that were judged, by setting.
    """

    findings: Sequence[Finding] = ()
    figures: Mapping[str, Callable[[], Figure]] = field(default_factory=dict)
    notes: Sequence[str] = ()
    fits: Sequence[SettingFit] = ()


@dataclass(frozen=True)
class Theorem:
    """What `hypersphere theory` computes under one name: its line, and what computes it."""

    title: str
    compute: Callable[..., Outcome]
    in_parts: bool = False

    def run(self, progress: Reporter | None = None) -> Outcome:
        """Compute it; where that takes long, `progress(done, total)` is told of its parts."""
        return self.compute(progress) if self.in_parts else self.compute()
