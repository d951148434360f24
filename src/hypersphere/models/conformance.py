"""Whether a runtime computes what the reference did, and which of the usual mistakes explains it where it does not."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from hypersphere.data import ArraySource
from hypersphere.models.align import ALIGNMENT_TARGETS
from hypersphere.models.contract import COLOURS, FLIPS, Contract
from hypersphere.models.embedder import Embedder
from hypersphere.models.golden import Golden

TOLERANCE = 0.999
"""The least cosine to the reference of a runtime that is right; half precision and TF32 stay above it."""
_SAME = 0.9999
"""Cosine from which on two different people have one embedding."""
_SCALINGS = (
    ((0.0,), (1.0,), "pixels from 0 to 255, scaled inside the network"),
    ((127.5,), (127.5,), "(x - 127.5) / 127.5"),
    ((127.5,), (128.0,), "(x - 127.5) / 128"),
    ((0.0,), (255.0,), "x / 255"),
    ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375), "ImageNet's mean and deviation"),
)
Units = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Probe:
    """What one probe found.

    Args:
        name: `numbers`, `persons`, `batch`, `cosine`, and of a mistake `colour`, `normalisation`, `alignment`, `flip`.
        passed: whether it is as it should be.
        found: a sentence.
    """

    name: str
    passed: bool
    found: str


_OVERFLOW = Probe(
    "numbers",
    False,
    "embeddings are not finite: half precision ends at 65504, and a layer goes beyond it; compute in single precision, "
    "or in bfloat16",
)
_UNKNOWN = Probe("other", False, "none of the usual mistakes: it computes other numbers; try single precision")


@dataclass(frozen=True)
class Conformance:
    """The result of all probes.

    Args:
        probes: in order.
        cosines: of each golden picture to its reference.
    """

    probes: tuple[Probe, ...]
    cosines: tuple[float, ...]

    @property
    def passed(self) -> bool:
        """Whether every probe did."""
        return all(probe.passed for probe in self.probes)

    @property
    def mistake(self) -> str:
        """The name of the first probe that failed and explains the others; empty where all passed."""
        failed = [probe.name for probe in self.probes if not probe.passed]
        return next((name for name in failed if name != "cosine"), failed[0] if failed else "")


def check_conformance(
    model: Embedder, golden: Golden, *, tolerance: float = TOLERANCE, single_images: str = ""
) -> Conformance:
    """Compare a model with the reference's embeddings of golden pictures.

    Args:
        model: as it is to be used, on the runtime that is judged.
        golden: pictures and what the reference made of them.
        tolerance: the least cosine that passes.
        single_images: why the file is run image by image though it declares a free batch, where it is.
    """
    if golden.unit.shape[1] != model.contract.width:
        raise ValueError(
            f"{model.name}: its embeddings have {model.contract.width} numbers, those of the golden pictures "
            f"{golden.unit.shape[1]}; they belong to another model"
        )
    if len(golden.landmarks) and model.contract.target is None:
        raise ValueError(
            f"{model.name}: the golden pictures are photos with landmarks, but the contract names no alignment target "
            "that is known; state `alignment` or `points`"
        )
    units = _units(model, model.contract, golden)
    if units is None:
        return Conformance((_OVERFLOW,), ())
    cosines = (units * golden.unit).sum(1)
    least = float(cosines.min())
    probes = [
        Probe("numbers", True, "all embeddings are finite"),
        _persons(units, golden.unit),
        _batch(model, golden, units, single_images),
        Probe(
            "cosine", least >= tolerance, f"least cosine to the reference {least:.6f}, at least {tolerance:g} wanted"
        ),
    ]
    if least < tolerance:
        explained = _explanation(model, golden, least, tolerance)
        if explained is not None:
            probes.insert(0, explained)
        elif probes[1].passed:
            probes.append(_UNKNOWN)
    return Conformance(tuple(probes), tuple(cosines.tolist()))


def _units(model: Embedder, contract: Contract, golden: Golden) -> Units | None:
    """The unit vectors of the golden pictures by a contract, one by one; None where one is not finite."""
    changed = dataclasses.replace(model, contract=contract, crops="")
    source = changed.fitted(ArraySource(golden.crops(contract.target), where="golden pictures"))
    raw = torch.cat([changed.raw(source.batch([index])) for index in range(len(source))])
    if not raw.isfinite().all():
        return None
    units: Units = torch.nn.functional.normalize(raw.double(), dim=1).float().numpy()
    return units


def _persons(units: Units, reference: Units) -> Probe:
    """Whether different people have different embeddings, where the reference tells them apart."""
    pairs = np.triu_indices(len(units), 1)
    least, wanted = float((units @ units.T)[pairs].min()), float((reference @ reference.T)[pairs].min())
    passed = least < _SAME or wanted >= _SAME
    found = "different people have different embeddings" if passed else "one embedding for all: the input is not read"
    return Probe("persons", passed, found)


def _batch(model: Embedder, golden: Golden, single: Units, warned: str) -> Probe:
    """Whether pictures together give what they give one by one, in their order."""
    if warned:
        return Probe("batch", False, f"a batch is mixed up: {warned}")
    crops = golden.crops(model.contract.target)
    raw = model.raw(model.fitted(ArraySource(crops, where="golden pictures")).batch(range(len(crops))))
    if not raw.isfinite().all():
        return Probe("batch", False, "a batch is mixed up: together the pictures give numbers that are not finite")
    together = torch.nn.functional.normalize(raw.double(), dim=1).numpy()
    cosines = (together * single).sum(1)
    if cosines.min() >= _SAME:
        return Probe("batch", True, f"{len(single)} pictures together give what they give one by one")
    nearest = (together @ single.T).argmax(1)
    order = f" (picture {int(np.argmin(cosines))} got that of {int(nearest[np.argmin(cosines)])})"
    return Probe("batch", False, f"a batch is mixed up: together other embeddings than one by one{order}")


def _explanation(model: Embedder, golden: Golden, least: float, tolerance: float) -> Probe | None:
    """The mistake whose undoing brings the reference back; None where none of the usual ones does."""
    best: tuple[float, Probe | None] = (least, None)
    for name, found, contract in _undone(model.contract, golden):
        units = _units(model, contract, golden)
        cosine = -1.0 if units is None else float((units * golden.unit).sum(1).min())
        if cosine >= tolerance and cosine > best[0]:
            best = cosine, Probe(name, False, f"{found} (cosine {cosine:.6f} then)")
    return best[1]


def _undone(contract: Contract, golden: Golden) -> Iterator[tuple[str, str, Contract]]:
    """Contracts in which one usual mistake is undone, each with its name and a sentence."""
    scalings = [
        (mean, std, text)
        for mean, std, text in _SCALINGS
        if (mean, std) != (contract.mean, contract.std) and len(mean) in (1, contract.channels)
    ]
    swapped = [colour for colour in COLOURS if contract.colour != "grey" and colour not in ("grey", contract.colour)]
    plain = dataclasses.replace(contract, inside=(), digest=contract.digest)
    for colour in swapped:
        text = f"the channels are swapped: the network reads {colour.upper()}, not {contract.colour.upper()}"
        yield "colour", text, dataclasses.replace(plain, colour=colour)
    for mean, std, text in scalings:
        twice = mean == (0.0,) and std == (1.0,)
        kind = "normalised twice" if twice else "normalised not at all, or otherwise"
        yield "normalisation", f"{kind}: the network wants {text}", dataclasses.replace(plain, mean=mean, std=std)
        for colour in swapped:
            changed = dataclasses.replace(plain, mean=mean, std=std, colour=colour)
            yield "normalisation", f"{kind}, and the channels are swapped: the network wants {text}", changed
    for flip in FLIPS:
        if flip != contract.flip and (flip == "concat") == (contract.flip == "concat"):
            yield "flip", f"mirror images are merged otherwise: by {flip}", dataclasses.replace(plain, flip=flip)
    if len(golden.landmarks):
        for name, target in ALIGNMENT_TARGETS.items():
            if target.size == contract.input_size and target != contract.target:
                changed = dataclasses.replace(plain, alignment=name, points=())
                yield "alignment", f"another alignment target: the network wants {name}", changed
