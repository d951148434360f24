"""Detectors that see a whole photo at once, in a square of fixed size: YuNet and SCRFD."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from hypersphere.core import check_range
from hypersphere.data import Image
from hypersphere.recognition.detect.arguments import check_photos
from hypersphere.recognition.detect.boxes import Boxes, Scores, keep_best
from hypersphere.recognition.detect.session import shapes_of
from hypersphere.recognition.face import Face

Array = npt.NDArray[np.float32]
STRIDES = (8, 16, 32)
FREE_SIDE = 640
"""The square where a file leaves its size free."""
LARGEST_SIDE = 2048
"""Pixels that a side of a file's square may have: more takes gigabytes and seconds for a photo, and finds no more."""


class OneShot(ABC):
    """Faces and landmarks of a photo by one run of a network over a grid of places.

    A photo is made as large as the network's square, its sides in proportion, and the rest is black.

    Args:
        path: the ONNX file.
        session: of onnxruntime, whose outputs a child knows.
        score: the score that a face needs.
        overlap: share of the union from which on two boxes are one face.
    """

    name: str

    def __init__(self, path: str | Path, session: Any, *, score: float, overlap: float) -> None:
        self.path, self._session = Path(path), session
        self.score = check_range("score", score, 0.0, 1.0)
        self.overlap = check_range("overlap", overlap, 0.0, 1.0)
        ((self._input, shape),) = shapes_of(session.get_inputs()).items()
        if isinstance(shape[0], int) and shape[0] != 1:
            raise ValueError(
                f"{path}: its batch is fixed to {shape[0]:,} images; export it for one image, or with a free batch"
            )
        height, width = (each if isinstance(each, int) else FREE_SIDE for each in shape[2:])
        for side in (height, width):
            if side % STRIDES[-1] or not STRIDES[-1] <= side <= LARGEST_SIDE:
                raise ValueError(
                    f"{path}: its input is {width}x{height} pixels; expected multiples of {STRIDES[-1]} up to "
                    f"{LARGEST_SIDE}"
                )
        self.size = height, width

    @abstractmethod
    def prepared(self, square: Array) -> Array:
        """Return an RGB image, float32 (3, H, W) from 0 to 255, as the network reads it."""

    @abstractmethod
    def decoded(self, outputs: Mapping[str, Array]) -> tuple[Scores, Boxes, Array]:
        """Return scores (n,), boxes (n, 4) and landmarks (n, 5, 2) in pixels of the square."""

    def __call__(self, images: Sequence[Image]) -> list[list[Face]]:
        """Return the faces of every photo, the best score first.

        Args:
            images: uint8 (H, W, 3) RGB photos of any sizes; they are looked at one by one.
        """
        check_photos(images)
        return [self._detect(image) for image in images]

    def _detect(self, image: Image) -> list[Face]:
        square, scale = _in_square(image, self.size)
        names = [each.name for each in self._session.get_outputs()]
        try:
            outputs = self._session.run(None, {self._input: self.prepared(square)[None]})
        except Exception as error:  # onnxruntime raises classes of its own
            raise ValueError(f"{self.path}: onnxruntime could not run it on a photo ({error})") from None
        with np.errstate(over="ignore", invalid="ignore"):  # of places without a face; those of a face are judged below
            scores, boxes, landmarks = self.decoded(dict(zip(names, outputs, strict=True)))
        good = np.flatnonzero(~(scores < self.score))
        scores, boxes, landmarks = scores[good], *((each[good] + 0.5) / scale - 0.5 for each in (boxes, landmarks))
        if not all(np.isfinite(each).all() for each in (scores, boxes, landmarks)):
            raise ValueError(f"{self.path}: gave a face whose score, box or landmarks are not finite; fetch it again")
        return [
            Face(tuple(boxes[k].tolist()), float(scores[k]), landmarks[k])
            for k in keep_best(boxes, scores, self.overlap)
        ]

    def rows(self, outputs: Mapping[str, Array], name: str, stride: int, width: int) -> tuple[Array, int]:
        """Return an output as a row for each anchor of every place of a stride, and the number of anchors."""
        found, cells = outputs[name], self.size[0] * self.size[1] // stride**2
        rows = found.reshape(-1, found.shape[-1]) if found.ndim and found.shape[-1] == width else found[None][:0]
        if not len(rows) or len(rows) % cells:
            raise ValueError(
                f"{self.path}: its output {name!r} is {found.shape}; expected {width} numbers for each of the "
                f"{cells:,} places of stride {stride}"
            )
        return rows, len(rows) // cells


def grid(size: tuple[int, int], stride: int, anchors: int = 1) -> Array:
    """Return x and y of the places of one stride in pixels, row by row, each `anchors` times: (n, 2)."""
    rows, columns = (side // stride for side in size)
    y, x = np.mgrid[:rows, :columns]
    return np.stack([x, y], 2).reshape(-1, 2).repeat(anchors, 0).astype(np.float32) * stride


def _in_square(image: Image, size: tuple[int, int]) -> tuple[Array, float]:
    height, width = image.shape[:2]
    scale = min(size[0] / height, size[1] / width)
    inner = tuple(max(1, round(side * scale)) for side in (height, width))
    planes = torch.tensor(image).permute(2, 0, 1)[None].float()
    square = torch.zeros(3, *size)
    square[:, : inner[0], : inner[1]] = functional.interpolate(planes, inner, mode="bilinear", antialias=True)[0]
    return square.numpy(), scale
