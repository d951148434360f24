"""`hypersphere explore`: losses and the sphere on one offline HTML page."""

from __future__ import annotations

import argparse
import webbrowser

from hypersphere.cli.output import Results, note
from hypersphere.theory import save_explorer


def run(options: argparse.Namespace) -> Results:
    """Write the page and say where."""
    if options.out.is_dir():
        raise ValueError(f"--out {options.out} is a folder; name the HTML file")
    page = save_explorer(options.out)
    print(f"The page: {page}")
    if options.open and not webbrowser.open(page.resolve().as_uri()):
        note("No browser could be opened; open the file yourself.")
    return Results({"page": page})
