"""Pocket faces: a data set that is a program. Any number of people, any number of pictures, no files."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hypersphere.core import check_integer, check_range
from hypersphere.data import Image, ImageSource, Indices, Labels
from hypersphere.pocket.faces import face_landmarks
from hypersphere.pocket.paint import paint_faces

KEPT_BYTES = 2**28
"""A source whose images take no more than this keeps those that it has painted."""


class PocketFaces:
    """Painted faces. An identity is a vector of 39 Gaussian numbers (head, skin, eyes, brows, nose, mouth, hair, beard,
    freckles, ...); an image of it adds pose, light, expression, haircut, occlusion, blur and noise.

    The image number k of identity i is the same bits whenever it is painted, alone or in any batch: it depends on
    (seed, i, k), the size and the difficulty. Sources with disjoint ranges of identities make an open-set split.

    Args:
        num_identities: how many, at least 1.
        images_per_identity: how many of each, at least 1.
        size: height and width, or one number for both; at least 16.
        seed: of everything.
        first_identity: the identities are those from here on.
        difficulty: strength of everything that is not identity. 0: every image of an identity is the same, in front
            of a grey wall. 1: a small network is right about nine pairs of unseen people in ten.
        grey: one channel instead of three.

    Example:
        >>> train = PocketFaces(num_identities=300, images_per_identity=30, size=32)
        >>> test = PocketFaces(num_identities=100, images_per_identity=20, size=32, first_identity=300)
        >>> train.batch([0, 1]).shape
        torch.Size([2, 3, 32, 32])
    """

    def __init__(
        self,
        num_identities: int = 100,
        images_per_identity: int = 20,
        size: int | Sequence[int] = 64,
        seed: int = 0,
        *,
        first_identity: int = 0,
        difficulty: float = 1.0,
        grey: bool = False,
    ) -> None:
        check_integer("num_identities", num_identities, 1)
        check_integer("images_per_identity", images_per_identity, 1)
        check_integer("seed", seed, 0)
        check_integer("first_identity", first_identity, 0)
        check_range("seed", seed, 0, 2**53)
        check_range("first_identity", first_identity, 0, 2**53)
        height, width = (size, size) if isinstance(size, int) else size
        check_integer("size", height, 16)
        check_integer("size", width, 16)
        self.num_classes = num_identities
        self.images_per_identity = images_per_identity
        self.size = int(height), int(width)
        self.seed = seed
        self.first_identity = first_identity
        self.difficulty = check_range("difficulty", difficulty, 0)
        self.grey = bool(grey)
        self.labels: Labels = np.repeat(np.arange(num_identities, dtype=np.int64), images_per_identity)
        shape = len(self.labels), 1 if grey else 3, *self.size
        keep = math.prod(shape) <= KEPT_BYTES
        self._kept = np.empty(shape if keep else 0, np.uint8)
        self._painted = np.zeros(len(self.labels), bool) if keep else None

    def __len__(self) -> int:
        return len(self.labels)

    def read(self, index: int) -> Image:
        """One image, uint8 (H, W, 3), or (H, W, 1) if grey."""
        return np.ascontiguousarray(self._images([index])[0].transpose(1, 2, 0))

    def batch(self, indices: Indices) -> Tensor:
        """Images as a contiguous uint8 (B, C, H, W) tensor."""
        return torch.from_numpy(self._images(indices))

    def describe(self, index: int) -> str:
        """Which image this is, for messages."""
        label, number = divmod(int(index), self.images_per_identity)
        return f"pocket faces: identity {self.first_identity + label}, image {number}"

    def landmarks(self, indices: Indices) -> npt.NDArray[np.float32]:
        """(B, 5, 2): the eyes, the tip of the nose and the corners of the mouth in pixels (x, y), image-left first."""
        return face_landmarks(self.seed, *self._who(self._checked(indices)), self.size, self.difficulty)

    def _images(self, indices: Indices) -> npt.NDArray[np.uint8]:
        chosen = self._checked(indices)
        if self._painted is None:
            return self._paint(chosen)
        new = np.unique(chosen[~self._painted[chosen]])
        if len(new):
            self._kept[new] = self._paint(new)
            self._painted[new] = True
        return self._kept[chosen]

    def _paint(self, chosen: Labels) -> npt.NDArray[np.uint8]:
        images = paint_faces(self.seed, *self._who(chosen), self.size, self.difficulty)
        if not self.grey:
            return images
        red, green, blue = (images[:, channel].astype(np.uint16) for channel in range(3))
        return ((77 * red + 150 * green + 29 * blue + 128) >> 8).astype(np.uint8)[:, None]

    def _who(self, chosen: Labels) -> tuple[Labels, Labels]:
        label, number = np.divmod(chosen, self.images_per_identity)
        return label + self.first_identity, number

    def _checked(self, indices: Indices) -> Labels:
        chosen = np.asarray(indices, dtype=np.int64)
        if chosen.ndim != 1 or not len(chosen):
            raise ValueError(f"indices have shape {chosen.shape}; expected at least one, in one dimension")
        outside = chosen[(chosen < 0) | (chosen >= len(self))]
        if len(outside):
            raise ValueError(f"index {outside[0]} is not in [0, {len(self)})")
        return chosen


def contact_sheet(source: ImageSource, identities: Sequence[int], images: int, gap: int = 2) -> npt.NDArray[np.uint8]:
    """The first images of some identities on one sheet: a row for each identity.

    Args:
        source: images of one size.
        identities: labels.
        images: how many of each; where there are fewer, the row ends white.
        gap: white pixels between images.

    Returns:
        uint8 (height, width, 3).

    Example:
        >>> contact_sheet(PocketFaces(size=32), range(8), 12).shape
        (270, 406, 3)
    """
    check_integer("images", images, 1)
    rows = [np.flatnonzero(source.labels == label)[:images] for label in identities]
    empty = [label for label, row in zip(identities, rows, strict=True) if not len(row)]
    if empty or not rows:
        raise ValueError(f"identity {empty[0]} has no image" if empty else "identities are none")
    height, width = source.read(int(rows[0][0])).shape[:2]
    sheet = np.full((len(rows), images, height + gap, width + gap, 3), 255, np.uint8)
    for row, chosen in enumerate(rows):
        sheet[row, : len(chosen), :height, :width] = source.batch(chosen).permute(0, 2, 3, 1).numpy()
    joined = sheet.swapaxes(1, 2).reshape(len(rows) * (height + gap), images * (width + gap), 3)
    return np.ascontiguousarray(joined[: joined.shape[0] - gap, : joined.shape[1] - gap])


def verification_pairs(source: ImageSource, num_pairs: int, seed: int) -> tuple[Labels, Labels, npt.NDArray[np.bool_]]:
    """Pairs of images to verify: every second one of the same identity, no pair twice, no image with itself.

    Within each kind all pairs are equally likely. Any contiguous fold of even size is balanced, too.

    Args:
        source: labelled images; those labelled -1 are left out.
        num_pairs: an even number.
        seed: of the choice.

    Returns:
        left, right: indices; same: whether the two are of one identity.

    Example:
        >>> left, right, same = verification_pairs(PocketFaces(num_identities=99, images_per_identity=20), 600, seed=0)
    """
    check_integer("num_pairs", num_pairs, 2)
    if num_pairs % 2:
        raise ValueError(f"num_pairs={num_pairs} must be even: half of them are of one identity")
    labels = np.asarray(source.labels)
    order = np.argsort(labels, kind="stable")[np.count_nonzero(labels < 0) :]
    place = np.arange(len(order))
    end = np.searchsorted(labels[order], labels[order], side="right")
    rng = np.random.default_rng(seed)
    pairs = np.empty((num_pairs, 2), np.int64)
    for kind, (first, count) in enumerate(((place + 1, end - place - 1), (end, len(order) - end))):
        bounds = np.cumsum(count)
        total = int(bounds[-1]) if len(bounds) else 0
        if total < num_pairs // 2:
            what = "one identity" if kind == 0 else "two identities"
            raise ValueError(f"num_pairs={num_pairs} needs {num_pairs // 2} pairs of {what}; the source has {total}")
        number = rng.choice(total, num_pairs // 2, replace=False)
        left = np.searchsorted(bounds, number, side="right")
        right = first[left] + number - (bounds[left] - count[left])
        pairs[kind::2] = order[np.stack([left, right], 1)]
    pairs = rng.permuted(pairs, axis=1)
    return pairs[:, 0].copy(), pairs[:, 1].copy(), np.arange(num_pairs) % 2 == 0
