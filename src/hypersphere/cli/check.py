"""`hypersphere check`: whether a runtime computes what the reference did, and what is wrong where it does not."""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypersphere as hs
from hypersphere.cli.model_options import MODELS_HELP, add_provider, check_model, runtime_of
from hypersphere.cli.output import Results, green, note, red
from hypersphere.cli.parser import add_device, model_path
from hypersphere.core import Progress, write_atomically

if TYPE_CHECKING:
    from hypersphere.models import Embedder

FMRS = (1e-2, 1e-3, 1e-4)


def add_command(commands: Any) -> None:
    """Add `check` to the command line."""
    parser = commands.add_parser(
        "check",
        help="whether a runtime computes a model rightly, and which mistake it makes",
        description="Embed golden pictures, painted and with landmarks, which a model carries, compare them with the "
        "reference's embeddings, and name the usual mistake where they differ: channels swapped, normalised twice or "
        "not at all, another alignment, half precision that overflows, a batch mixed up, one embedding for all. Exit "
        "status: 0 right, 1 wrong.",
    )
    parser.add_argument("model", type=model_path, metavar="MODEL", help=MODELS_HELP)
    parser.add_argument("--contract", metavar="C", help="of an ONNX file: insightface, opencv-sface, or a file")
    parser.add_argument(
        "--reference", type=model_path, metavar="M", help="model to compare with (golden pictures, or MODEL on the CPU)"
    )
    parser.add_argument(
        "--tolerance", type=float, default=0.999, metavar="COS", help="least cosine that passes (%(default)s)"
    )
    parser.add_argument("--pairs", type=Path, metavar="LIST", help="show how error rates shift on these pairs")
    parser.add_argument("--images", type=Path, metavar="PATH", help="of --pairs")
    parser.add_argument("--golden", type=Path, metavar="FILE", help="write MODEL's own as X.golden.safetensors instead")
    add_provider(parser)
    add_device(parser)
    parser.set_defaults(run="check:run_check")


def run_check(options: argparse.Namespace) -> Results:
    """Check, print each probe, and exit with 1 where one failed."""
    for option in ("model", "reference"):
        check_model(getattr(options, option), option.upper() if option == "model" else f"--{option}")
    if (options.pairs is None) != (options.images is None):
        raise ValueError("--pairs and --images: give both, a list and where its images are")
    single_images = ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = hs.load_model(options.model, options.contract, device=options.device, runtime=runtime_of(options))
    for warning in caught:
        if "declares a free batch" in str(warning.message):
            single_images = str(warning.message)
    if options.golden is not None:
        return _write_golden(options.golden, model)
    reference = _reference(options)
    golden = None if options.reference is not None else hs.models.golden_of(options.model)
    origin = "golden pictures that it carries"
    if golden is None:
        origin = f"golden pictures by {options.reference or options.model} on the CPU"
        golden = hs.models.paint_golden(reference)
    conformance = hs.models.check_conformance(model, golden, tolerance=options.tolerance, single_images=single_images)
    print(f"{model.name}: {options.provider or 'default runtime'}, against {origin}")
    for probe in conformance.probes:
        print(f"  {green('ok    ') if probe.passed else red('WRONG ')} {probe.name:<14} {probe.found}")
    shifts = [] if options.pairs is None else _shifts(options, model, reference)
    for shift in shifts:
        print(
            f"  threshold {shift['threshold']:.4f}: FMR {shift['fmr_before']:.2e} -> {shift['fmr_after']:.2e}, "
            f"FNMR {shift['fnmr_before']:.4f} -> {shift['fnmr_after']:.4f}"
        )
    document = {
        "model": options.model,
        "mistake": conformance.mistake,
        "probes": conformance.probes,
        "cosines": conformance.cosines,
    }
    return Results({**document, "pairs": shifts}, status=0 if conformance.passed else 1)


def _reference(options: argparse.Namespace) -> Embedder:
    """The model that is compared with: another one, or the same on the CPU."""
    path = options.reference or options.model
    contract = None if options.reference is not None else options.contract
    return hs.load_model(path, contract, device="cpu")


def _write_golden(path: Path, model: Embedder) -> Results:
    if not path.name.endswith(".golden.safetensors"):
        raise ValueError(f"--golden {path}: name it X.golden.safetensors, beside X.onnx or X.xml")
    write_atomically(path, hs.models.paint_golden(model).to_bytes())
    note(f"{path}: what {model.name} makes of painted faces; `check` compares with it")
    return Results({"file": path})


def _shifts(options: argparse.Namespace, model: Embedder, reference: Embedder) -> list[dict[str, float]]:
    """Error rates of both at the reference's thresholds."""
    import math

    from hypersphere.evaluation.protocols import read_pairs

    pairs = read_pairs(options.pairs)
    source = hs.data.NamedImages(options.images, pairs.names)
    pairs.check_images(source.missing, source.files)
    left, right = (source.find(side) for side in (pairs.left, pairs.right))
    scores = []
    for name, each in (("reference", reference), (model.name, model)):
        with Progress(f"embedding by {name}", "images") as progress:
            unit = each(source, progress=progress).numpy()
        scores.append((unit[left] * unit[right]).sum(1))
    before, after = scores
    ranked = hs.evaluation.SortedScores(before[~pairs.same])
    shifts = []
    for fmr in FMRS:
        if fmr * ranked.total < 3:
            break
        threshold = ranked.least_threshold(math.floor(fmr * ranked.total))
        rates = {"threshold": threshold}
        for when, each in (("before", before), ("after", after)):
            rates[f"fmr_{when}"] = float((each[~pairs.same] >= threshold).mean())
            rates[f"fnmr_{when}"] = float((each[pairs.same] < threshold).mean())
        shifts.append(rates)
    return shifts
