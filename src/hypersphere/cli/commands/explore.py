"""Declare `hypersphere explore`."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def add_command(commands: Any) -> None:
    """Add `explore` to the command line."""
    parser = commands.add_parser("explore", help="see losses over angles and on the sphere, on one offline page")
    parser.add_argument("--out", type=Path, default=Path("runs/explore.html"), help="the HTML file (%(default)s)")
    parser.add_argument("--open", action="store_true", help="open it in the browser")
    parser.set_defaults(run="explore:run")
