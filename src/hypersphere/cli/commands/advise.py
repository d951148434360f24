"""Declare `hypersphere advise`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

MARGINS = ("m0", "m1", "m2", "m3")


def add_command(commands: Any) -> None:
    """Add `advise` to the command line."""
    parser = commands.add_parser(
        "advise", help="recommend scale and margins from the numbers of classes and dimensions"
    )
    parser.add_argument("--classes", type=int, help="how many classes (or --counts)")
    parser.add_argument("--dim", type=int, required=True, help="dimensions of the embedding")
    parser.add_argument("--scale", type=float, help="a scale of your own")
    parser.add_argument(
        "--counts", type=Path, help="a text file with the number of samples of every class, one per line"
    )
    for name in MARGINS:
        parser.add_argument(f"--{name}", type=float, help="a margin of your own to judge")
    parser.set_defaults(run="advise:run")
