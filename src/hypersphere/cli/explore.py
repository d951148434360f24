"""`hypersphere explore`: losses and the sphere on one offline HTML page."""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path
from typing import Any

import hypersphere as hs
from hypersphere.cli.output import Results, note


def add_command(commands: Any) -> None:
    """Add `explore` to the command line."""
    parser = commands.add_parser("explore", help="see losses over angles and on the sphere, on one offline page")
    parser.add_argument("--out", type=Path, default=Path("runs/explore.html"), help="the HTML file (%(default)s)")
    parser.add_argument("--open", action="store_true", help="open it in the browser")
    parser.set_defaults(run="explore:run")


def run(options: argparse.Namespace) -> Results:
    """Write the page and say where."""
    if options.out.is_dir():
        raise ValueError(f"--out {options.out} is a folder; name the HTML file")
    page = hs.theory.save_explorer(options.out)
    print(f"The page: {page}")
    if options.open and not webbrowser.open(page.resolve().as_uri()):
        note("No browser could be opened; open the file yourself.")
    return Results({"page": page})
