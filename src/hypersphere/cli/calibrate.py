"""`hypersphere calibrate`: thresholds and likelihood ratios of a model, from people that it was not trained on."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypersphere as hs
from hypersphere.cli.align import TARGETS
from hypersphere.cli.calibrate_impostors import Impostors, add_options, check_options
from hypersphere.cli.model_options import MODELS_HELP, add_provider, check_model, runtime_of
from hypersphere.cli.output import Results, bold, note
from hypersphere.cli.parser import add_device, model_path
from hypersphere.core import Progress, counted, is_integer, numbered_lines

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from hypersphere.data import ImageSource, NamedImages
    from hypersphere.evaluation import GroupRate
    from hypersphere.evaluation.protocols import PairList
    from hypersphere.models import Embedder
    from hypersphere.recognition import Calibration, CalibrationSet


def add_command(commands: Any) -> None:
    """Add `calibrate` to the command line."""
    parser = commands.add_parser(
        "calibrate",
        help="thresholds of a model with their error rates, from people it was not trained on",
        description="Embed aligned images of people that the model was not trained on, compare all of them (or the "
        "pairs of a list), and write thresholds at false-match rates, thresholds of searches for each size of gallery "
        "and log-likelihood ratios beside the model. `verify`, `identify` and `cluster` decide by them.",
    )
    parser.add_argument("model", type=model_path, metavar="MODEL", help=MODELS_HELP)
    parser.add_argument(
        "images", nargs="?", metavar="IMAGES", help="aligned, a folder for each person, .tar, list or .rec"
    )
    parser.add_argument("--contract", metavar="C", help="of an ONNX file: insightface, opencv-sface, or a file")
    parser.add_argument("--format", metavar="F", help="of the images (guessed from names)")
    people = parser.add_argument_group("people")
    people.add_argument(
        "--held-out", metavar="RECIPE", help="only the people whom training by this recipe held out of IMAGES"
    )
    people.add_argument(
        "--disjoint-from",
        action="append",
        default=[],
        metavar="NAMES",
        help="refuse people whose names are in this text file (a name a line) or set of images; may be repeated",
    )
    people.add_argument("--pairs", type=Path, metavar="LIST", help="compare the pairs of this list and no others")
    people.add_argument("--people", metavar="TEXT", help="who they are, in words, for decisions to name")
    add_options(parser)
    parser.add_argument(
        "--prior", type=float, default=0.5, metavar="P", help="share of genuine pairs to fit LLRs for (%(default)s)"
    )
    parser.add_argument(
        "--galleries", type=int, default=50, metavar="N", help="random galleries of each size (%(default)s)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write (calibration.json beside the model)")
    parser.add_argument("--batch-size", type=int, default=128, metavar="N", help="images at a time (%(default)s)")
    parser.add_argument("--crops", choices=TARGETS, help="what IMAGES were aligned to, if not the model's own target")
    add_provider(parser)
    add_device(parser)
    parser.set_defaults(run="calibrate:run_calibrate")


def run_calibrate(options: argparse.Namespace) -> Results:
    """Calibrate, print the tables, write the file."""
    if options.held_out is not None and options.pairs is not None:
        raise ValueError("--held-out and --pairs: give one of them; a list of pairs says who is compared")
    check_options(options)
    check_model(options.model, "MODEL")
    if options.impostors is not None and options.images is None:
        return _of_impostors_alone(options)
    out = options.out or hs.recognition.calibration_path(options.model)
    if options.out is None and options.model == model_path(hs.models.STARTER):
        raise ValueError(f"{out} belongs to the package: give --out FILE, and --calibration FILE to what decides by it")
    if out.suffix != ".json":
        raise ValueError(f"--out {out}: a calibration ends in .json")
    rates: dict[str, list[GroupRate]] = {}
    if options.impostors is not None:
        made, rates = _of_impostors(options)
    else:
        made = _of_pairs(options) if options.pairs is not None else _of_people(options)
    if not made.disjoint_from:
        note("nothing says that the model was not trained on these people: see --held-out and --disjoint-from")
    hs.recognition.save_calibration(made, out)
    _print(made)
    print(f"calibration: {out}")
    return Results({"file": out, "calibration": made, "groups": rates})


def _of_impostors_alone(options: argparse.Namespace) -> Results:
    """Thresholds whose false-non-match rate is open: nothing that decides rests on them, so no file is written."""
    impostors = Impostors(options, _load_model(options))
    impostors.print_thresholds()
    rates = impostors.by_group()
    impostors.print_groups(rates)
    note("no calibration is written without misses: give IMAGES, people with several images each")
    return Results({"thresholds": impostors.thresholds, "groups": rates})


def _of_impostors(options: argparse.Namespace) -> tuple[Calibration, dict[str, list[GroupRate]]]:
    """False matches of the impostors, misses of the people of IMAGES, or of the genuine pairs of the list."""
    source: ImageSource
    if options.pairs is not None:
        listed = _listed(options)
        source, first, second = listed.source, listed.first, listed.second
    else:
        source = hs.data.open_source(options.images, options.format)
    model = _load_model(options)
    impostors = Impostors(options, model)
    if options.pairs is not None:
        scores = listed.scores(options, model)
    else:
        scores, first, second = hs.evaluation.all_pairs(_embedded(options, model, source), source.labels)
    same = first == second
    if not same.any():
        raise ValueError(f"{options.images}: nobody in it has two images, so there is no pair of one person")
    made = impostors.with_genuine(scores[same], first[same], source, model)
    rates = impostors.by_group()
    impostors.print_groups(rates)
    return made, rates


def _load_model(options: argparse.Namespace) -> Embedder:
    model = hs.load_model(options.model, options.contract, device=options.device, runtime=runtime_of(options))
    return model if options.crops is None else model.of_crops(options.crops)


def _of_people(options: argparse.Namespace) -> Calibration:
    """All pairs of a set, or of the people of it that a recipe holds out."""
    from hypersphere.training.training_data import held_out_source

    if options.held_out is None:
        source = hs.data.open_source(options.images, options.format)
        text = f"{counted(source.num_classes, 'person', 'people')} of {Path(options.images).name}"
    else:
        data = hs.training.load_recipe(options.held_out).data
        source = held_out_source(dataclasses.replace(data, source=options.images, format=options.format))
        text = (
            f"{source.num_classes:,} people held out of the training faces (data.validation.identities="
            f"{data.validation.identities:g}, data.seed={data.seed})"
        )
    about = _checked(options, source, hs.data.names_of(source), text)
    if options.held_out is not None:
        about = dataclasses.replace(about, disjoint_from=("the people trained on", *about.disjoint_from))
    model = _load_model(options)
    unit = _embedded(options, model, source)
    with Progress("searching galleries", "galleries") as progress:
        return hs.recognition.calibrate(
            unit,
            source.labels,
            model.contract,
            about,
            prior=options.prior,
            galleries=options.galleries,
            progress=progress,
        )


@dataclasses.dataclass(frozen=True)
class _Listed:
    """The pairs of a list with their images: the person on the first and on the second of each, by number."""

    pairs: PairList
    source: NamedImages
    names: list[str]
    first: npt.NDArray[np.int64]
    second: npt.NDArray[np.int64]

    def scores(self, options: argparse.Namespace, model: Embedder) -> npt.NDArray[np.float32]:
        unit = _embedded(options, model, self.source)
        left, right = (self.source.find(side) for side in (self.pairs.left, self.pairs.right))
        scores: npt.NDArray[np.float32] = (unit[left] * unit[right]).sum(1)
        return scores


def _listed(options: argparse.Namespace) -> _Listed:
    import numpy as np

    from hypersphere.evaluation.protocols import read_pairs

    pairs = read_pairs(options.pairs)
    if pairs.subjects is None:
        raise ValueError(f"{options.pairs}: does not say who is on the images, so intervals over people have no base")
    source = hs.data.NamedImages(options.images, pairs.names)
    pairs.check_images(source.missing, source.files)
    names, people = np.unique(np.concatenate([np.asarray(side) for side in pairs.subjects]), return_inverse=True)
    first, second = people[: len(pairs.left)], people[len(pairs.left) :]
    wrong = (first == second) != pairs.same
    if wrong.any():
        raise ValueError(f"{options.pairs}: pair {int(np.argmax(wrong)) + 1} has other people than it says")
    return _Listed(pairs, source, [str(name) for name in names], first, second)


def _of_pairs(options: argparse.Namespace) -> Calibration:
    """The pairs of a list, whose images are named as in IMAGES."""
    listed = _listed(options)
    text = f"{len(listed.names):,} people of {options.pairs.name}"
    about = _checked(options, listed.source, listed.names, text)
    model = _load_model(options)
    scores = listed.scores(options, model)
    return hs.recognition.calibrate_scores(
        scores, listed.first, listed.second, model.contract, about, prior=options.prior
    )


def _checked(options: argparse.Namespace, source: ImageSource, names: list[str], text: str) -> CalibrationSet:
    """The set with its digest; an error where it shares people with another."""
    about = hs.recognition.CalibrationSet(
        people=options.people or text, digest=hs.data.images_digest(source), images=len(source), names=tuple(names)
    )
    for other in options.disjoint_from:
        about = about.disjoint(_names(other), Path(other).name)
    return about


def _names(path: str) -> list[str]:
    """The names of a text file, each before the first tab of its line, or of a set of images."""
    if Path(path).suffix != ".txt":
        return hs.data.names_of(hs.data.open_source(path))
    lines = [line.partition("\t")[0].strip() for _, line in numbered_lines(path)]
    return sorted({name for name in lines if name and not is_integer(name)})


def _embedded(options: argparse.Namespace, model: Embedder, source: ImageSource) -> npt.NDArray[np.float32]:
    with Progress(f"embedding {Path(options.images).name}", "images") as progress:
        unit: npt.NDArray[np.float32] = model(source, batch_size=options.batch_size, progress=progress).numpy()
    return unit


def _print(made: Calibration) -> None:
    table = made.table
    print(
        f"{table.people}: {counted(table.images, 'image')}, {counted(table.genuine, 'pair')} of one person and "
        f"{table.impostors:,} of two"
    )
    print(bold("  FMR     threshold  measured 95 % interval        FNMR, % [95 %]"))
    for row in table.thresholds:
        bounds = f"{row.false_matches / table.impostors:.1e}  [{row.fmr_low:.1e}, {row.fmr_high:.1e}]"
        fnmr = f"{100 * row.fnmr:.1f} [{100 * row.fnmr_low:.1f}, {100 * row.fnmr_high:.1f}]"
        print(f"  {row.fmr:.0e}   {row.threshold:.4f}     {bounds}   {fnmr}{'  indicative' * row.indicative}")
    print(f"  C_llr {made.llr.cllr:.4f} bits, its minimum {made.llr.cllr_min:.4f} (LLR = {made.llr.slope:.2f} s "
          f"{made.llr.offset:+.2f}, from {made.llr.low:.1f} to {made.llr.high:.1f})")  # fmt: skip
    if made.searches:
        print(bold("  N       FPIR   threshold  95 % interval        FNIR, % [95 %]"))
    for found in made.searches:
        bounds = f"[{found.fpir_low:.1e}, {found.fpir_high:.1e}]"
        rates = [rate for rate in (found.fnir, found.fnir_low, found.fnir_high) if rate is not None]
        fnir = "{:.1f} [{:.1f}, {:.1f}]".format(*(100 * rate for rate in rates)) if rates else "not measured"
        print(
            f"  {found.gallery_size:<7,} {found.fpir:.0e}  {found.threshold:.4f}     {bounds}   {fnir}"
            f"{'  indicative' * found.indicative}"
        )
