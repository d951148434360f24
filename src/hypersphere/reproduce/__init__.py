"""Every figure and table of the papers as a named item: the catalogue, what runs it, and the pages of results.

An item is a function of a `Job` that returns an `Outcome`, registered with `@item("normface/fig5")` in a module that is
imported below.
"""

from hypersphere.reproduce import (  # register their items
    illustrations,
    mnist_items,
    mnist_radial,
    mnist_tables,
    pocket,
    theory_items,
)
from hypersphere.reproduce.catalogue import KINDS, Catalogue, Entry, Paper, load_catalogue
from hypersphere.reproduce.items import Finding, Job, Outcome, find_item, from_report, item, item_ids
from hypersphere.reproduce.pages import state, write_pages
from hypersphere.reproduce.results import Result, read_result, read_results
from hypersphere.reproduce.runner import missing, recipe_command, run_entry

__all__ = [
    "KINDS",
    "Catalogue",
    "Entry",
    "Finding",
    "Job",
    "Outcome",
    "Paper",
    "Result",
    "find_item",
    "from_report",
    "illustrations",
    "item",
    "item_ids",
    "load_catalogue",
    "missing",
    "mnist_items",
    "mnist_radial",
    "mnist_tables",
    "pocket",
    "read_result",
    "read_results",
    "recipe_command",
    "run_entry",
    "state",
    "theory_items",
    "write_pages",
]
