"""Every figure and table of the papers as a named item: the catalogue, what runs it, and the pages of results.

An item is a function of a `Job` that returns an `Outcome`, in the folder of its paper, with `@item("normface/fig5")`;
one that judges trained networks is a function of `Evidence`, with `@experiment("normface/table2", settings)`.
"""

from hypersphere_papers.catalogue import KINDS, Catalogue, Entry, Paper, load_catalogue
from hypersphere_papers.engine.findings_table import findings_table
from hypersphere_papers.engine.fit_table import fit_summary, no_tests
from hypersphere_papers.engine.item_details import item_details, not_on_record
from hypersphere_papers.engine.job import Job, find_item, item, item_ids
from hypersphere_papers.engine.outcome import Finding, Outcome, Theorem
from hypersphere_papers.engine.pages import state, write_pages
from hypersphere_papers.engine.result_file import STATE_RULE, STATES, Result, read_result, read_results, shipped_results
from hypersphere_papers.engine.runner import RunOptions, missing, recipe_command, run_entries, run_entry
from hypersphere_papers.largest_margins.theorems import draw_toy
from hypersphere_papers.theorems import THEOREMS

__all__ = [
    "KINDS",
    "STATES",
    "STATE_RULE",
    "THEOREMS",
    "Catalogue",
    "Entry",
    "Finding",
    "Job",
    "Outcome",
    "Paper",
    "Result",
    "RunOptions",
    "Theorem",
    "draw_toy",
    "find_item",
    "findings_table",
    "fit_summary",
    "item",
    "item_details",
    "item_ids",
    "load_catalogue",
    "missing",
    "no_tests",
    "not_on_record",
    "read_result",
    "read_results",
    "recipe_command",
    "run_entries",
    "run_entry",
    "shipped_results",
    "state",
    "write_pages",
]
