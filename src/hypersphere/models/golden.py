"""Golden pictures: painted faces with their landmarks and the embeddings that a model must make of them."""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hypersphere.core import import_extra, read_bounded, read_json
from hypersphere.data import Image
from hypersphere.models.align import ALIGNMENT_TARGETS, AlignmentTarget, align_face
from hypersphere.models.catalogue import CATALOGUE_FOLDER, find_entry
from hypersphere.models.contract import Contract
from hypersphere.models.embedder import Embedder
from hypersphere.models.model_file import find_model
from hypersphere.pocket import VALIDATION, PocketFaces

COUNT = 6
"""Painted people."""
METADATA = "hypersphere.golden"
"""The key under which an ONNX file carries its golden pictures."""
SUFFIX = ".golden.safetensors"
_SIDE = 160
_LARGEST = 2**24


@dataclass(frozen=True, eq=False)
class Golden:
    """Pictures that anybody may have, and what a model makes of them.

    Args:
        photos: uint8 (N, H, W, 3): photos with a face, or crops where `landmarks` is empty.
        landmarks: (N, 5, 2) of the faces, for a model whose contract states an alignment target.
        unit: (N, width) the unit vectors of the reference.
    """

    photos: npt.NDArray[np.uint8]
    landmarks: npt.NDArray[np.float32]
    unit: npt.NDArray[np.float32]

    def crops(self, target: AlignmentTarget | None) -> npt.NDArray[np.uint8]:
        """The pictures as a model with this alignment target is given them."""
        if not len(self.landmarks) or target is None:
            return self.photos
        pairs = zip(self.photos, self.landmarks, strict=True)
        crops: list[Image] = [align_face(photo, points, target) for photo, points in pairs]
        return np.stack(crops)

    def to_bytes(self) -> bytes:
        """The content of a file."""
        safetensors = import_extra("safetensors.numpy", "writing golden pictures")
        data: bytes = safetensors.save({"photos": self.photos, "landmarks": self.landmarks, "unit": self.unit})
        return data


def paint_golden(model: Embedder) -> Golden:
    """Return golden pictures with what this model makes of them: it becomes the reference."""
    golden = _painted(model.contract)
    return replace(golden, unit=model(golden.crops(model.contract.target), batch_size=1, workers=0).numpy())


def _painted(contract: Contract) -> Golden:
    """The pictures for a contract, without what a model makes of them."""
    target = contract.target
    # A target of five landmarks is tried with photos; of other crops nothing says how they are made from photos.
    aligned = target is not None and len(target.points) == 5
    size = (_SIDE, _SIDE) if aligned else contract.input_size
    faces = PocketFaces(COUNT, 1, size, first_identity=VALIDATION.start, difficulty=0.5)
    photos = np.stack([faces.read(index) for index in range(COUNT)])
    landmarks = np.zeros((0, 5, 2), np.float32)
    if aligned:
        points = np.asarray(ALIGNMENT_TARGETS["insightface-112"].points, np.float32) * (_SIDE / 112)
        landmarks = np.stack([points] * COUNT)
    return Golden(photos, landmarks, np.zeros((0, 0), np.float32))


def read_golden(data: bytes, where: str) -> Golden:
    """Return golden pictures from the content of a file; ValueError where they are damaged."""
    safetensors = import_extra("safetensors.numpy", "reading golden pictures")
    try:
        arrays = safetensors.load(data)
        golden = Golden(*(arrays[name] for name in ("photos", "landmarks", "unit")))
    except Exception as error:  # safetensors raises a class of its own for damaged files
        raise ValueError(f"{where}: not golden pictures ({error})") from None
    count = len(golden.photos)
    fits = golden.photos.dtype == np.uint8 and golden.photos.ndim == 4 and golden.photos.shape[3] == 3 and count > 1
    fits = fits and golden.unit.ndim == 2 and len(golden.unit) == count and bool(np.isfinite(golden.unit).all())
    if not fits or golden.landmarks.shape not in ((0, 5, 2), (count, 5, 2)):
        raise ValueError(f"{where}: golden pictures of shapes that do not fit each other; write them again")
    return golden


def golden_of(model: str | Path) -> Golden | None:
    """Return the golden pictures in an ONNX file, beside a file as `X.golden.safetensors`, or of a named model."""
    entry = find_entry(model)
    if entry is not None and entry.contract is not None and entry.name in (known := _named_units()):
        # The pictures of the package's own models are painted anew, the same bits everywhere: only vectors are kept.
        return replace(_painted(entry.contract), unit=np.asarray(known[entry.name], np.float32))
    path = find_model(model)
    beside = path.with_suffix(SUFFIX)
    if beside.is_file():
        return read_golden(read_bounded(beside, _LARGEST, "golden pictures"), str(beside))
    if path.suffix != ".onnx":
        return None
    onnx = import_extra("onnx", "reading the golden pictures of an ONNX file")
    try:
        properties = onnx.load(path, load_external_data=False).metadata_props
        text = next((entry.value for entry in properties if entry.key == METADATA), None)
        return None if text is None else read_golden(base64.b64decode(text, validate=True), str(path))
    except ValueError:
        raise
    except Exception as error:  # protobuf raises classes of its own for damaged files
        raise ValueError(f"{path}: not an ONNX file ({error})") from None


def _named_units() -> dict[str, list[list[float]]]:
    """What the package's named models make of their golden pictures."""
    units: dict[str, list[list[float]]] = read_json(CATALOGUE_FOLDER / "golden.json")
    return units


def with_golden(data: bytes, golden: Golden) -> bytes:
    """Return the bytes of an ONNX file that carries golden pictures."""
    onnx = import_extra("onnx", "writing an ONNX file")
    model = onnx.load_from_string(data)
    onnx.helper.set_model_props(model, {METADATA: base64.b64encode(golden.to_bytes()).decode()})
    content: bytes = model.SerializeToString()
    return content
