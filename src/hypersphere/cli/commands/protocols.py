"""Declare the protocols of `hypersphere evaluate` beside pairs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from hypersphere.cli.commands.inputs import add_inputs, rate

AREAS = ("step", "trapezoid")
CLASSIFIERS = ("mean", "hik_svm")
CLEANINGS = ("none", "remove", "centre")
FARS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
FPIRS = (1e-1, 1e-2, 1e-3)
MEDIA = ("mean", "unit", "none")
PRESETS = ("hypersphere", "arcface_torch", "adaface", "opensphere")
PROTOTYPE_SIMILARITIES = ("cosine", "inner_product")
SEARCHES = ("official", "merged", "both")
TEMPLATE_FLIPS = ("given", "first", "sum", "mean")
TAR_RULES = ("at_most", "nearest", "interpolated")
TASKS = ("1:1", "1:N")


def add_protocols(protocols: Any) -> None:
    """Add a command for each."""
    _add_blufr(protocols)
    _add_ytf(protocols)
    _add_ijb(protocols)
    _add_megaface(protocols)
    _add_reid(protocols)
    _add_classify(protocols)


def _add_blufr(protocols: Any) -> None:
    parser = _parser(protocols, "blufr", "LFW by BLUFR: ten trials of verification and open-set identification")
    parser.add_argument("--config", type=Path, required=True, metavar="MAT", help="blufr_lfw_config.mat")
    parser.add_argument("--pca", type=int, metavar="N", help="N principal components of each trial's training images")
    add_inputs(parser)
    parser.set_defaults(run="evaluate:run_evaluate", protocol="blufr")


def _add_ytf(protocols: Any) -> None:
    parser = _parser(protocols, "ytf", "YouTube Faces: pairs of videos, by mean score and by NormFace's HIK-SVM")
    parser.add_argument("--splits", type=Path, required=True, metavar="TXT", help="splits.txt")
    parser.add_argument(
        "--classifiers", nargs="+", choices=CLASSIFIERS, default=CLASSIFIERS, help=f"({' and '.join(CLASSIFIERS)})"
    )
    parser.add_argument("--bins", type=int, default=100, metavar="N", help="of the histogram (%(default)s)")
    parser.add_argument("--cost", type=float, default=1.0, metavar="C", help="of the HIK-SVM (%(default)s)")
    _add_rates(parser, "--far", FARS, "where TAR is wanted (1e-1 to 1e-6)")
    add_inputs(parser)
    parser.set_defaults(run="evaluate:run_evaluate", protocol="ytf")


def _add_ijb(protocols: Any) -> None:
    parser = _parser(protocols, "ijb", "IJB-B and IJB-C, 1:1 and 1:N, with every choice of others as an option")
    parser.add_argument("--meta", type=Path, required=True, metavar="DIR", help="the folder of the meta files")
    parser.add_argument("--subset", choices=("ijbb", "ijbc"), default="ijbc", help="(%(default)s)")
    parser.add_argument("--preset", choices=PRESETS, default="hypersphere", help="of choices (%(default)s)")
    parser.add_argument("--task", dest="tasks", nargs="+", choices=TASKS, help="what the files allow by default")
    chosen = parser.add_argument_group("choices", "instead of the preset's")
    chosen.add_argument(
        "--merge-flip", choices=TEMPLATE_FLIPS, help="of embeddings with image and mirror image side by side"
    )
    chosen.add_argument("--keep-norm", action=argparse.BooleanOptionalAction, help="whether lengths weigh")
    chosen.add_argument(
        "--detector-score", action=argparse.BooleanOptionalAction, help="whether the detector's score weighs"
    )
    chosen.add_argument("--media", choices=MEDIA, help="how media are pooled")
    chosen.add_argument("--tar-rule", choices=TAR_RULES, help="how TAR is read off the curve")
    chosen.add_argument("--search", choices=SEARCHES, help="the definition of 1:N")
    _add_rates(parser, "--far", FARS, "of 1:1 (1e-1 to 1e-6)")
    _add_rates(parser, "--fpir", FPIRS, "of 1:N (1e-1 to 1e-3)")
    add_inputs(parser)
    parser.set_defaults(run="evaluate:run_evaluate", protocol="ijb")


def _add_megaface(protocols: Any) -> None:
    parser = _parser(protocols, "megaface", "FaceScrub probes among up to a million distractors")
    parser.add_argument("--probes", type=Path, required=True, metavar="JSON", help="facescrub_features_list.json")
    parser.add_argument(
        "--distractors", type=Path, required=True, metavar="JSON", help="megaface_features_list.json_1000000_1"
    )
    parser.add_argument("--probe-noise", type=Path, metavar="TXT", help="facescrub_noises.txt")
    parser.add_argument("--distractor-noise", type=Path, metavar="TXT", help="megaface_noises.txt")
    parser.add_argument("--cleaning", choices=CLEANINGS, help="of what is on the noise lists (remove, where given)")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N distractors")
    parser.add_argument("--distractor-embeddings", type=Path, metavar="NPY", help="of the distractors, if apart")
    parser.add_argument("--distractor-names", type=Path, metavar="TXT", help="their names")
    parser.add_argument("--distractor-images", type=Path, metavar="PATH", help="their images, if apart")
    add_inputs(parser)
    parser.set_defaults(run="evaluate:run_evaluate", protocol="megaface")


def _add_reid(protocols: Any) -> None:
    parser = _parser(protocols, "reid", "Market-1501 and DukeMTMC-reID: mAP and CMC")
    parser.add_argument("--market", type=Path, metavar="DIR", help="with query and bounding_box_test; or give --names")
    parser.add_argument("--area", choices=AREAS, default="step", help="under precision over recall (%(default)s)")
    add_inputs(parser)
    parser.set_defaults(run="evaluate:run_evaluate", protocol="reid")


def _add_classify(protocols: Any) -> None:
    parser = _parser(protocols, "classify", "top-1 and margins by a head's prototypes; many, medium, few")
    parser.add_argument("--test", type=Path, required=True, metavar="TXT", help="name and class of every sample")
    parser.add_argument("--train", type=Path, metavar="TXT", help="of the training samples, for many, medium and few")
    parser.add_argument(
        "--prototypes", type=Path, metavar="NPY", help="(classes, dim); those of the run by default, if --model is one"
    )
    parser.add_argument("--similarity", choices=PROTOTYPE_SIMILARITIES, default="cosine", help="(%(default)s)")
    add_inputs(parser)
    parser.set_defaults(run="evaluate:run_evaluate", protocol="classify")


def _parser(protocols: Any, name: str, about: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = protocols.add_parser(name, help=about, description=f"{about}.")
    return parser


def _add_rates(parser: argparse.ArgumentParser, name: str, default: tuple[float, ...], about: str) -> None:
    parser.add_argument(name, dest=f"{name[2:]}s", type=rate, nargs="+", default=default, metavar="RATE", help=about)
