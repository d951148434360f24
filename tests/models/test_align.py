"""Alignment in float64 against independent computations, and landmarks that are refused."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import torch

from hypersphere.data import Image
from hypersphere.models import (
    ALIGNMENT_TARGETS,
    PRESETS,
    AlignmentTarget,
    Contract,
    DegenerateLandmarks,
    Embedder,
    align_face,
    similarity_transform,
)
from hypersphere.models.align import realigned

TARGET = np.array(ALIGNMENT_TARGETS["insightface-112"].points)
SQUARE = AlignmentTarget(((10, 10), (30, 10), (20, 20), (12, 30), (28, 30)), (40, 40))
POINTS = np.array(SQUARE.points)


def by_least_squares(points: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Solve for a, b, c, d of x' = a x - b y + c, y' = b x + a y + d."""
    zero, one = np.zeros(len(points)), np.ones(len(points))
    x, y = points.T
    rows = np.concatenate([np.stack([x, -y, one, zero], 1), np.stack([y, x, zero, one], 1)])
    a, b, c, d = np.linalg.lstsq(rows, target.T.ravel(), rcond=None)[0]
    return np.array([[a, -b, c], [b, a, d]])


def by_umeyama(points: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Umeyama 1991, eqs. 40-42, by a singular value decomposition."""
    p, q = points - points.mean(0), target - target.mean(0)
    u, d, vt = np.linalg.svd(q.T @ p / len(p))
    s = np.diag([1, np.sign(np.linalg.det(u) * np.linalg.det(vt))])
    rotation = u @ s @ vt
    linear = np.trace(np.diag(d) @ s) / (p**2).sum(1).mean() * rotation
    return np.column_stack([linear, target.mean(0) - linear @ points.mean(0)])


@pytest.mark.parametrize("seed", range(5))
def test_the_similarity_is_the_least_squares_one(seed: int) -> None:
    random = np.random.default_rng(seed)
    points = TARGET * random.uniform(0.3, 5) + random.normal(0, 3, (5, 2)) + random.uniform(-500, 500, 2)
    found = similarity_transform(points, TARGET)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, by_least_squares(points, TARGET), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found, by_umeyama(points, TARGET), rtol=1e-9, atol=1e-9)


def test_a_known_similarity_is_found_exactly() -> None:
    angle, scale, shift = 0.7, 2.5, np.array([30.0, -12.0])
    turn = scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    points = (TARGET - shift) @ np.linalg.inv(turn).T
    np.testing.assert_allclose(similarity_transform(points, TARGET), np.column_stack([turn, shift]), atol=1e-10)


def test_targets_are_those_that_contracts_name() -> None:
    named = {contract.alignment for contract in PRESETS.values()}
    assert named == set(ALIGNMENT_TARGETS)
    for contract in PRESETS.values():
        assert ALIGNMENT_TARGETS[contract.alignment].size == contract.input_size
    narrow = np.array(ALIGNMENT_TARGETS["sphereface-112x96"].points)
    np.testing.assert_allclose(narrow, TARGET - [8, 0])


def photo(height: int = 60, width: int = 80) -> Image:
    return np.random.default_rng(3).integers(0, 256, (height, width, 3), dtype=np.uint8)


def test_landmarks_on_the_target_give_the_photo_itself() -> None:
    image = photo()
    crop = align_face(image, POINTS + np.array([20, 7]), SQUARE)
    np.testing.assert_array_equal(crop, image[7:47, 20:60])


def test_the_warp_is_bilinear_and_black_outside() -> None:
    image, points = photo(), POINTS * 1.3 + [-9, 2.5]
    crop = align_face(image, points, SQUARE)
    backward = by_least_squares(POINTS, points)
    padded = np.pad(image.astype(np.float64), ((99, 99), (99, 99), (0, 0)))
    for x, y in ((0, 0), (20, 20), (39, 39), (3, 31), (7, 0)):
        u, v = backward @ [x, y, 1]
        i, j = int(np.floor(u)), int(np.floor(v))
        corner = padded[99 + j : 101 + j, 99 + i : 101 + i]
        rows = corner[0] * (1 - (v - j)) + corner[1] * (v - j)
        expected = rows[0] * (1 - (u - i)) + rows[1] * (u - i)
        np.testing.assert_allclose(crop[y, x], expected, atol=0.51)
    assert not crop[:, 0].any()


@pytest.mark.parametrize("factor", [2.0, 3.0, 7.5, 20.0])
def test_a_large_face_is_antialiased(factor: float) -> None:
    """Noise of single pixels averages out; a slope over the photo stays where it was."""
    side = int(40 * factor) + 60
    slope = np.linspace(0, 255, side)[None, :, None].repeat(side, 0).repeat(3, 2)
    noise = np.random.default_rng(0).uniform(-60, 60, slope.shape)
    points = POINTS * factor + 30
    smooth = align_face(slope.round().astype(np.uint8), points, SQUARE).astype(float)
    columns = (np.arange(40) * factor + 30) * 255 / (side - 1)
    np.testing.assert_allclose(smooth.mean((0, 2)), columns, atol=1.0)
    noisy = align_face((slope + noise).clip(0, 255).astype(np.uint8), points, SQUARE)
    inside = slice(10, 30)
    assert (noisy - smooth)[inside, inside].std() < 60 / np.sqrt(3) / factor


@pytest.mark.parametrize(
    ("points", "words"),
    [
        (np.full((5, 2), 20.0), "one point"),
        (np.outer(np.arange(5) * 8 + 5, [1, 1]), "on a line"),
        (np.outer(np.arange(5) * 8 + 5, [1, 0]) + np.array([0, 20]), "on a line"),
        (np.full((5, 2), np.nan), "not finite"),
        (POINTS * [[1, np.inf]], "not finite"),
        (POINTS * [-1, 1] + [40, 0], "mirrored"),
        (POINTS + np.array([60, 0]), r"\(90, 10\) lies outside of the photo of 80x60 pixels"),
        (POINTS - [0, 15], "outside"),
        (POINTS * 1e6, "outside"),
    ],
)
def test_landmarks_of_no_face_are_refused(points: np.ndarray, words: str) -> None:
    with pytest.raises(DegenerateLandmarks, match=words):
        align_face(photo(), points, SQUARE)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: align_face(photo(), TARGET, "insightface-113"), "insightface-112"),
        (lambda: align_face(photo(), TARGET[:4]), "the target has 5 points"),
        (lambda: align_face(photo().astype(np.float32), TARGET), "expected uint8"),
        (lambda: similarity_transform(TARGET[:2], TARGET[:2]), "n >= 3"),
    ],
)
def test_bad_arguments_are_named(call: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()


def test_a_crop_of_one_target_becomes_one_of_another() -> None:
    """A face aligned at once, and one aligned to InsightFace's target first: the same but for the second rounding."""
    y, x = np.mgrid[:200, :200].astype(np.float64)
    smooth = np.stack([127 + 120 * np.sin(x / 30), 127 + 120 * np.cos(y / 25), (x + y) / 2], 2).astype(np.uint8)
    landmarks = TARGET * 1.1 + [30, 20]
    first = align_face(smooth, landmarks, "insightface-112")
    at_once = align_face(smooth, landmarks, "open-model-zoo-128")
    twice = realigned(first, ALIGNMENT_TARGETS["insightface-112"], ALIGNMENT_TARGETS["open-model-zoo-128"])
    assert np.abs(twice.astype(int) - at_once.astype(int)).max() <= 3
    with pytest.raises(ValueError, match="a.png is 9x112 pixels, but its alignment target has 112x112"):
        realigned(first[:, :9], ALIGNMENT_TARGETS["insightface-112"], ALIGNMENT_TARGETS["open-model-zoo-128"], "a.png")
    three = AlignmentTarget(((1, 1), (5, 1), (3, 5)), (9, 9))
    with pytest.raises(ValueError, match="has 5 points and the model's 3; only targets of the same landmarks"):
        realigned(first, ALIGNMENT_TARGETS["insightface-112"], three)


def test_a_model_takes_crops_of_another_target() -> None:
    contract = Contract(input_size=(128, 128), mean=(0.0,), std=(1.0,), alignment="open-model-zoo-128")
    seen = []

    def network(x: torch.Tensor) -> torch.Tensor:
        seen.append(x)
        return x.flatten(1)[:, :4] + 1

    crops = np.random.default_rng(0).integers(0, 256, (2, 112, 112, 3), dtype=np.uint8)
    model = Embedder(dataclasses.replace(contract, dim=4), network, name="net")
    with pytest.raises(ValueError, match="128x128: crop the images to it"):
        model(crops)
    model.of_crops("insightface-112")(crops)
    targets = ALIGNMENT_TARGETS["insightface-112"], ALIGNMENT_TARGETS["open-model-zoo-128"]
    wanted = np.stack([realigned(crop, *targets) for crop in crops])
    np.testing.assert_array_equal(seen[0].permute(0, 2, 3, 1).numpy(), wanted)
    other = dataclasses.replace(model, contract=dataclasses.replace(model.contract, alignment="pocket"))
    with pytest.raises(ValueError, match="net: its contract states no alignment target that is known here"):
        other.of_crops("insightface-112")
