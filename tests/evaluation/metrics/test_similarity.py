"""Similarities and what is learned from folds, against plain loops and another PCA."""

import math

import numpy as np
import pytest
from sklearn.decomposition import PCA

from hypersphere.evaluation.metrics.similarity import Comparison, own_scores

RNG = np.random.default_rng(0)
VALUES = (RNG.normal(size=(12, 4)) + 1).astype(np.float32)
LEFT, RIGHT = RNG.integers(0, 12, 20), RNG.integers(0, 12, 20)
FOLDS = np.arange(20) % 4


def similarity(one: list[float], two: list[float], how: Comparison) -> float:
    if how.normalize:
        one, two = ([v / math.sqrt(sum(w * w for w in x)) for v in x] for x in (one, two))
    if how.similarity == "euclidean":
        return -math.sqrt(sum((a - b) ** 2 for a, b in zip(one, two, strict=True)))
    return sum(a * b for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("kind", ["cosine", "inner_product", "euclidean"])
@pytest.mark.parametrize("center", [True, False])
def test_against_plain_loops(kind: str, normalize: bool, center: bool) -> None:
    if kind == "cosine" and not normalize:
        return
    how = Comparison(similarity=kind, normalize=normalize, center=center)
    found = how.fold_scores(VALUES, LEFT, RIGHT, FOLDS)
    assert found.shape == ((4, 20) if center else (20,))
    for fold in range(4):
        mean = [0.0] * 4
        if center:
            sides = [VALUES[side[k]] for k in range(20) if FOLDS[k] != fold for side in (LEFT, RIGHT)]
            mean = [sum(float(row[c]) for row in sides) / len(sides) for c in range(4)]
        for k in range(20):
            one, two = ([float(v) - m for v, m in zip(VALUES[s[k]], mean, strict=True)] for s in (LEFT, RIGHT))
            assert (found[fold] if center else found)[k] == pytest.approx(similarity(one, two, how), abs=1e-9)


def test_pca_is_scikit_learns_on_the_other_folds() -> None:
    found = Comparison(pca=2).fold_scores(VALUES, LEFT, RIGHT, FOLDS)
    for fold in range(4):
        train = np.concatenate([VALUES[LEFT[fold != FOLDS]], VALUES[RIGHT[fold != FOLDS]]]).astype(np.float64)
        low = PCA(n_components=2).fit(train).transform(VALUES.astype(np.float64))
        unit = low / np.linalg.norm(low, axis=1, keepdims=True)
        np.testing.assert_allclose(found[fold], (unit[LEFT] * unit[RIGHT]).sum(1), atol=1e-9)


@pytest.mark.parametrize("pca", [None, 2])
def test_mean_and_pca_of_other_images_are_the_same_for_all_folds(pca: int | None) -> None:
    others = (np.random.default_rng(1).normal(size=(30, 4)) * [3, 2, 1, 0.5]).astype(np.float32)
    found = Comparison(center=True, pca=pca, fit=others).fold_scores(VALUES, LEFT, RIGHT, FOLDS)
    low = VALUES.astype(np.float64) - others.astype(np.float64).mean(0)
    if pca is not None:
        low = PCA(n_components=pca).fit(others.astype(np.float64)).transform(VALUES.astype(np.float64))
    unit = low / np.linalg.norm(low, axis=1, keepdims=True)
    np.testing.assert_allclose(found, (unit[LEFT] * unit[RIGHT]).sum(1), atol=1e-9)


def test_what_cannot_be_fitted_is_said() -> None:
    with pytest.raises(ValueError, match="fit is what center or pca learn from"):
        Comparison(fit=VALUES)
    with pytest.raises(ValueError, match=r"fit has shape \(12, 3\): expected finite \(images, 4\)"):
        Comparison(center=True, fit=VALUES[:, :3]).fold_scores(VALUES, LEFT, RIGHT, FOLDS)
    with pytest.raises(ValueError, match="pca=4: 4 images of width 4 give 3"):
        Comparison(pca=4, fit=VALUES[:4]).fold_scores(VALUES, LEFT, RIGHT, FOLDS)


def test_all_components_are_centring() -> None:
    one = Comparison(pca=4).fold_scores(VALUES, LEFT, RIGHT, FOLDS)
    np.testing.assert_allclose(one, Comparison(center=True).fold_scores(VALUES, LEFT, RIGHT, FOLDS), atol=1e-9)


def test_own_scores_are_those_made_without_the_pairs_fold() -> None:
    table = np.arange(8.0).reshape(2, 4)
    assert own_scores(table, np.array([5, 9, 5, 9])).tolist() == [0, 5, 2, 7]
    assert own_scores(table[0], np.array([5, 9, 5, 9])).tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match=r"scores \(2, 4\) must be \(3, 4\)"):
        own_scores(table, np.array([0, 1, 2, 2]))


def test_bad_choices() -> None:
    with pytest.raises(ValueError, match="similarity='cosin' is unknown; did you mean 'cosine'"):
        Comparison(similarity="cosin")
    with pytest.raises(ValueError, match="normalize=False has no effect on cosines"):
        Comparison(normalize=False)
    with pytest.raises(ValueError, match="pca=0"):
        Comparison(pca=0)
    with pytest.raises(ValueError, match="pca=5: 12 images of width 4 give 4"):
        Comparison(pca=5).fold_scores(VALUES, LEFT, RIGHT, FOLDS)
    zero = VALUES.copy()
    zero[3] = 0
    with pytest.raises(ValueError, match="the embedding of 'three' is zero"):
        Comparison().scores(zero, LEFT, RIGHT, names=["a", "b", "c", "three", *"efghijkl"])
