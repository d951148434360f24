"""Declare `hypersphere evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypersphere.cli.commands.inputs import add_inputs, rate
from hypersphere.cli.commands.protocols import FARS, add_protocols

SIMILARITIES = ("cosine", "inner_product", "euclidean")


def add_command(commands: Any) -> None:
    """Add `evaluate` to the command line."""
    parser = commands.add_parser(
        "evaluate",
        help="measure embeddings by a protocol; compare two results",
        description="Measure embeddings by a protocol, with intervals and all choices on record; compare two results.",
    )
    protocols = parser.add_subparsers(title="protocols, and their comparison", metavar="PROTOCOL", required=True)
    _add_pairs(protocols)
    add_protocols(protocols)
    _add_compare(protocols)


def _add_compare(protocols: Any) -> None:
    parser = protocols.add_parser(
        "compare",
        help="two results side by side, with paired tests",
        description="Compare two results of the same protocol: B less A, with the paired test that fits each metric. "
        "(`hypersphere compare` trains: it compares losses.)",
    )
    parser.add_argument("results", nargs=2, type=Path, metavar="RESULT", help="folders that `evaluate` wrote: A, B")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write compare.html there")
    parser.set_defaults(run="evaluate:compare")


def _add_pairs(protocols: Any) -> None:
    parser = protocols.add_parser(
        "pairs",
        help="LFW, CALFW, CPLFW, AgeDB-30, CFP, .bin packs and any pair list",
        description="Verify pairs: 10 folds, each at the best threshold of the others; ROC, EER, TAR at FAR. Several "
        "lists are measured one by one and pooled.",
    )
    parser.add_argument(
        "--pairs", type=Path, nargs="+", metavar="LIST", help="pair lists, CFP's Split/FP, or .bin packs"
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="PATH",
        help="for --pairs and --images: a .bin, or a folder with a list and images",
    )
    add_inputs(parser)
    compared = parser.add_argument_group("comparison")
    compared.add_argument("--similarity", choices=SIMILARITIES, default="cosine", help="(%(default)s)")
    compared.add_argument(
        "--no-normalize", dest="normalize", action="store_false", help="compare embeddings as they are"
    )
    compared.add_argument("--center", action="store_true", help="subtract the mean of the training folds")
    compared.add_argument("--pca", type=int, metavar="N", help="N principal components of the training folds")
    compared.add_argument(
        "--far",
        dest="fars",
        type=rate,
        nargs="+",
        default=FARS,
        metavar="RATE",
        help="where TAR is wanted (1e-1 to 1e-6)",
    )
    parser.set_defaults(run="evaluate:run_evaluate", protocol="pairs")
