"""Declare what the protocols of `hypersphere evaluate` share: where embeddings come from, where results go."""

from __future__ import annotations

import argparse
from pathlib import Path

from hypersphere.cli.parser import add_device

CONTRACTS = ("insightface", "opencv-sface")
FLIPS = ("none", "concat", "sum", "mean")
MERGES = ("concat", "scores")


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """The options of all protocols: where embeddings come from, and where results go."""
    made = parser.add_argument_group("embeddings", "ready ones, or a model and images")
    made.add_argument("--embeddings", type=Path, nargs="+", metavar="NPY", help="(images, dim) arrays")
    made.add_argument("--names", type=Path, nargs="+", metavar="TXT", help="the name of each row's image, line by line")
    made.add_argument(
        "--model", type=Path, nargs="+", metavar="M", help="a folder of `train`, a .safetensors or an .onnx file"
    )
    made.add_argument(
        "--contract",
        metavar="C",
        help=f"of ONNX files: {', '.join(CONTRACTS)}, or a .toml or .json file (X.contract.toml)",
    )
    made.add_argument(
        "--images", type=Path, nargs="+", metavar="PATH", help="folder, tar or folder of tars, one per list"
    )
    made.add_argument("--resize", action="store_true", help="resize images to the model's size; else they are refused")
    made.add_argument("--flip", choices=FLIPS, help="merge with the mirror image's embedding (the contract's choice)")
    made.add_argument(
        "--snapshots",
        type=int,
        default=1,
        metavar="N",
        help="of a run: the newest N checkpoints, their scores averaged",
    )
    made.add_argument(
        "--merge", choices=MERGES, help="of several models or arrays: embeddings side by side, or the mean of scores"
    )
    made.add_argument("--batch-size", type=int, default=128, metavar="N", help="images at a time (%(default)s)")
    add_device(made)
    made.add_argument("--save-embeddings", action="store_true", help="write embeddings.npy and names.txt to DIR too")
    parser.add_argument(
        "--allow-missing", action="store_true", help="leave out what is missing or cannot be read, and count it"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("runs/evaluation"),
        metavar="DIR",
        help="result.json and report.html go there (%(default)s)",
    )


def rate(text: str) -> float:
    """Reads a rate, above 0 and at most 1."""
    number = float(text)
    if not 0 < number <= 1:
        raise argparse.ArgumentTypeError(f"{text} must be above 0 and at most 1")
    return number
