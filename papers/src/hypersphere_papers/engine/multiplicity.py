"""Several sentences of one item: Holm's correction, and how many would be decided by chance alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hypersphere_papers.engine.outcome import Finding

LEVEL = 0.05
"""How often at most one of an item's sentences is decided by chance alone."""


def corrected(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings with Holm's correction (1979) over those that an interval judges.

    One that is decided by its own interval, but not so surely as one of so many has to be, is undecided. A sentence
    that is put together of several has no interval of its own and stays as it is.
    """
    tested = sorted(
        (place for place, finding in enumerate(findings) if finding.p_value is not None),
        key=lambda place: findings[place].p_value or 0.0,
    )
    result, adjusted = list(findings), 0.0
    for rank, place in enumerate(tested):
        finding = findings[place]
        p = finding.p_value or 0.0
        adjusted = max(adjusted, (len(tested) - rank) * p)
        if adjusted > LEVEL and finding.verdict != "undecided":
            why = f"undecided as one of {len(tested)} sentences (Holm): p = {p:.2g}"
            finding = finding.withheld(f"{why}; {finding.note}" if finding.note else why)
        result[place] = replace(finding, p_value=float(f"{p:.2g}"))
    return result


def by_chance(items: Iterable[Sequence[Finding]]) -> tuple[int, float, float]:
    """Count what chance would decide if no sentence were true.

    Returns:
        how many sentences of all items an interval judges; how many of them would be decided at 95 % each; and how many
        items would have such a sentence after Holm's correction, at most.
    """
    counts = [sum(finding.p_value is not None for finding in findings) for findings in items]
    return sum(counts), LEVEL * sum(counts), LEVEL * sum(count > 0 for count in counts)
