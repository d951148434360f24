"""The table of docs/robustness.md."""

import re
from pathlib import Path

from tests.fuzz.pool import OUTCOMES, Tally
from tests.fuzz.surfaces import SURFACES


def rows(tallies: list[Tally]) -> list[str]:
    """The table in Markdown, with a last row of sums."""
    lines = [
        f"| surface | inputs | {' | '.join(OUTCOMES)} | without an error must stay |",
        "|---" * (3 + len(OUTCOMES)) + "|",
    ]
    for tally in tallies:
        counts = " | ".join(f"{tally.counts[name]:,}" for name in OUTCOMES)
        lines.append(f"| {tally.surface} | {tally.inputs:,} | {counts} | {SURFACES[tally.surface].promise} |")
    sums = " | ".join(f"{sum(tally.counts[name] for tally in tallies):,}" for name in OUTCOMES)
    return [*lines, f"| **all** | {sum(tally.inputs for tally in tallies):,} | {sums} | |"]


def write_table(page: Path, tallies: list[Tally], seed: int) -> None:
    """Put the table between the marks of a page."""
    text = page.read_text()
    made = "\n".join([f"Seed {seed}:", "", *rows(tallies)])
    new, count = re.subn(r"(?s)(<!-- table -->\n).*?(\n<!-- end -->)", lambda found: found[1] + made + found[2], text)
    if count != 1:
        raise ValueError(f"{page}: expected one pair of marks <!-- table --> and <!-- end -->")
    page.write_text(new)
