"""Photos for the service: painted faces, and a detector that counts faces by a photo's width."""

import io
from collections.abc import Sequence
from functools import cache

import numpy as np
from PIL import Image as Pillow

import hypersphere as hs
from hypersphere.data import Image, encode
from hypersphere.recognition import ALIGNMENT_TARGETS, Face

NO_FACE, TWO_FACES = 113, 114
"""Widths of photos on which `ByWidth` finds none and two."""
POINTS = np.asarray(ALIGNMENT_TARGETS["insightface-112"].points, dtype=np.float32)


class ByWidth:
    """A fake detector: one face that fills the photo, but for two widths."""

    name = "by width"

    def __call__(self, images: Sequence[Image]) -> list[list[Face]]:
        counts = [{NO_FACE: 0, TWO_FACES: 2}.get(image.shape[1], 1) for image in images]
        return [[Face((10.0, 12.0, 100.0, 110.0), 0.99, POINTS)] * count for count in counts]


@cache
def painted(identity: int, number: int = 0) -> bytes:
    """A painted face of somebody, as PNG."""
    faces = hs.pocket.PocketFaces(num_identities=8, images_per_identity=2, size=112)
    return encode(faces.read(2 * identity + number))


def noise(seed: int = 0, width: int = 112, height: int = 112) -> bytes:
    """A photo like no face, as PNG: its score with any face is low."""
    rng = np.random.default_rng(seed)
    return encode(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))


def huge(width: int, height: int) -> bytes:
    """A small file of many white pixels."""
    stream = io.BytesIO()
    Pillow.new("1", (width, height), 1).save(stream, format="PNG")
    return stream.getvalue()
