"""What the protocols of `hypersphere evaluate` take: where embeddings come from, where results go, and their own."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from hypersphere.cli.align import TARGETS
from hypersphere.cli.model_options import MODELS_HELP, add_provider
from hypersphere.cli.parser import add_device, add_plugins, model_path

AREAS = ("step", "trapezoid")
CLASSIFIERS = ("mean", "hik_svm")
CLEANINGS = ("none", "remove", "centre")
CONTRACTS = (
    "insightface", "opencv-sface", "arcface-torch", "adaface", "cvlface", "opensphere", "sphereface-pytorch",
    "open-model-zoo",
)  # fmt: skip
FARS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
FLIPS = ("none", "concat", "sum", "mean")
FPIRS = (1e-1, 1e-2, 1e-3)
MEDIA = ("mean", "unit", "none")
MERGES = ("concat", "unit", "scores")
PRESETS = ("hypersphere", "arcface_torch", "adaface", "opensphere")
PROTOTYPE_SIMILARITIES = ("cosine", "inner_product")
SEARCHES = ("official", "merged", "both")
SIMILARITIES = ("cosine", "inner_product", "euclidean")
TAR_RULES = ("at_most", "nearest", "interpolated")
TASKS = ("1:1", "1:N")
TEMPLATE_FLIPS = ("given", "first", "sum", "mean")


def add_protocols(protocols: Any) -> None:
    """Add a command for each."""
    _add_pairs(protocols)
    _add_blufr(protocols)
    _add_ytf(protocols)
    _add_ijb(protocols)
    _add_megaface(protocols)
    _add_reid(protocols)
    _add_classify(protocols)
    _add_own(protocols)


def _add_own(protocols: Any) -> None:
    parser = _parser(protocols, "own", "a protocol of your own, which --plugin or an installed plugin registers")
    parser.add_argument("protocol", metavar="NAME", help="as it is registered")
    parser.add_argument("settings", nargs="*", metavar="key=value", help="its options")
    add_inputs(parser)
    parser.set_defaults(run="evaluate:run_evaluate")


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
    parser.add_argument("--pca", type=int, metavar="N", help="N principal components of the other splits' frames")
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
        "--fit",
        type=Path,
        metavar="PATH",
        help="learn --center and --pca from these images instead (an .npy beside --embeddings): of other people",
    )
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


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """The options of all protocols: where embeddings come from, and where results go."""
    made = parser.add_argument_group("embeddings", "ready ones, or a model and images")
    made.add_argument("--embeddings", type=Path, nargs="+", metavar="NPY", help="(images, dim) arrays")
    made.add_argument("--names", type=Path, nargs="+", metavar="TXT", help="the name of each row's image, line by line")
    made.add_argument(
        "--model",
        type=model_path,
        nargs="+",
        metavar="M",
        help=MODELS_HELP,
    )
    made.add_argument(
        "--contract",
        metavar="C",
        help=f"of ONNX files: {', '.join(CONTRACTS)}, or a .toml or .json file (X.contract.toml)",
    )
    made.add_argument(
        "--images", type=Path, nargs="+", metavar="PATH", help="folder, tar or folder of tars, one per list"
    )
    made.add_argument("--crops", choices=TARGETS, help="what images were aligned to, if not the model's own target")
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
        "--merge",
        choices=MERGES,
        help="of several models or arrays: embeddings side by side, unit ones side by side, or the mean of scores",
    )
    made.add_argument("--batch-size", type=int, default=128, metavar="N", help="images at a time (%(default)s)")
    add_provider(made)
    add_device(made)
    add_plugins(made)
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
