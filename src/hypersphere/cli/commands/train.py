"""Declare `hypersphere train` and `hypersphere compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypersphere.cli.commands.machine import add_device, add_loading, add_seeds


def add_command(commands: Any) -> None:
    """Add `train` and `compare` to the command line."""
    train = commands.add_parser(
        "train",
        help="train a recipe, or go on where it stopped",
        description="Train a recipe, or go on where it stopped. Several processes: torchrun --nproc-per-node N -m"
        " hypersphere train ...",
    )
    train.add_argument("recipe", nargs="?", type=Path, help="a TOML file")
    train.add_argument(
        "settings", nargs="*", metavar="key=value", help="override the recipe, for example train.steps=100"
    )
    train.add_argument("--list", action="store_true", help="list the recipes below --recipes")
    train.add_argument("--recipes", type=Path, help="folder of recipes (./recipes if it is there, or the package's)")
    train.add_argument("--out", type=Path, help="folder of the run (runs/RECIPE-HASH)")
    add_device(train)
    add_loading(train)
    train.add_argument("--tensorboard", action="store_true", help="log to OUT/tensorboard besides OUT/log.jsonl")
    train.add_argument("--wandb", metavar="PROJECT", help="log to a project of Weights & Biases besides OUT/log.jsonl")
    train.add_argument(
        "--best", action="store_true", help="keep the checkpoint with the best score on data.validation, too"
    )
    train.set_defaults(run="train:run_train")

    compare = commands.add_parser(
        "compare", help="train a recipe with several heads, settings and seeds; print the table"
    )
    compare.add_argument("recipe", type=Path, help="a TOML file")
    compare.add_argument("settings", nargs="*", metavar="key=value", help="override the recipe")
    compare.add_argument("--heads", default="", help="names of losses, separated by commas")
    compare.add_argument("--grid", action="append", default=[], metavar="KEY=V,V,...", help="values of one setting")
    add_seeds(compare)
    compare.add_argument("--jobs", type=int, default=1, help="runs at once, on one card or CPU (%(default)s)")
    compare.add_argument("--out", type=Path, help="folder of the runs and of results.jsonl (runs/compare-RECIPE)")
    add_device(compare)
    add_loading(compare)
    compare.set_defaults(run="compare:run_compare")
