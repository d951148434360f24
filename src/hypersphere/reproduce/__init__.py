"""Every figure and table of the papers as a named item: the catalogue, what runs it, and the pages of results.

An item is a function of a `Job` that returns an `Outcome`, in the folder of its paper, with `@item("normface/fig5")`;
one that judges trained networks is a function of `Evidence`, with `@experiment("normface/table2", settings)`.
"""

from hypersphere.reproduce.catalogue import KINDS, Catalogue, Entry, Paper, load_catalogue
from hypersphere.reproduce.findings_table import findings_table
from hypersphere.reproduce.fit_table import fit_summary, no_tests
from hypersphere.reproduce.item_section import not_on_record
from hypersphere.reproduce.job import Job, find_item, item, item_ids
from hypersphere.reproduce.outcome import Finding, Outcome, Theorem
from hypersphere.reproduce.pages import state, write_pages
from hypersphere.reproduce.papers import THEOREMS
from hypersphere.reproduce.papers.largest_margins.theorems import draw_toy
from hypersphere.reproduce.result_file import STATE_RULE, Result, read_result, read_results, shipped_results
from hypersphere.reproduce.runner import RunOptions, missing, recipe_command, run_entries, run_entry

__all__ = [
    "KINDS",
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
