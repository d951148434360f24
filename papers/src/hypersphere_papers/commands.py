"""What `hypersphere reproduce` and `hypersphere theory` take; nothing here waits for torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypersphere.cli import add_device, add_seeds
from hypersphere_papers.catalogue import KINDS

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
"""`hypersphere_papers.theorems.THEOREMS` with their titles; a test compares."""
TOY = "solve and draw the toy problem of the LM-Softmax paper (Fig. 3)"


def add_reproduce(commands: Any) -> None:
    """Add `reproduce` to the command line."""
    parser = commands.add_parser("reproduce", help="every figure and table of the papers, by name")
    parser.add_argument("items", nargs="*", metavar="ITEM", help="such as normface/fig5")
    parser.add_argument("--list", action="store_true", help="list the items: data, verdict, what each shows")
    parser.add_argument("--all", action="store_true", help="run every item that can run (of --kind and --paper)")
    parser.add_argument(
        "--main-comparison",
        dest="run",
        action="store_const",
        const="hypersphere_papers.main_comparison_command:run_main_comparison",
        help="twelve losses by one network, at rates of one grid, for a GPU; with --list, which runs are left",
    )
    parser.add_argument("--kind", choices=KINDS, help="only items of a kind")
    parser.add_argument("--paper", help="only items of a paper, such as normface")
    parser.add_argument("--data", type=Path, help="the data set that a real item needs: a file or a folder")
    add_seeds(parser)
    parser.add_argument("--jobs", type=int, default=1, help="processes that train at once (%(default)s)")
    add_device(parser, default="cpu")
    parser.add_argument("--cache", type=Path, help="folder of runs that no record file takes (OUT/cache)")
    parser.add_argument("--epochs", type=int, help="of a real item that trains, such as the paper's own number")
    parser.add_argument(
        "--pages", action="store_true", help="assemble the pages from the results in --out, run nothing"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("runs/reproduce"), help="folder for results, images and pages (%(default)s)"
    )
    parser.set_defaults(run="hypersphere_papers.reproduce_command:run_reproduce", goes_on=True)


def add_theory(commands: Any) -> None:
    """Add `theory` to the command line."""
    parser = commands.add_parser("theory", help="what the papers prove or show in small, computed")
    parser.add_argument("--list", action="store_true", help="list the items")
    parser.set_defaults(run="hypersphere_papers.theory_command:run_list")
    items = parser.add_subparsers(title="items", metavar="ITEM")
    for name, title in ITEMS.items():
        one = items.add_parser(name, help=title)
        folder = Path("runs/theory") / name
        one.add_argument("--out", type=Path, default=folder, help="folder for PNG and SVG figures (%(default)s)")
        one.set_defaults(run="hypersphere_papers.theory_command:run_item", item=name)
    toy = items.add_parser("toy", help=TOY)
    toy.add_argument("--out", type=Path, default=Path("runs/toy"), help="folder for the picture (%(default)s)")
    toy.add_argument("--steps", type=int, default=13_000, help="optimisation steps per loss (%(default)s)")
    toy.add_argument("--seed", type=int, default=0, help="seed of prototypes and features (%(default)s)")
    toy.set_defaults(run="hypersphere_papers.theory_command:run_toy")
