"""An item on the page of its paper: what it claims and what was found, in few words, with one table and one picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace

from hypersphere.core import counted
from hypersphere_papers.catalogue import Entry
from hypersphere_papers.engine.item_details import IMAGES, markdown_table
from hypersphere_papers.engine.job import find_item
from hypersphere_papers.engine.outcome import Finding
from hypersphere_papers.engine.result_file import Result, file_name
from hypersphere_papers.engine.runner import recipe_command

WORDS = 150
"""Of an item on its page, with its table and its picture: the table has as many rows as that allows."""
_FIRST = ("contradicted", "held", "undecided")
"""The order of a table that has not all rows: what a reader would ask for first."""


def item_section(entry: Entry, result: Result | None, results: str) -> list[str]:
    """The lines of an item.

    Args:
        entry: of the catalogue.
        result: of its last run.
        results: folder of the results, as the page links to it.
    """
    above = [f"## {entry.number}", ""]
    above += [f"**Rates**: {entry.rates}", ""] if entry.rates else []
    above += [f"{entry.full_title} ({entry.data}).", ""]
    below = [entry.note, ""] if entry.note else []
    if result is None:
        above += [f"Claim: {entry.claim}", ""] if entry.claim else []
        return [*above, *below, *_not_run(entry), ""]
    above += _found(entry, result)
    shown = _shown(result)
    below += [f"![{entry.number}]({IMAGES}/{result.figures[0]}.png)", ""] if result.figures else []
    below += [_links(result, results), ""] if result.findings or result.fits else []
    rows = len(shown)
    while rows and _words([*above, *_table(entry, shown[:rows]), *below]) > WORDS:
        rows -= 1
    return [*above, *([*_table(entry, shown[:rows]), ""] if rows else []), *below]


def findings_csv(result: Result) -> str:
    """All numbers and sentences of an item as a table for a spreadsheet."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["what", "paper", "ours", "tolerance", "verdict", "alone", "± 95 %", "p", "note"])
    for finding in result.findings:
        tolerance, half_width, p = (
            "" if value is None else f"{value:g}" for value in (finding.tolerance, finding.detectable, finding.p_value)
        )
        alone = replace(finding, verdict=finding.alone).word
        cells = [finding.what, finding.paper, finding.ours, tolerance, finding.word, alone, half_width, p, finding.note]
        writer.writerow(cells)
    return text.getvalue()


def _words(lines: Sequence[str]) -> int:
    return sum(len(line.split()) for line in lines)


def _found(entry: Entry, result: Result) -> list[str]:
    """The claim and the verdicts in a line; of an item that only draws the claim alone."""
    expected = entry.claim or ("The paper's numbers." if entry.values or entry.rows else "")
    claim = [f"Claim: {expected}"] if expected else []
    if any(finding.verdict is not None for finding in result.findings):
        claim.append(f"**{result.summary()}**.")
    if entry.rows:
        claim.append(f"{result.rows_run(entry)} of {len(entry.rows)} printed rows.")
    return [" ".join(claim), ""] if claim else []


def _shown(result: Result) -> list[Finding]:
    """What may stand in the table, the most telling first: judged sentences, or of an item without them its numbers."""
    measured = [finding for finding in result.findings if finding.measured]
    judged = [finding for finding in measured if finding.verdict is not None]
    judged.sort(key=lambda finding: _FIRST.index(finding.verdict or "undecided"))
    return judged or measured


def _links(result: Result, results: str) -> str:
    """Where the rest is."""
    sentences = sum(finding.verdict is not None for finding in result.findings)
    numbers = len(result.findings) - sentences
    counts = [counted(sentences, "sentence")] * (sentences > 0) + [counted(numbers, "number")] * (numbers > 0)
    if runs := sum(fit.seeds for fit in result.fits):
        counts.append(counted(runs, "run"))
    stem = f"{results}/{file_name(result.id)}"
    return f"All {', '.join(counts)}: [table]({stem}.csv), [with fits and settings]({stem}.json)."


def _table(entry: Entry, findings: Sequence[Finding]) -> list[str]:
    """Findings as a table, without the columns in which nothing stands."""
    same_data = entry.kind in ("theory", "illustration") or any(finding.tolerance is not None for finding in findings)
    heads = ["", "paper" if same_data else "paper, its data", "ours", "verdict"]
    rows = [
        [
            finding.what,
            finding.paper,
            finding.ours,
            f"**{finding.word}**" if finding.verdict == "contradicted" else finding.word,
        ]
        for finding in findings
    ]
    kept = [place for place in range(len(heads)) if place == 0 or any(row[place] for row in rows)]
    return markdown_table([heads[place] for place in kept], [[row[place] for place in kept] for row in rows])


def _not_run(entry: Entry) -> list[str]:
    if find_item(entry.id) is not None:
        need = f" It needs {entry.needs}." if entry.kind == "real" else ""
        return [f"**Not run yet.**{need} `{entry.command}`"]
    if entry.kind == "real":
        lines = [f"**Not run.** It needs {entry.needs}."]
    else:
        lines = [f"**Not run yet.** The paper's own experiment needs {entry.needs}."]
    if entry.recipe:
        lines += [f"The recipe for it: `{recipe_command(entry)}`."]
    return lines
