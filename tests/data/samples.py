"""Small sets of images, made on the spot."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from hypersphere.data import ArraySource, EncodedSource

PEOPLE = ("Ada", "Bo_Lee", "Cy")
Picture = npt.NDArray[np.uint8]


def picture(seed: int, height: int = 12, width: int = 10) -> Picture:
    """A smooth colour picture; every seed another."""
    rng = np.random.default_rng(seed)
    corners = Image.fromarray(rng.integers(0, 256, (2, 2, 3), dtype=np.uint8))
    return np.array(corners.resize((width, height), Image.Resampling.BILINEAR))


def saved(image: Picture | Image.Image, kind: str = "JPEG", **options: Any) -> bytes:
    """A picture as Pillow saves it."""
    stream = io.BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(stream, kind, **options)
    return stream.getvalue()


def make_folder(root: Path, each: int = 2, people: tuple[str, ...] = PEOPLE) -> Path:
    """An image folder: `each` JPEGs of every person."""
    for number, person in enumerate(people):
        (root / person).mkdir(parents=True)
        for k in range(each):
            (root / person / f"{k}.jpg").write_bytes(saved(picture(100 * number + k)))
    return root


def arrays(each: int = 2, people: int = 3, side: int = 12, channels: int = 3) -> ArraySource:
    """Pictures in memory, in an order that mixes the people."""
    images = np.stack([picture(k, side, side)[:, :, :channels] for k in range(each * people)])
    return ArraySource(images, np.arange(each * people) % people)


class Failing(EncodedSource):
    """A source whose last image cannot be read from its disk."""

    def __init__(self, count: int = 6) -> None:
        super().__init__(np.arange(count) % 2, ["one", "two"])

    def describe(self, index: int) -> str:
        return f"failing: {index}"

    def encoded(self, index: int) -> bytes:
        if index == len(self) - 1:
            raise OSError(5, "Input/output error")
        return saved(picture(index))


def same_images(first: Any, second: Any) -> bool:
    """Whether two sources give the same pixels in the same order."""
    return len(first) == len(second) and all(
        np.array_equal(first.read(index), second.read(index)) for index in range(len(first))
    )
