"""The embedding contract: what a model must be given, and what it gives."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypersphere.core import (
    as_table,
    build,
    check_choice,
    check_integer,
    check_positive,
    check_range,
    load_toml,
    nearest,
    parse_json,
    read_json,
)
from hypersphere.models.align import ALIGNMENT_TARGETS, AlignmentTarget

COLOURS = ("rgb", "bgr", "grey")
FLIPS = ("none", "concat", "sum", "mean")
INSIDE = ("input", "output")
LARGEST_SIDE = 4096
"""Pixels that an image of a contract may be high or wide."""
_BRIGHTEST = 1e6
_LATER = ("points", "inside", "licence", "data", "source")


@dataclass(frozen=True, kw_only=True)
class Contract:
    """How a model's embeddings are made. Embeddings of two different contracts cannot be compared.

    Args:
        input_size: height and width of the images.
        colour: `rgb`, `bgr` or `grey`, the order of the channels that the network reads.
        mean, std: the network reads (x - mean) / std, x from 0 to 255; one number, or one for each of its channels.
        flip: how the embeddings of an image and its mirror image become one: `none` (no mirror image), `concat`, `sum`
            or `mean`. What is merged is what the network returns, before any normalisation.
        dim: width of the network's output; 0 where it is not stated.
        backbone: the network's name, where it is known.
        alignment: the alignment target that faces are warped to, in a word, where it is known.
        digest: of the weights, filled in when a model is saved or loaded.
        points: the alignment target itself, x and y of each landmark in pixels of the crop; for a target that has no
            name in `ALIGNMENT_TARGETS`.
        inside: which normalisations the network does itself: `input`, it scales pixels from 0 to 255, so that mean is 0
            and std 1; `output`, it returns unit vectors.
        licence: of the weights.
        data: what they were trained on.
        source: the address that the weights come from.

    What the last four say changes no embedding, so contracts that differ in nothing else are equal.

    Example:
        >>> contract = Contract(input_size=(112, 112), mean=(127.5,), std=(127.5,), dim=512)
    """

    input_size: tuple[int, int]
    colour: str = "rgb"
    mean: tuple[float, ...] = (127.5,)
    std: tuple[float, ...] = (127.5,)
    flip: str = "none"
    dim: int = 0
    backbone: str = ""
    alignment: str = ""
    digest: str = ""
    points: tuple[tuple[float, ...], ...] = ()
    inside: tuple[str, ...] = field(default=(), compare=False)
    licence: str = field(default="", compare=False)
    data: str = field(default="", compare=False)
    source: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        for side in self.input_size:
            if check_integer("input_size", side, 1) > LARGEST_SIDE:
                raise ValueError(f"input_size={side} must be at most {LARGEST_SIDE}")
        check_choice("colour", self.colour, COLOURS)
        check_choice("flip", self.flip, FLIPS)
        check_integer("dim", self.dim, 0)
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) not in (1, self.channels):
                raise ValueError(f"{name} has {len(values)} numbers; {self.colour} images need 1 or {self.channels}")
        for value in self.mean:
            check_range("mean", value, -_BRIGHTEST, _BRIGHTEST)
        for value in self.std:
            check_range("std", check_positive("std", value), 1 / _BRIGHTEST, _BRIGHTEST)
        for part in self.inside:
            check_choice("inside", part, INSIDE)
        if "input" in self.inside and (set(self.mean), set(self.std)) != ({0.0}, {1.0}):
            raise ValueError(
                f"inside says that the network scales pixels itself, but mean={self.mean} and std={self.std} scale them"
                " before it: state mean = [0] and std = [1], or leave 'input' out"
            )
        if self.points:
            self._check_points()

    def _check_points(self) -> None:
        if any(len(point) != 2 for point in self.points):
            raise ValueError("points: each is x and y, two numbers")
        target = AlignmentTarget(tuple((x, y) for x, y in self.points), self.input_size)
        if self.alignment in ALIGNMENT_TARGETS and target != ALIGNMENT_TARGETS[self.alignment]:
            raise ValueError(
                f"points are not those of alignment={self.alignment!r}; leave one of them out, or give the points "
                "another name"
            )

    @property
    def target(self) -> AlignmentTarget | None:
        """The alignment target; None where the contract has no points and no word that is known."""
        if self.points:
            return AlignmentTarget(tuple((x, y) for x, y in self.points), self.input_size)
        return ALIGNMENT_TARGETS.get(self.alignment)

    @property
    def channels(self) -> int:
        """Of the images: 1 if grey, otherwise 3."""
        return 1 if self.colour == "grey" else 3

    @property
    def width(self) -> int:
        """Of the embeddings: twice `dim` where an image's and its mirror image's are put side by side."""
        return 2 * self.dim if self.flip == "concat" else self.dim

    def table(self) -> dict[str, Any]:
        """As plain values, for files and results; without what came later and is not stated.

        So the files of a contract that states none of it are read by older versions, too.
        """
        table: dict[str, Any] = as_table(self)
        return {name: value for name, value in table.items() if name not in _LATER or value}


PRESETS = {
    "insightface": Contract(input_size=(112, 112), alignment="insightface-112"),
    "opencv-sface": Contract(
        input_size=(112, 112),
        mean=(0.0,),
        std=(1.0,),
        alignment="insightface-112",
        backbone="sface",
        inside=("input",),
    ),
    "arcface-torch": Contract(input_size=(112, 112), flip="sum", alignment="insightface-112"),
    "adaface": Contract(input_size=(112, 112), colour="bgr", flip="sum", alignment="insightface-112"),
    "cvlface": Contract(input_size=(112, 112), flip="sum", alignment="insightface-112"),
    "opensphere": Contract(input_size=(112, 112), flip="mean", alignment="insightface-112"),
    "sphereface-pytorch": Contract(input_size=(112, 96), colour="bgr", std=(128.0,), alignment="sphereface-112x96"),
    "open-model-zoo": Contract(
        input_size=(128, 128),
        colour="bgr",
        mean=(0.0,),
        std=(1.0,),
        alignment="open-model-zoo-128",
        inside=("input",),
    ),
}
"""Contracts of models that others distribute, as ONNX files or as weights of torch. `arcface-torch` to
`opensphere` merge mirror images as in their own evaluations.

SFace reads RGB: OpenCV is handed BGR images, and swaps the channels before it runs the network (`swapRB=true` in
FaceRecognizerSF::feature). `open-model-zoo` is of Intel's face-reidentification-retail-0095.
"""


def read_contract(source: str | Path) -> Contract:
    """A preset by its name, or the contract in a `.json` or `.toml` file.

    Example:
        >>> read_contract("opencv-sface").mean
        (0.0,)
    """
    path = Path(source)
    if path.suffix not in (".json", ".toml"):
        if str(source) not in PRESETS:
            hint = nearest(str(source), PRESETS)
            raise ValueError(f"contract {str(source)!r} is neither a preset nor a .json or .toml file; {hint}")
        return PRESETS[str(source)]
    if path.suffix == ".json":
        return parse_contract_table(read_json(path), str(path))
    return _built(load_toml(path), str(path))


def contract_beside(model: Path) -> Contract | None:
    """The contract in `X.contract.json` or `X.contract.toml` beside a model file `X.onnx`; None if there is none."""
    for suffix in (".contract.json", ".contract.toml"):
        path = model.with_suffix(suffix)
        if path.is_file():
            return read_contract(path)
    return None


def parse_contract(text: str, where: str) -> Contract:
    """A contract from JSON."""
    return parse_contract_table(parse_json(text, f"{where}: contract"), where)


def parse_contract_table(table: Any, where: str) -> Contract:
    """A contract from the table of a file."""
    if not isinstance(table, dict):
        raise ValueError(f"{where}: the contract must be a table")
    return _built(table, where)


def _built(table: dict[str, Any], where: str) -> Contract:
    try:
        return build(Contract, table)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def matched(contract: Contract, *, dim: int, digest: str, where: str) -> Contract:
    """The contract with the model's own width and digest, which it must not contradict."""
    if contract.dim not in (0, dim):
        raise ValueError(f"{where}: the network returns {dim} numbers, but the contract says dim={contract.dim}")
    if contract.digest not in ("", digest):
        raise ValueError(f"{where}: the weights have digest {digest}, but the contract says {contract.digest}")
    return dataclasses.replace(contract, dim=dim, digest=digest)
