"""Declare `hypersphere train` and `hypersphere compare`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from hypersphere.cli.commands.machine import add_device, add_loading, add_seeds


def add_command(commands: Any) -> None:
    """Add `train` and `compare` to the command line."""
    train = commands.add_parser(
        "train",
        help="train a recipe or a folder of images, or go on where it stopped",
        description="Train a recipe, or go on where it stopped. A folder of images (one folder per person) or another"
        " data set gets a recipe of its own, which is printed. Several processes: torchrun --nproc-per-node N -m"
        " hypersphere train ...",
    )
    train.add_argument(
        "recipe", nargs="?", help="a recipe's name (--list), a TOML file, or images: folder, .tar, .rec, list"
    )
    train.add_argument(
        "settings", nargs="*", metavar="key=value", help="override the recipe, for example train.steps=100"
    )
    train.add_argument("--list", action="store_true", help="list the recipes by name")
    train.add_argument("--recipes", type=Path, metavar="FOLDER", help="where recipes are found by name (the package's)")
    train.add_argument("--dry-run", action="store_true", help="print the recipe and stop")
    _add_length(train)
    train.add_argument("--seed", type=int, metavar="N", help="short for train.seed=N")
    train.add_argument("--out", type=Path, help="folder of the run (runs/RECIPE-HASH)")
    add_device(train)
    add_loading(train)
    train.add_argument("--tensorboard", action="store_true", help="log to OUT/tensorboard besides OUT/log.jsonl")
    train.add_argument("--wandb", metavar="PROJECT", help="log to a project of Weights & Biases besides OUT/log.jsonl")
    train.add_argument(
        "--best", action="store_true", help="keep the checkpoint with the best score on data.validation, too"
    )
    train.set_defaults(run="train:run_train", goes_on=True)

    compare = commands.add_parser(
        "compare", help="train a recipe with several heads, settings and seeds; print the table"
    )
    compare.add_argument("recipe", type=Path, help="a recipe's name, or a TOML file")
    compare.add_argument("settings", nargs="*", metavar="key=value", help="override the recipe")
    compare.add_argument("--heads", default="", help="names of losses, separated by commas")
    compare.add_argument("--grid", action="append", default=[], metavar="KEY=V,V,...", help="values of one setting")
    add_seeds(compare)
    compare.add_argument("--jobs", type=int, default=1, help="runs at once, on one card or CPU (%(default)s)")
    compare.add_argument("--out", type=Path, help="folder of the runs and of results.jsonl (runs/compare-RECIPE)")
    add_device(compare)
    add_loading(compare)
    _add_length(compare)
    compare.set_defaults(run="compare:run_compare", goes_on=True)


def _add_length(parser: argparse.ArgumentParser) -> None:
    """The two settings that everybody changes first; all others are written key=value."""
    parser.add_argument("--epochs", type=float, metavar="N", help="short for train.epochs=N")
    parser.add_argument("--steps", type=int, metavar="N", help="short for train.steps=N")
