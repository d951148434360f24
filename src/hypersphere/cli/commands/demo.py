"""Declare `hypersphere demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def add_command(commands: Any) -> None:
    """Add `demo` to the command line."""
    parser = commands.add_parser("demo", help="train three losses on pocket faces and compare them in a report")
    parser.add_argument("--out", type=Path, default=Path("runs/demo"), help="folder of runs and report (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of weights, order and augmentation (%(default)s)")
    parser.set_defaults(run="demo:run", goes_on=True)
