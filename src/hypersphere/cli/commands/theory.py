"""Declare `hypersphere theory`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ITEMS = {
    "nearest": "angle to the nearest prototype (AmpFace Fig. 7)",
    "caps": "area of a spherical cap, and angles in it (AmpFace Figs. 8, 9)",
    "weights": "total wrong-class weight (AmpFace Fig. 10)",
    "curves": "loss and gradients over angles (AmpFace Figs. 11-14)",
    "termination": "termination angles of the best margins (AmpFace App. B)",
    "decisions": "decision margins in plane and space (AmpFace Figs. 15-18)",
    "normface": "Propositions 1-3 and the bound of the softmax loss (NormFace Fig. 5)",
    "sphereface": "Properties 2 and 3, decision boundaries (SphereFace)",
    "sphereface2": "loss curves, planes, bias and gradients (SphereFace2 Figs. 3, 6, Table 13)",
    "largest-margins": "Lemma 2.1, Theorems 2.2-3.5, optimised from random starts (LM-Softmax)",
    "tammes": "best packings of k points in 3-D, k up to 20 (LM-Softmax eq. 2.3)",
}
"""`hypersphere.reproduce.THEOREMS` with their titles; a test compares."""
TOY = "solve and draw the toy problem of the LM-Softmax paper (Fig. 3)"


def add_command(commands: Any) -> None:
    """Add `theory` to the command line."""
    parser = commands.add_parser("theory", help="what the papers prove or show in small, computed")
    parser.add_argument("--list", action="store_true", help="list the items")
    parser.set_defaults(run="theory:run_list")
    items = parser.add_subparsers(title="items", metavar="ITEM")
    for name, title in ITEMS.items():
        one = items.add_parser(name, help=title)
        folder = Path("runs/theory") / name
        one.add_argument("--out", type=Path, default=folder, help="folder for PNG and SVG figures (%(default)s)")
        one.set_defaults(run="theory:run_item", item=name)
    toy = items.add_parser("toy", help=TOY)
    toy.add_argument("--out", type=Path, default=Path("runs/toy"), help="folder for the picture (%(default)s)")
    toy.add_argument("--steps", type=int, default=13_000, help="optimisation steps per loss (%(default)s)")
    toy.add_argument("--seed", type=int, default=0, help="seed of prototypes and features (%(default)s)")
    toy.set_defaults(run="theory:run_toy")
