"""Options of the commands that open a model: which one, for what use, and who computes it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

import hypersphere as hs
from hypersphere.cli.output import note
from hypersphere.cli.parser import check_exists, model_path

if TYPE_CHECKING:
    from hypersphere.models import CatalogueEntry

PROVIDERS = ("cpu", "cuda", "tensorrt", "openvino", "coreml", "directml", "torch")
USES = ("research", "any")
MODELS_HELP = "a name of `hypersphere models`, a folder of `train`, a .safetensors, an .onnx or an .xml file"


def add_provider(parser: argparse._ActionsContainer) -> None:
    """`--provider` and `--offline`, of every command that opens a model."""
    parser.add_argument(
        "--provider", choices=PROVIDERS, help="who computes ONNX files (onnxruntime on the CPU, or on --device)"
    )
    parser.add_argument("--offline", action="store_true", help="fetch no file of a named model")


def add_default_model(parser: argparse._ActionsContainer) -> None:
    """`--model` that may be left out, `--use`, and what `add_provider` adds."""
    parser.add_argument("--model", type=model_path, metavar="M", help=f"{MODELS_HELP} (the best one at hand)")
    parser.add_argument("--use", choices=USES, help="what the model's licence must allow (what config.toml says)")
    parser.add_argument("--contract", metavar="C", help="of an ONNX file: insightface, opencv-sface, or a file")
    add_provider(parser)


def check_model(path: Path | None, option: str = "--model") -> None:
    """ValueError for a model that is neither a file nor a name of the catalogue, told before a model is loaded."""
    if path is not None and not path.exists() and hs.models.find_entry(path) is None:
        check_exists(path, option)


def runtime_of(options: argparse.Namespace) -> str:
    """The `runtime` that `load_model` takes, after `--offline` is heeded."""
    if options.offline:
        os.environ[hs.models.OFFLINE] = "1"
    return options.provider or "onnxruntime"


def chosen_model(options: argparse.Namespace) -> str:
    """The model that is named, or the best one at hand, if its licence allows the stated use."""
    entry = _entry(options)
    if entry is None:
        return str(options.model)
    entry.check_use(options.use or hs.models.configured_use())
    return entry.name


def say_model(options: argparse.Namespace) -> None:
    """Say which model is used and what its licence is, where the catalogue knows."""
    entry = _entry(options)
    if entry is None:
        return
    if entry.name == hs.models.STARTER:
        if options.model is None:
            note("no --model: the starter model of the package, for research only (docs/starter.md)")
        return
    rate = next((row for row in entry.measured.fnmr if row[0] == 1e-3), None)
    error = "" if rate is None else f"; at a false-match rate of 1e-3 it missed {rate[1]:.1f} % of one person's pairs"
    chosen = "no --model: " if options.model is None else ""
    note(f"{chosen}{entry.name}, {entry.licence}{error} (hypersphere models {entry.name})")


def _entry(options: argparse.Namespace) -> CatalogueEntry | None:
    if options.model is None:
        return hs.models.choose_model(options.use)
    return hs.models.find_entry(options.model)
