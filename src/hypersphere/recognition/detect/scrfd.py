"""SCRFD, the face detector of InsightFace, by an ONNX file with landmarks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hypersphere.recognition.detect.boxes import Boxes, Scores
from hypersphere.recognition.detect.one_shot import STRIDES, Array, OneShot, grid

WIDTHS = (1, 4, 10)
"""Scores, boxes and landmarks, in the order of a file's outputs: those of the three strides each."""


class Scrfd(OneShot):
    """Faces and five landmarks by SCRFD (scrfd_*_bnkps.onnx, det_10g.onnx and their like).

    At a place (x, y) of stride s the network gives a score, the distances l, t, r, b of the box's edges and points
    (px, py): the box is (x - s l, y - s t, x + s r, y + s b), each landmark (x + s px, y + s py).

    Args:
        path, session: of the file.
        score: that a face needs.
        overlap: share of the union from which on two boxes are one face.

    References:
        Sample and Computation Redistribution for Efficient Face Detection, arXiv:2105.04714.
    """

    name = "scrfd"

    def __init__(self, path: str | Path, session: Any, *, score: float = 0.5, overlap: float = 0.4) -> None:
        super().__init__(path, session, score=score, overlap=overlap)

    def prepared(self, square: Array) -> Array:
        """Red first, from -1 to 1."""
        return (square - np.float32(127.5)) / np.float32(128)

    def decoded(self, outputs: Mapping[str, Array]) -> tuple[Scores, Boxes, Array]:
        """Scores, boxes and landmarks of every place."""
        names, scores, boxes, landmarks = list(outputs), [], [], []
        for number, stride in enumerate(STRIDES):
            parts = [
                self.rows(outputs, names[kind * len(STRIDES) + number], stride, width)
                for kind, width in enumerate(WIDTHS)
            ]
            (judged, anchors), (edges, _), (points, _) = parts
            if {count for _, count in parts} != {anchors}:
                raise ValueError(f"{self.path}: its outputs of stride {stride} have unequal numbers of rows")
            places, edges = grid(self.size, stride, anchors), edges * stride
            scores.append(judged[:, 0])
            boxes.append(np.concatenate([places - edges[:, :2], places + edges[:, 2:]], 1))
            landmarks.append(places[:, None] + stride * points.reshape(-1, 5, 2))
        return np.concatenate(scores), np.concatenate(boxes), np.concatenate(landmarks)
