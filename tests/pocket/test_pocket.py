"""Pocket faces: the same bits every time, landmarks where they are painted, identities that can be told apart."""

import hashlib
import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersphere.data.source import ArraySource, ImageSource
from hypersphere.pocket import dataset as pocket
from hypersphere.pocket import faces, paint
from hypersphere.pocket.dataset import PocketFaces, contact_sheet, verification_pairs

SIZES = [28, 32, 64, (112, 96), (112, 112), (64, 128), 17]


def test_it_is_an_image_source() -> None:
    source: ImageSource = PocketFaces(num_identities=5, images_per_identity=3, size=(40, 36), first_identity=70)
    assert (len(source), source.num_classes) == (15, 5)
    assert source.labels.dtype == np.int64
    assert source.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    assert source.describe(7) == "pocket faces: identity 72, image 1"
    batch = source.batch([3, 7, 7])
    assert (batch.shape, batch.dtype, batch.is_contiguous()) == ((3, 3, 40, 36), torch.uint8, True)
    image = source.read(7)
    assert (image.shape, image.dtype, image.flags.c_contiguous) == ((40, 36, 3), np.uint8, True)  # type: ignore[comparison-overlap]
    assert np.array_equal(image.transpose(2, 0, 1), batch[1].numpy())


def painted(chosen: Any, size: tuple[int, int] = (32, 32), difficulty: float = 1.5, seed: int = 3) -> Any:
    chosen = np.asarray(chosen)
    return paint.paint_faces(seed, 10**9 + chosen // 3, chosen % 3, size, difficulty)


@given(
    seed=st.integers(0, 2**40),
    size=st.sampled_from([(32, 32), (28, 28), (48, 40)]),
    difficulty=st.sampled_from([0.3, 1.0, 2.5]),
    order=st.permutations(range(9)),
    cut=st.integers(1, 8),
)
@settings(max_examples=20, deadline=None)
def test_an_image_is_the_same_bits_in_any_company(
    seed: int, size: tuple[int, int], difficulty: float, order: list[int], cut: int
) -> None:
    whole = painted(range(9), size, difficulty, seed)
    parts = [painted(part, size, difficulty, seed) for part in (order[:cut], order[cut:])]
    assert np.array_equal(np.concatenate(parts), whole[order])


@pytest.mark.parametrize("size", [(17, 24), (32, 32), (64, 64), (112, 96)])
def test_painting_in_parts_leaves_no_trace(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the size of the parts nor the rows to which a feature is confined changes a bit."""
    whole = painted(range(30), size, 2.5)
    for pixels in (1, 3 * size[0] * size[1], 10**9):
        monkeypatch.setattr(paint, "_CHUNK", pixels)
        assert np.array_equal(painted(range(30), size, 2.5), whole)
    monkeypatch.setattr(paint.Canvas, "rows", lambda *_: slice(None))  # type: ignore[attr-defined]
    assert np.array_equal(painted(range(30), size, 2.5), whole)


def test_images_are_kept_only_where_they_take_little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(seed: int, identities: Any, *rest: Any) -> Any:
        calls.append(len(identities))
        return paint.paint_faces(seed, identities, *rest)

    monkeypatch.setattr(pocket, "paint_faces", counted)
    small = PocketFaces(3, 2, 32)
    first = small.batch([0, 1, 1, 2])
    assert torch.equal(small.batch([1, 5, 0]), torch.stack([first[1], small.batch([5])[0], first[0]]))
    assert calls == [3, 1]
    first.zero_()
    assert small.batch([0]).any()
    monkeypatch.setattr(pocket, "KEPT_BYTES", 0)
    large = PocketFaces(3, 2, 32)
    assert torch.equal(large.batch([4, 4]), small.batch([4, 4]))
    large.batch([4])
    assert calls == [3, 1, 2, 1, 1]


def test_identity_and_number_decide_not_the_source() -> None:
    small = PocketFaces(2, 5, 32, first_identity=6)
    large = PocketFaces(20, 9, 32)
    assert torch.equal(small.batch([7]), large.batch([7 * 9 + 2]))
    assert not torch.equal(small.batch([7]), PocketFaces(2, 5, 32, first_identity=6, seed=1).batch([7]))


def test_the_faces_of_this_version() -> None:
    """Whoever changes the painter changes everybody's data: these numbers are here to say so."""
    source = PocketFaces(3, 3, 48, seed=7)
    latents = faces.latents(7, np.array([123_456_789]))[0, :4]
    np.testing.assert_allclose(latents, [-0.0234770494, 1.3561775812, 0.7395224955, 0.1341986608], atol=1e-9)
    np.testing.assert_allclose(
        source.landmarks([4])[0].ravel(),
        [15.8652, 22.7543, 28.6894, 23.2234, 22.0857, 28.3016, 17.5505, 32.4302, 26.2782, 33.0788],
        atol=1e-3,
    )
    np.testing.assert_allclose(
        source.batch([0, 4, 8]).float().mean((2, 3)),
        [[120.46, 92.67, 107.71], [135.73, 122.62, 124.1], [167.82, 183.05, 127.82]],
        atol=0.05,
    )


def test_all_images_differ() -> None:
    source = PocketFaces(30, 10, 32)
    assert len({hashlib.sha256(image.numpy().tobytes()).digest() for image in source.batch(range(300))}) == 300


def test_latents_are_gaussian_and_independent() -> None:
    z = faces.latents(3, np.arange(20_000))
    assert z.shape == (20_000, len(faces.TRAITS))
    assert np.abs(z.mean(0)).max() < 0.04
    assert np.abs(np.corrcoef(z.T) - np.eye(z.shape[1])).max() < 0.05
    assert np.abs(z.std(0) - 1).max() < 0.03
    assert 0.0016 < (np.abs(z) > 3).mean() < 0.0038


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("grey", [False, True])
def test_any_size(size: Any, grey: bool) -> None:
    source = PocketFaces(3, 4, size, grey=grey, difficulty=2.0)
    height, width = (size, size) if isinstance(size, int) else size
    assert source.batch(range(12)).shape == (12, 1 if grey else 3, height, width)
    assert source.read(0).shape == (height, width, 1 if grey else 3)
    assert source.landmarks(range(12)).shape == (12, 5, 2)


def test_grey_is_the_luma_of_the_colours() -> None:
    colour = PocketFaces(3, 2, 32).batch(range(6)).float()
    grey = PocketFaces(3, 2, 32, grey=True).batch(range(6)).float()
    luma = 0.299 * colour[:, 0] + 0.587 * colour[:, 1] + 0.114 * colour[:, 2]
    assert (grey[:, 0] - luma).abs().max() <= 1


def test_without_difficulty_an_identity_has_one_picture() -> None:
    x = PocketFaces(6, 3, 32, difficulty=0).batch(range(18)).view(6, 3, -1).float()
    assert torch.equal(x[:, 0], x[:, 1])
    assert torch.equal(x[:, 0], x[:, 2])
    assert all((x[i, 0] - x[j, 0]).abs().mean() > 2 for i in range(6) for j in range(i))


def test_difficulty_spreads_the_images_of_an_identity() -> None:
    spread = []
    for difficulty in (0.25, 0.5, 1.0, 2.0):
        source = PocketFaces(10, 10, 32, difficulty=difficulty)
        points = source.landmarks(range(100)).reshape(10, 10, -1)
        spread.append(points.std(1).mean())
    assert all(later > 1.3 * earlier for earlier, later in itertools.pairwise(spread))


@pytest.mark.parametrize("size", [(64, 64), (112, 96)])
@pytest.mark.parametrize(("feature", "marks"), [("_paint_eyes", [0, 1]), ("_paint_mouth", [3, 4])])
def test_landmarks_lie_where_the_features_are(
    size: tuple[int, int], feature: str, marks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Painted with and without a feature, a face differs around that feature's landmarks."""
    source = PocketFaces(60, 1, size)
    x, y = source.landmarks(range(60))[:, marks].mean(1).T
    full = source.batch(range(60)).float()
    monkeypatch.setattr(paint, feature, lambda *_: None)
    changed = (full - PocketFaces(60, 1, size).batch(range(60))).abs().sum(1).numpy() + 1e-6
    seen = changed.sum((1, 2)) > 100
    rows = (changed.sum(2) * np.arange(size[0])).sum(1) / changed.sum((1, 2))
    columns = (changed.sum(1) * np.arange(size[1])).sum(1) / changed.sum((1, 2))
    assert seen.sum() > 50
    assert np.median(np.abs(columns - x)[seen]) < 0.03 * size[1]
    assert np.median(np.abs(rows - y)[seen]) < 0.03 * size[0]


def test_landmarks_are_a_face() -> None:
    points = PocketFaces(50, 10, 112).landmarks(range(500))
    left_eye, right_eye, nose, left_mouth, right_mouth = points.transpose(1, 0, 2)
    assert (left_eye[:, 0] < right_eye[:, 0]).all()
    assert (left_mouth[:, 0] < right_mouth[:, 0]).all()
    assert (nose[:, 1] > np.minimum(left_eye, right_eye)[:, 1]).all()
    assert (np.maximum(left_mouth, right_mouth)[:, 1] > nose[:, 1]).mean() > 0.99
    inside = ((points >= 0) & (points < 112)).all(2)
    assert inside.mean() > 0.99


def test_splits_are_disjoint_and_alike() -> None:
    train, test = PocketFaces(50, 4, 32), PocketFaces(50, 4, 32, first_identity=50)
    mean = train.batch(range(200)).float().mean((0, 2, 3)) - test.batch(range(200)).float().mean((0, 2, 3))
    assert mean.abs().max() < 12
    assert not np.isin(faces.latents(0, np.arange(50)), faces.latents(0, np.arange(50, 100))).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_identities": 0}, "num_identities=0"),
        ({"images_per_identity": 2.5}, "images_per_identity=2.5"),
        ({"size": 8}, "size=8"),
        ({"size": (32, 8)}, "size=8"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": 2**60}, r"seed=1\.15292e\+18 must be between"),
        ({"first_identity": -3}, "first_identity=-3"),
        ({"difficulty": -1}, "difficulty=-1"),
        ({"difficulty": float("inf")}, "difficulty=inf"),
    ],
)
def test_bad_settings(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PocketFaces(**options)


def test_bad_indices() -> None:
    source = PocketFaces(2, 2, 32)
    for index in (-1, 4):
        with pytest.raises(ValueError, match=rf"index {index} is not in \[0, 4\)"):
            source.read(index)
    with pytest.raises(ValueError, match="at least one"):
        source.batch([])


def test_contact_sheet_has_a_row_for_each_identity() -> None:
    source = PocketFaces(4, 3, (20, 24))
    sheet = contact_sheet(source, [2, 0], 3, gap=2)
    assert (sheet.shape, sheet.dtype) == ((42, 76, 3), np.uint8)  # type: ignore[comparison-overlap]
    assert np.array_equal(sheet[:20, :24], source.read(6))
    assert np.array_equal(sheet[22:, 26:50], source.read(1))
    assert (sheet[20:22] == 255).all()
    assert (contact_sheet(source, [0], 5)[:, 78:] == 255).all()


def test_contact_sheet_of_grey_images_and_of_nobody() -> None:
    source = PocketFaces(2, 2, 20, grey=True)
    sheet = contact_sheet(source, [0, 1], 2)
    assert np.array_equal(sheet[:20, :20, 0], source.read(0)[:, :, 0])
    with pytest.raises(ValueError, match="identity 5 has no image"):
        contact_sheet(source, [0, 5], 2)
    with pytest.raises(ValueError, match="none"):
        contact_sheet(source, [], 2)


@given(counts=st.lists(st.integers(1, 6), min_size=2, max_size=6), seed=st.integers(0, 100), extras=st.integers(0, 3))
@settings(deadline=None)
def test_pairs_are_balanced_and_never_repeat(counts: list[int], seed: int, extras: int) -> None:
    labels = np.concatenate([np.full(extras, -1), np.repeat(np.arange(len(counts)), counts)])
    labels = np.random.default_rng(seed).permutation(labels)
    source = ArraySource(np.zeros((len(labels), 2, 2, 1), np.uint8), labels)
    same_total = sum(n * (n - 1) // 2 for n in counts)
    other_total = sum(counts) * (sum(counts) - 1) // 2 - same_total
    most = 2 * min(same_total, other_total)
    if most:
        left, right, same = verification_pairs(source, most, seed)
        assert ((labels[left] == labels[right]) == same).all()
        assert (left != right).all()
        assert (labels[left] >= 0).all()
        assert (labels[right] >= 0).all()
        assert same.sum() == most // 2
        assert len({frozenset(pair) for pair in zip(left.tolist(), right.tolist(), strict=True)}) == most
    with pytest.raises(ValueError, match=f"num_pairs={most + 2} needs {most // 2 + 1} pairs of"):
        verification_pairs(source, most + 2, seed)


def test_pairs_are_seeded_and_balanced_in_folds() -> None:
    source = PocketFaces(20, 10, 32)
    first, second = verification_pairs(source, 600, seed=1), verification_pairs(source, 600, seed=1)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert not np.array_equal(first[0], verification_pairs(source, 600, seed=2)[0])
    assert (first[2].reshape(10, 60).sum(1) == 30).all()
    assert 0.4 < (first[0] < first[1]).mean() < 0.6


def test_pairs_are_uniform_within_each_kind() -> None:
    labels = np.array([0, 0, 0, 1, 1, 2])
    source = ArraySource(np.zeros((6, 2, 2, 1), np.uint8), labels)
    times: dict[frozenset[int], int] = {}
    for seed in range(3000):
        left, right, _ = verification_pairs(source, 2, seed)
        for pair in zip(left.tolist(), right.tolist(), strict=True):
            times[frozenset(pair)] = times.get(frozenset(pair), 0) + 1
    kinds = {True: 4, False: 11}
    for pair, count in times.items():  # type: ignore[assignment]
        kind = len({int(labels[i]) for i in pair}) == 1
        assert count / 3000 == pytest.approx(1 / kinds[kind], abs=0.035)
    assert len(times) == 15


def test_odd_pairs_are_refused() -> None:
    with pytest.raises(ValueError, match="num_pairs=7 must be even"):
        verification_pairs(PocketFaces(2, 2, 32), 7, 0)
