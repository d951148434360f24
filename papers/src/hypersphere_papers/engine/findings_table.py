"""Findings as a table for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from hypersphere_papers.engine.outcome import Finding


def findings_table(findings: Sequence[Finding], width: int | None = None) -> str:
    """Findings as aligned text; in lines of at most `width` columns, as far as the numbers leave room."""
    said = ["; ".join(part for part in (found.word, found.note) if part) for found in findings]
    cells = [("", "ours", "expected", "")]
    cells += [(found.what, found.ours, found.paper, text) for found, text in zip(findings, said, strict=True)]
    widths = [max(len(line[place]) for line in cells) for place in range(3)]
    if width is not None:
        widths[0] = min(widths[0], max(width - widths[1] - widths[2] - 4, 20))
    lines = []
    for what, ours, expected, text in cells:
        *above, last = textwrap.wrap(what, widths[0]) or [""]
        row = f"{last:<{widths[0]}}  {ours:>{widths[1]}}  {expected:>{widths[2]}}  "
        lines += [*above, f"{row}{text}".rstrip()]
        if width is not None and len(lines[-1]) > width:
            lines[-1:] = [row.rstrip(), textwrap.indent(textwrap.fill(text, width - 4), " " * 4)]
    return "\n".join(lines)
