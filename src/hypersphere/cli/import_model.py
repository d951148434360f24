"""`hypersphere import`: weights that others trained, as a model file with its contract."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypersphere as hs
from hypersphere.cli.evaluate_options import CONTRACTS, FLIPS
from hypersphere.cli.output import Results

if TYPE_CHECKING:
    from hypersphere.models import Contract

COLOURS = ("rgb", "bgr", "grey")
_STATED = ("input_size", "colour", "mean", "std")
LISTED = 3


def add_command(commands: Any) -> None:
    """Add `import` to the command line."""
    parser = commands.add_parser(
        "import",
        help="others' weights (arcface_torch, AdaFace, CVLface, OpenSphere, ...) as a model file",
        description="Write the network of arcface_torch, AdaFace, CVLface, OpenSphere or sphereface_pytorch (.pt, "
        ".pth, .ckpt, .safetensors) as OUT.safetensors, or an ONNX or OpenVINO file as OUT.onnx or OUT.xml, with the "
        "contract that says how images are prepared; or the classifier of all of arcface_torch's processes as a file "
        "of prototypes. Of a file of torch nothing but tensors is loaded.",
    )
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="backbone.pth, X.ckpt, X.onnx, rank_0_softmax_weight.pt"
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="the new .safetensors, or .onnx for an ONNX file")
    parser.add_argument("--replace", action="store_true", help="overwrite OUT if it is there")
    parser.add_argument(
        "--prototypes", action="store_true", help="of checkpoint_gpu_0.pt: the classifier instead of the network"
    )
    stated = parser.add_argument_group(
        "contract", "what the file cannot tell; an option goes before --contract's value"
    )
    stated.add_argument(
        "--contract", metavar="C", help=f"as they evaluate: {', '.join(CONTRACTS)}; or a .toml or .json file"
    )
    stated.add_argument("--input-size", type=int, nargs=2, metavar=("H", "W"), help="height and width of the images")
    stated.add_argument("--colour", choices=COLOURS, help="the order of the channels that the network reads")
    stated.add_argument("--mean", type=float, nargs="+", metavar="X", help="it reads (x - mean) / std, x from 0 to 255")
    stated.add_argument("--std", type=float, nargs="+", metavar="X", help="one number, or one for each channel")
    stated.add_argument("--flip", choices=FLIPS, help="how the embedding of the mirror image is merged")
    stated.add_argument("--alignment", metavar="NAME", help="the points that faces are aligned to, in a word")
    parser.set_defaults(run="import_model:run")


def run(options: argparse.Namespace) -> Results:
    """Import, and say what was found."""
    if options.prototypes or hs.models.has_prototypes_only(options.file):
        files, classes = hs.models.import_prototypes(options.file, options.out, replace=options.replace)
        print(f"{options.out}: the prototypes of {classes:,} classes, from {files} files")
        return Results({"file": options.out, "files": files, "classes": classes})
    found = hs.models.import_model(options.file, options.out, _contract(options), replace=options.replace)
    contract = found.contract
    height, width = contract.input_size
    print(f"{options.out}: {contract.backbone or 'network'}, {contract.dim} numbers, from {found.layout}")
    scaled = f"mean {_numbers(contract.mean)}, std {_numbers(contract.std)}"
    print(f"  images    {width}x{height} {contract.colour}, {scaled}, mirror images: {contract.flip}")
    if found.left_out:
        more = f" and {len(found.left_out) - LISTED} more" if len(found.left_out) > LISTED else ""
        print(f"  left out  {', '.join(found.left_out[:LISTED])}{more}: not of the network")
    return Results({"file": options.out, "layout": found.layout, "contract": contract, "left_out": found.left_out})


def _contract(options: argparse.Namespace) -> Contract:
    """The stated one, with what single options say instead."""
    import dataclasses

    given = {name: getattr(options, name) for name in (*_STATED, "flip", "alignment")}
    given = {
        name: tuple(value) if isinstance(value, list) else value for name, value in given.items() if value is not None
    }
    if options.contract is not None:
        return dataclasses.replace(hs.models.read_contract(options.contract), **given)
    missing = [f"--{name.replace('_', '-')}" for name in _STATED if name not in given]
    if missing:
        raise ValueError(
            f"{options.file} does not say how images are prepared: give --contract (such as {CONTRACTS[2]}, or a "
            f"file), or {', '.join(missing)}"
        )
    return hs.models.Contract(**given)


def _numbers(values: tuple[float, ...]) -> str:
    return " ".join(f"{value:g}" for value in values)
