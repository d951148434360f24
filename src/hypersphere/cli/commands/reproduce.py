"""Declare `hypersphere reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypersphere.cli.parser import add_device, add_seeds

KINDS = ("theory", "illustration", "pocket", "real")


def add_command(commands: Any) -> None:
    """Add `reproduce` to the command line."""
    parser = commands.add_parser("reproduce", help="every figure and table of the papers, by name")
    parser.add_argument("items", nargs="*", metavar="ITEM", help="such as normface/fig5")
    parser.add_argument("--list", action="store_true", help="list the items: kind, verdict, what each needs")
    parser.add_argument("--all", action="store_true", help="run every item that can run (of --kind and --paper)")
    parser.add_argument("--kind", choices=KINDS, help="only items of a kind")
    parser.add_argument("--paper", help="only items of a paper, such as normface")
    parser.add_argument("--data", type=Path, help="the data set that a real item needs: a file or a folder")
    add_seeds(parser)
    parser.add_argument("--jobs", type=int, default=1, help="pocket items: processes that train at once (%(default)s)")
    add_device(parser, default="cpu")
    parser.add_argument("--cache", type=Path, help="pocket items: folder of their runs (OUT/cache)")
    parser.add_argument("--epochs", type=int, help="of a real item that trains, such as the paper's own number")
    parser.add_argument(
        "--pages", action="store_true", help="assemble the pages from the results in --out, run nothing"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("runs/reproduce"), help="folder for results, images and pages (%(default)s)"
    )
    parser.set_defaults(run="reproduce:run_reproduce", goes_on=True)
