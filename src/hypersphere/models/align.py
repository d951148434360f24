"""Aligning a face: the similarity that takes its landmarks to an alignment target, and the warp."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from hypersphere.core import nearest
from hypersphere.data import Image

Points = npt.NDArray[np.float64]

_FLATTEST = 0.05
"""Landmarks are on a line where their spread across it is a smaller share of that along it."""
_SMALLEST = 1e-3
"""Landmarks within so many pixels are one point."""


class DegenerateLandmarks(ValueError):
    """Landmarks that no face has: not finite, coincident, on a line, mirrored, or outside of the photo."""


@dataclass(frozen=True)
class AlignmentTarget:
    """Where the landmarks of an aligned face are: as a rule the eyes, the nose and the corners of the mouth.

    Args:
        points: x and y of each in pixels; the centre of the left upper pixel is (0, 0).
        size: height and width of the crop.
    """

    points: tuple[tuple[float, float], ...]
    size: tuple[int, int]

    def __post_init__(self) -> None:
        if len(self.points) < 3:
            raise ValueError(
                f"points has {len(self.points)}: an alignment target needs three or more that are not on a line, such "
                "as both eyes, the nose and both corners of the mouth"
            )
        height, width = self.size
        for x, y in self.points:
            if not (-0.5 <= x <= width - 0.5 and -0.5 <= y <= height - 0.5):
                raise ValueError(
                    f"points: ({x:g}, {y:g}) is outside of the crop of {width}x{height} pixels; give x and y in "
                    "pixels of the crop"
                )
        try:
            similarity_transform(self.points, self.points)
        except DegenerateLandmarks as error:
            raise ValueError(f"points: {error}") from None


def similarity_transform(points: npt.ArrayLike, target: npt.ArrayLike) -> Points:
    """Return the similarity that takes points closest to a target, as the matrix (s R | t), float64 (2, 3).

    It minimises the sum of |s R p_k + t - q_k|^2 over scale s, rotation R and translation t (Umeyama 1991, eqs. 40-42,
    without reflections). In the plane, with centred points p and q as complex numbers, it is
    s e^(i a) = sum(conj(p_k) q_k) / sum(|p_k|^2).

    Args:
        points: (n, 2), x and y.
        target: (n, 2).

    Raises:
        DegenerateLandmarks: points that are not finite, that are one point or on a line, or of which the target is a
            mirror image.

    Example:
        >>> similarity_transform([[0, 0], [2, 0], [0, 2]], [[1, 1], [2, 1], [1, 2]]).round(3).tolist()
        [[0.5, -0.0, 1.0], [0.0, 0.5, 1.0]]
    """
    given, wanted = (np.asarray(each, dtype=np.float64) for each in (points, target))
    if given.ndim != 2 or given.shape[1] != 2 or given.shape != wanted.shape or len(given) < 3:
        raise ValueError(f"points {given.shape} and target {wanted.shape} must both be (n, 2) with n >= 3")
    if not np.isfinite(given).all():
        raise DegenerateLandmarks("landmarks are not finite numbers")
    middle, centre = given.mean(axis=0), wanted.mean(axis=0)
    across, along = np.sqrt(np.maximum(np.linalg.eigvalsh(np.cov(given.T, bias=True)), 0))
    if along < _SMALLEST:
        raise DegenerateLandmarks("all landmarks are one point")
    if across < _FLATTEST * along:
        raise DegenerateLandmarks("landmarks are on a line")
    if np.linalg.det((given - middle).T @ (wanted - centre)) <= 0:
        raise DegenerateLandmarks("landmarks are mirrored: left and right are those of the picture")
    p, q = ((each[:, 0] + 1j * each[:, 1]) for each in (given - middle, wanted - centre))
    turn = np.vdot(p, q) / np.vdot(p, p).real
    linear = np.array([[turn.real, -turn.imag], [turn.imag, turn.real]])
    return np.column_stack([linear, centre - linear @ middle])


_OPEN_MODEL_ZOO = ((0.31556875, 0.46157411), (0.68262292, 0.46157411), (0.5002625, 0.64050536),
                   (0.34947188, 0.82469196), (0.65343646, 0.82469196))  # fmt: skip
"""Shares of the crop's sides, as the README of face-reidentification-retail-0095 has them."""
_INSIGHTFACE = ((38.2946, 51.6963), (73.5318, 51.5014), (56.0252, 71.7366), (41.5493, 92.3655), (70.7299, 92.2041))

ALIGNMENT_TARGETS: Mapping[str, AlignmentTarget] = MappingProxyType(
    {
        "insightface-112": AlignmentTarget(_INSIGHTFACE, (112, 112)),
        "sphereface-112x96": AlignmentTarget(tuple((x - 8, y) for x, y in _INSIGHTFACE), (112, 96)),
        "open-model-zoo-128": AlignmentTarget(tuple((128 * x, 128 * y) for x, y in _OPEN_MODEL_ZOO), (128, 128)),
    }
)
"""By the word that an embedding contract has in `alignment`: the target of ArcFace and most models since; that of
SphereFace and NormFace, which is the same without 8 pixels on either side; and that of Intel's recognisers."""


def align_face(image: Image, landmarks: npt.ArrayLike, target: str | AlignmentTarget = "insightface-112") -> Image:
    """Return the aligned crop of a face, uint8 (height, width, 3): bilinear, black where the photo ends.

    A face more than twice as large as in the target is made smaller with antialiasing first.

    Args:
        image: the photo, uint8 (H, W, 3).
        landmarks: (5, 2), as `Face.landmarks`.
        target: a name of `ALIGNMENT_TARGETS`, as in a contract's `alignment`, or a target of your own.

    Raises:
        DegenerateLandmarks: landmarks of which there is no similarity, or that lie outside of the photo.

    Example:
        >>> (face,) = detector([photo])[0]
        >>> align_face(photo, face.landmarks).shape
        (112, 112, 3)
    """
    wanted = alignment_target(target) if isinstance(target, str) else target
    points = np.asarray(landmarks, dtype=np.float64)
    if image.dtype != np.uint8 or image.ndim != 3:
        raise ValueError(f"image is {image.dtype} {image.shape}; expected uint8 (H, W, 3)")
    if points.shape != (len(wanted.points), 2):
        raise ValueError(f"landmarks have shape {points.shape}; the target has {len(wanted.points)} points")
    forward = similarity_transform(points, wanted.points)
    limit = np.array([image.shape[1], image.shape[0]]) - 0.5
    if ((points < -0.5) | (points > limit)).any():
        x, y = points[((points < -0.5) | (points > limit)).any(axis=1)][0]
        raise DegenerateLandmarks(
            f"a landmark at ({x:.0f}, {y:.0f}) lies outside of the photo of {image.shape[1]}x{image.shape[0]} pixels"
        )
    linear = np.linalg.inv(forward[:, :2])
    return _warp(image, np.column_stack([linear, -linear @ forward[:, 2]]), wanted.size)


def realigned(image: Image, stated: AlignmentTarget, wanted: AlignmentTarget, where: str = "image") -> Image:
    """Return a crop that was aligned to one target as a crop of another, bilinear, black where the first one ends.

    Args:
        image: uint8 (height, width, channels), aligned to `stated`.
        stated, wanted: targets with the same landmarks.
        where: the image's name, for messages.
    """
    if image.shape[:2] != stated.size:
        height, width = stated.size
        raise ValueError(
            f"{where} is {image.shape[1]}x{image.shape[0]} pixels, but its alignment target has {width}x{height}"
        )
    if len(stated.points) != len(wanted.points):
        raise ValueError(
            f"{where}: its alignment target has {len(stated.points)} points and the model's {len(wanted.points)}; only "
            "targets of the same landmarks can be taken to each other"
        )
    return _warp(image, similarity_transform(wanted.points, stated.points), wanted.size)


def alignment_target(name: str) -> AlignmentTarget:
    """Return a target of `ALIGNMENT_TARGETS` by its name."""
    if name not in ALIGNMENT_TARGETS:
        raise ValueError(f"alignment target {name!r} is unknown; {nearest(name, ALIGNMENT_TARGETS)}")
    return ALIGNMENT_TARGETS[name]


def _warp(image: Image, backward: Points, size: tuple[int, int]) -> Image:
    """Sample a photo where an affine map of the crop's pixels points, bilinear, black outside."""
    height, width = size
    planes, backward = _part(image, backward, size)
    if 0 in planes.shape:
        return np.zeros((*size, image.shape[2]), np.uint8)
    y, x = np.mgrid[:height, :width]
    places = backward @ np.stack([x.ravel(), y.ravel(), np.ones(height * width)])
    shares = (2 * places + 1) / np.array([[planes.shape[3]], [planes.shape[2]]]) - 1
    grid = torch.from_numpy(shares.T.astype(np.float32)).view(1, height, width, 2)
    sampled = functional.grid_sample(planes, grid, align_corners=False)
    crop: Image = sampled[0].round().byte().permute(1, 2, 0).contiguous().numpy()
    return crop


def _part(image: Image, backward: Points, size: tuple[int, int]) -> tuple[Tensor, Points]:
    """Return the part of a photo that a crop shows as (1, C, H, W), and the map into it.

    A part more than twice as large as the crop is made smaller by a whole number, so that bilinear sampling loses
    nothing.
    """
    factor = max(1, int(math.hypot(*backward[:, 0])))
    height, width = size
    corners = np.array([[0, 0, 1], [width, 0, 1], [0, height, 1], [width, height, 1]]) @ backward.T
    x0, y0 = np.maximum(np.floor(corners.min(axis=0)).astype(int) - factor, 0)
    x1, y1 = np.maximum(np.ceil(corners.max(axis=0)).astype(int) + factor + 1, 0)
    part = image[y0:y1, x0:x1]
    moved = backward - np.array([[0, 0, x0], [0, 0, y0]])
    planes = torch.from_numpy(part.astype(np.float32)).permute(2, 0, 1)[None]
    if factor == 1:
        return planes, moved
    rows, columns = (max(side // factor, 1) for side in part.shape[:2])
    kept = planes[:, :, : rows * factor, : columns * factor]
    shrink = np.array([[kept.shape[3] / columns], [kept.shape[2] / rows]])
    half = np.array([[0, 0, 0.5]])
    return functional.interpolate(kept, (rows, columns), mode="bilinear", antialias=True), (
        moved + half
    ) / shrink - half
