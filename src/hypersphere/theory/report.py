"""What an item of theory tells: a small table beside the paper's numbers, sentences, and figures."""

from __future__ import annotations

import textwrap
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

    def table(self, width: int | None = None) -> str:
        """The rows as aligned text; in lines of at most `width` columns, as far as the numbers leave room."""
        cells = [("", "ours", self.beside, ""), *((row.what, row.ours, row.paper, row.note) for row in self.rows)]
        widths = [max(len(line[place]) for line in cells) for place in range(3)]
        if width is not None:
            widths[0] = min(widths[0], max(width - widths[1] - widths[2] - 4, 20))
        lines = []
        for what, ours, paper, note in cells:
            *above, last = textwrap.wrap(what, widths[0]) or [""]
            row = f"{last:<{widths[0]}}  {ours:>{widths[1]}}  {paper:>{widths[2]}}  "
            lines += [*above, f"{row}{note}".rstrip()]
            if width is not None and len(lines[-1]) > width:
                lines[-1:] = [row.rstrip(), textwrap.indent(textwrap.fill(note, width - 4), " " * 4)]
        return "\n".join(lines)
