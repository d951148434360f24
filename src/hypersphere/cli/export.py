"""`hypersphere export`: a model as an ONNX file, with a report on whether it still gives the same embeddings."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypersphere as hs
from hypersphere.cli.output import Results
from hypersphere.cli.parser import model_path
from hypersphere.core import Progress, refuse_existing

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from hypersphere.data import ImageSource
    from hypersphere.evaluation.parity import PairParity
    from hypersphere.evaluation.protocols import PairList
    from hypersphere.models import Embedder

COUNT = 256
INPUTS = ("float32", "uint8")


def add_command(commands: Any) -> None:
    """Add `export` to the command line."""
    parser = commands.add_parser(
        "export",
        help="write a model as ONNX or OpenVINO, and report how equal it is",
        description="Write a model as OUT.onnx, or as OUT.xml and OUT.bin, with its contract in OUT.contract.json, "
        "which load_model and all commands take, and compare its embeddings with the model's own.",
    )
    parser.add_argument("model", type=model_path, metavar="MODEL", help="a folder of `train`, a file, or `starter`")
    parser.add_argument("out", type=Path, metavar="OUT.onnx", help="the new file, or OUT.xml for OpenVINO's two")
    parser.add_argument("--replace", action="store_true", help="overwrite OUT if it is there")
    parser.add_argument("--normalize", action="store_true", help="the file returns unit vectors")
    parser.add_argument(
        "--preprocess",
        action="store_true",
        help="the file takes RGB images from 0 to 255, and orders and scales the channels itself",
    )
    parser.add_argument("--batch", type=int, default=0, metavar="N", help="images that the file takes (any number)")
    parser.add_argument("--half", action="store_true", help="compute in half precision")
    parser.add_argument("--input", choices=INPUTS, default="float32", help="type of the images (%(default)s)")
    parser.add_argument("--opset", type=int, default=17, metavar="N", help="version of ONNX's operators (%(default)s)")
    parser.add_argument("--int8", action="store_true", help="quantise to 8-bit integers by ranges that images show")
    compared = parser.add_argument_group("parity report")
    compared.add_argument(
        "--images", type=Path, metavar="PATH", help="folder, tar or folder of tars (otherwise painted faces)"
    )
    compared.add_argument(
        "--pairs", type=Path, metavar="LIST", help="compare accuracy too: a pair list of --images, or a .bin pack"
    )
    compared.add_argument("--count", type=int, default=COUNT, metavar="N", help="images to compare (%(default)s)")
    compared.add_argument("--resize", action="store_true", help="resize images to the model's size")
    parser.set_defaults(run="export:run")


def run(options: argparse.Namespace) -> Results:
    """Export, compare, and print the report."""
    from hypersphere.evaluation.parity import embedding_parity, pair_parity
    from hypersphere.evaluation.protocols import read_pairs

    if not options.replace:
        refuse_existing(options.out)
    model = hs.models.load_model(options.model)
    pairs = None if options.pairs is None else read_pairs(options.pairs)
    source, names, what = _images(options, model, pairs)
    spread = [place * len(source) // options.count for place in range(options.count)]
    spread = spread if len(source) > options.count else list(range(len(source)))
    calibration = spread[::2] if options.int8 else []
    compared = list(range(len(source))) if pairs else spread[1::2] if options.int8 else spread
    before = _embedded(model, source, compared, "torch")
    contract = hs.models.export_onnx(
        model,
        options.out,
        normalize=options.normalize,
        preprocess=options.preprocess,
        calibration=source.batch(calibration) if options.int8 else None,
        batch=options.batch,
        half=options.half,
        input_type=options.input,
        opset=options.opset,
        replace=options.replace,
    )
    after = _embedded(hs.models.load_model(options.out), source, compared, "onnxruntime")
    parity = embedding_parity(before, after)
    made = [hs.evaluation.Embeddings([names[place] for place in compared], each, {}) for each in (before, after)]
    verified = None if pairs is None else pair_parity(made[0], made[1], pairs)
    size, full = _weights_file(options.out).stat().st_size, _float32_bytes(model)
    precision = "int8" if options.int8 else "float16" if options.half else "float32"
    images = f"batch of {options.batch}" if options.batch else "any batch"
    kind = f"opset {options.opset}" if options.out.suffix == ".onnx" else "OpenVINO"
    calibrated = f"; ranges from {len(calibration)} of the images" if options.int8 else ""
    print(f"{options.out}: {contract.backbone or 'network'}, {kind}, {precision}, {images}{calibrated}")
    print(f"  size      {size / 1e6:.1f} MB ({full / 1e6:.1f} MB of weights in float32)")
    print(f"  contract  {options.out.with_suffix('.contract.json').name}")
    print(f"  cosine    mean {parity.mean_cosine:.7f}, least {parity.least_cosine:.7f} over {parity.images:,} {what}")
    if verified is not None:
        _print_pairs(verified)
    return Results(
        {
            "model": options.model,
            "file": options.out,
            "contract": contract.table(),
            "opset": options.opset,
            "batch": options.batch,
            "input": options.input,
            "precision": precision,
            "bytes": size,
            "float32_bytes": full,
            "calibration_images": len(calibration),
            "compared": what,
            "parity": parity,
            "pairs": verified,
        }
    )


def _weights_file(out: Path) -> Path:
    return out.with_suffix(".bin") if out.suffix == ".xml" else out


def _images(options: argparse.Namespace, model: Embedder, pairs: PairList | None) -> tuple[ImageSource, list[str], str]:
    """What is compared, of the model's size, with names; and what it is, in words."""
    from hypersphere.evaluation.protocols import EmbeddingSource

    if options.count < 2:
        raise ValueError(f"--count {options.count} must be at least 2")
    place, contract = options.images, model.contract
    grey = contract.colour == "grey"
    if pairs is not None and options.pairs.suffix == ".bin":
        place = options.pairs
    if place is None and pairs is not None:
        raise ValueError("--pairs needs --images: where the images of the list are")
    if place is None:
        first = hs.pocket.VALIDATION.start
        faces = hs.pocket.PocketFaces(options.count, 1, contract.input_size, first_identity=first, grey=grey)
        return faces, [faces.describe(index) for index in range(len(faces))], "painted faces"
    names = EmbeddingSource(model=[model], images=[place]).image_names() if pairs is None else pairs.names
    named = hs.data.NamedImages(place, names)
    if pairs is not None:
        pairs.check_images(named.missing, named.files)
    if len(named) < 2:
        raise ValueError(f"--images {place}: has {len(named)} images; at least 2 are needed")
    fitted = hs.data.Fitted(named, contract.input_size, grey=grey, resize=options.resize, resize_option="--resize")
    return fitted, list(named.files), f"images of {place.name}"


def _embedded(model: Embedder, source: ImageSource, places: Sequence[int], by: str) -> npt.NDArray[np.float32]:
    import torch

    with Progress(f"embedding by {by}", "images") as progress:
        made = hs.evaluation.embed(model, source, torch.tensor(places), batch_size=64, progress=progress)
    values: npt.NDArray[np.float32] = made.numpy()
    return values


def _float32_bytes(model: Embedder) -> int:
    from torch import nn

    weights = model.network.state_dict() if isinstance(model.network, nn.Module) else {}
    return sum(4 * each.numel() for each in weights.values())


def _print_pairs(pairs: PairParity) -> None:
    from hypersphere.evaluation.results.metric_tables import estimate_cells
    from hypersphere.plots import points

    before, after = (estimate_cells(each)[0] for each in (pairs.before, pairs.after))
    estimate, p = pairs.difference.estimate, pairs.difference.p_value
    change = points(estimate.value, estimate.low, estimate.high)
    print(f"  accuracy  {before} before, {after} after: {change} points (McNemar's p = {p:.2g}) on {pairs.title}")
