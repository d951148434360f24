"""What an item of theory tells: a small table beside the paper's numbers, sentences, and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Row:
    """One number.

    Args:
        what: in words, with the unit.
        ours: as text.
        paper: what the paper prints, or nothing.
        note: where they differ, why.
    """

    what: str
    ours: str
    paper: str = ""
    note: str = ""


def verdict(held: bool) -> str:
    """The note of a checked statement."""
    return "held" if held else "DID NOT HOLD"


@dataclass(frozen=True)
class Report:
    """The result of an item.

    Args:
        title: one line.
        rows: the numbers.
        notes: paragraphs below the table.
        figures: by file name without ending, what draws each; nothing is drawn before it is asked for.
        beside: the heading of the column `paper`, where it holds something else.
    """

    title: str
    rows: Sequence[Row]
    notes: Sequence[str] = ()
    figures: Mapping[str, Callable[[], Figure]] = field(default_factory=dict)
    beside: str = "paper"

    def table(self) -> str:
        """The rows as aligned text."""
        cells = [("", "ours", self.beside, ""), *((row.what, row.ours, row.paper, row.note) for row in self.rows)]
        widths = [max(len(line[place]) for line in cells) for place in range(3)]
        lines = [
            f"{what:<{widths[0]}}  {ours:>{widths[1]}}  {paper:>{widths[2]}}  {note}".rstrip()
            for what, ours, paper, note in cells
        ]
        return "\n".join(lines)
