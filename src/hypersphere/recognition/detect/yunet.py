"""YuNet, the face detector of OpenCV's model zoo, by its ONNX file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hypersphere.recognition.detect.boxes import Boxes, Scores
from hypersphere.recognition.detect.one_shot import STRIDES, Array, OneShot, grid

_WIDTHS = {"cls": 1, "obj": 1, "bbox": 4, "kps": 10}
OUTPUTS = {f"{kind}_{stride}": width for kind, width in _WIDTHS.items() for stride in STRIDES}
"""The numbers for each place, by the output's name."""


class YuNet(OneShot):
    """Faces and five landmarks by YuNet (face_detection_yunet_2023mar.onnx, and 2026may, whose size is free).

    At a place (x, y) of stride s the network gives a class score c, an objectness o, a box (dx, dy, w, h) and points
    (px, py): the face's score is sqrt(c o), its centre (x + s dx, y + s dy), its size s e^w by s e^h, and each landmark
    (x + s px, y + s py).

    Args:
        path, session: of the file.
        score: that a face needs.
        overlap: share of the union from which on two boxes are one face.

    References:
        YuNet: A Tiny Millisecond-level Face Detector, Machine Intelligence Research 20, 2023.
    """

    name = "yunet"

    def __init__(self, path: str | Path, session: Any, *, score: float = 0.6, overlap: float = 0.3) -> None:
        super().__init__(path, session, score=score, overlap=overlap)

    def prepared(self, square: Array) -> Array:
        """Blue first, from 0 to 255."""
        return np.ascontiguousarray(square[::-1])

    def decoded(self, outputs: Mapping[str, Array]) -> tuple[Scores, Boxes, Array]:
        """Scores, boxes and landmarks of every place."""
        scores, boxes, landmarks = [], [], []
        for stride in STRIDES:
            parts = [self.rows(outputs, f"{kind}_{stride}", stride, width) for kind, width in _WIDTHS.items()]
            if {anchors for _, anchors in parts} != {1}:
                raise ValueError(f"{self.path}: its outputs of stride {stride} have several rows for each place")
            judged, objects, box, points = (rows for rows, _ in parts)
            places = grid(self.size, stride)
            scores.append(np.sqrt(np.clip(judged[:, 0], 0, 1) * np.clip(objects[:, 0], 0, 1)))
            centre, half = places + stride * box[:, :2], stride * np.exp(box[:, 2:]) / 2
            boxes.append(np.concatenate([centre - half, centre + half], 1))
            landmarks.append(places[:, None] + stride * points.reshape(-1, 5, 2))
        return np.concatenate(scores), np.concatenate(boxes), np.concatenate(landmarks)
