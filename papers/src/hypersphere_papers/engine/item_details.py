"""All that is known of an item: how sure its verdicts are, every sentence and number, its runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from hypersphere.core import counted
from hypersphere_papers.catalogue import Entry
from hypersphere_papers.engine.fit_table import fit_rows, fit_summary, without_fit
from hypersphere_papers.engine.outcome import Finding
from hypersphere_papers.engine.result_file import Result

IMAGES = "images"
"""Folder of the pictures, beside the pages."""


def item_details(entry: Entry, result: Result) -> list[str]:
    """The lines of an item in full, as the site unfolds them below what the page says of it."""
    lines = _conclusion(entry, result) + _findings(entry, result) + _fits(result)
    lines += [f"{note}\n" for note in result.notes]
    lines += [f"![{entry.number}]({IMAGES}/{name}.png)\n" for name in result.figures[1:]]
    versions = " ".join(f"{name} {number}" for name, number in result.versions.items())
    lines += [
        f"`{result.command}`, {result.date}, {result.seconds:g} s{_seeds(entry, result, ', ')}; "
        f"{result.machine}; {versions}.",
        "",
    ]
    return lines + (_printed(entry) if entry.rows and not _covers(entry, result) else [])


def how_sure(entry: Entry, result: Result) -> str:
    """What the verdicts on an item rest on: intervals, tolerances, computation; and which were withheld."""
    judged = [finding for finding in result.findings if finding.verdict is not None and finding.measured]
    widths = [finding.detectable for finding in judged if finding.detectable is not None]
    tolerances = sum(finding.tolerance is not None and finding.detectable is None for finding in judged)
    others = len(judged) - len(widths) - tolerances
    parts = []
    if widths:
        low, high = f"{min(widths):g}", f"{max(widths):g}"
        span = low if low == high else f"{low} to {high}, in the units of the rows"
        parts.append(f"{len(widths)} by a 95 % interval (± {span})")
    if tolerances:
        parts.append(f"{tolerances} by a stated tolerance")
    if others:
        exact = entry.kind in ("theory", "illustration")
        parts.append(f"{others} {'by computation' if exact else 'without an interval'}")
    text = ", ".join(parts)
    if withheld := sum(finding.alone is not None for finding in judged):
        text += f"; {withheld} of them left undecided for the reason beside them"
    return f"{text}{_seeds(entry, result, '; ')}"


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines]


def _seeds(entry: Entry, result: Result, before: str) -> str:
    if entry.kind != "real":
        return ""
    return f"{before}{'seed' if len(result.seeds) == 1 else 'seeds'} {', '.join(map(str, result.seeds))}"


def _conclusion(entry: Entry, result: Result) -> list[str]:
    """What was found and how sure that is; nothing of an item that only draws."""
    if not any(finding.verdict is not None for finding in result.findings):
        return []
    run = "" if result.extent == "run" else f" ({result.extent})"
    lines = [f"- **Found**: {result.summary()}{run}."]
    if result.extent != "not run":
        lines.append(f"- **How sure**: {how_sure(entry, result)}.")
    return [*lines, ""]


def _findings(entry: Entry, result: Result) -> list[str]:
    """Judged sentences; the numbers behind them, folded; what is not on record, in a line that unfolds."""
    measured = [finding for finding in result.findings if finding.measured]
    judged = [finding for finding in measured if finding.verdict is not None]
    rows = [finding for finding in measured if finding.verdict is None]
    lines = [*_table(entry, judged), ""] if judged else []
    if rows and judged:
        lines += _folded(f"{counted(len(rows), 'number')} behind them, not judged", _table(entry, rows))
    elif rows:
        lines += [*_table(entry, rows), ""]
    lost = [finding for finding in result.findings if not finding.measured]
    return [*lines, *(_folded(not_on_record(lost), _reasons(lost)) if lost else [])]


def _fits(result: Result) -> list[str]:
    """How well the runs fit, in a line that unfolds to a table; nothing where there is no run."""
    if not any(fit.seeds for fit in result.fits):
        return []
    heads, rows = fit_rows(result.fits, len(result.seeds))
    blocks = [markdown_table(heads, rows)] if rows else []
    blocks += [[line] for line in without_fit(result.fits)]
    lines = [line for block in blocks for line in (*block, "")][:-1]
    return _folded(f"The runs and their fit: {fit_summary(result.fits)}", lines)


def not_on_record(findings: Sequence[Finding]) -> str:
    """`Not on record: 16 sentences, 26 numbers`."""
    sentences = sum(finding.verdict is not None for finding in findings)
    counts = {"sentence": sentences, "number": len(findings) - sentences}
    return f"Not on record: {', '.join(counted(count, word) for word, count in counts.items() if count)}"


def _reasons(findings: Sequence[Finding]) -> list[str]:
    """What was not measured, by why."""
    by_reason: dict[str, list[str]] = {}
    for finding in findings:
        by_reason.setdefault(finding.note, []).append(finding.what)
    lists = ((reason, "; ".join(dict.fromkeys(names))) for reason, names in by_reason.items())
    return [f"- {f'{reason}: ' if reason else ''}{names}." for reason, names in lists]


def _folded(title: str, lines: Sequence[str]) -> list[str]:
    return [f"<details><summary>{title}</summary>", "", *lines, "", "</details>", ""]


def _table(entry: Entry, findings: Sequence[Finding]) -> list[str]:
    """Findings as a table, without the columns in which nothing stands."""
    same_data = entry.kind in ("theory", "illustration") or any(finding.tolerance is not None for finding in findings)
    heads = ["", "paper" if same_data else "paper, its data", "ours", "tolerance", "verdict", "± 95 %", "note"]
    rows = [
        [
            finding.what,
            finding.paper,
            finding.ours,
            "" if finding.tolerance is None else f"{finding.tolerance:g}",
            f"**{finding.word}**" if finding.verdict == "contradicted" else finding.word,
            "" if finding.detectable is None else f"{finding.detectable:g}",
            _note(finding),
        ]
        for finding in findings
    ]
    kept = [place for place in range(len(heads)) if place == 0 or any(row[place] for row in rows)]
    return markdown_table([heads[place] for place in kept], [[row[place] for place in kept] for row in rows])


def _note(finding: Finding) -> str:
    if finding.alone not in (None, "undecided"):
        return f"{finding.note}; by the interval alone: {finding.alone}"
    return finding.note


def _covers(entry: Entry, result: Result) -> bool:
    """Whether every number of the paper's table stands in the findings."""
    names = {finding.what for finding in result.findings}
    return all(
        f"{row}, {column}" in names
        for row, numbers in entry.rows.items()
        for column, number in zip(entry.columns, numbers, strict=True)
        if not math.isnan(number)
    )


def _printed(entry: Entry) -> list[str]:
    rows = [[name, *("" if math.isnan(n) else f"{n:.10g}" for n in numbers)] for name, numbers in entry.rows.items()]
    return _folded("The paper's numbers", markdown_table(["the paper prints", *entry.columns], rows))
