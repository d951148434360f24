"""Identities that two sets share."""

import numpy as np
import pytest

from hypersphere.data import shared_names, similar_identities


def test_names_are_compared_without_spelling() -> None:
    first = ["Aaron_Eckhart", "Ada Lovelace", "Bo", "José_García", "m.0107_f"]
    second = ["ADA_LOVELACE", "aaron-eckhart", "Bob", "JOSE\u0301 GARCI\u0301A", "m-0107-f", "Aaron Eckhart"]
    assert shared_names(first, second) == [
        ("Aaron_Eckhart", "Aaron Eckhart"),
        ("Aaron_Eckhart", "aaron-eckhart"),
        ("Ada Lovelace", "ADA_LOVELACE"),
        ("José_García", "JOSE\u0301 GARCI\u0301A"),
        ("m.0107_f", "m-0107-f"),
    ]
    assert shared_names(["0001", "0007"], ["0007", "0009"]) == [("0007", "0007")]
    assert shared_names([], ["a"]) == []


def test_plain_numbers_are_no_names() -> None:
    for first, second, which in [
        (["0", "1"], ["a"], "first"),
        (["a"], ["0"], "second"),
        (["00", "01"], ["a"], "first"),
    ]:
        with pytest.raises(ValueError, match=f"the {which} set's identities are numbers, not names"):
            shared_names(first, second)


@pytest.mark.parametrize("chunk", [1, 3, 1024])
def test_similar_identities_against_float64(chunk: int) -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(7, 4)), rng.normal(size=(9, 4)).astype(np.float32)
    second[5] = 3 * first[2]
    wide = second.astype(np.float64)
    cosines = (first @ wide.T) / np.linalg.norm(first, axis=1)[:, None] / np.linalg.norm(wide, axis=1)
    found = similar_identities(first, second, 0.5, chunk)
    assert {(i, j) for i, j, _ in found} == set(zip(*map(np.ndarray.tolist, np.nonzero(cosines >= 0.5)), strict=True))
    assert found[0][:2] == (2, 5)
    assert [cosine for _, _, cosine in found] == sorted((cosine for _, _, cosine in found), reverse=True)
    for i, j, cosine in found:
        assert cosine == pytest.approx(cosines[i, j], abs=1e-6)


def test_embeddings_that_cannot_be_compared() -> None:
    good = np.eye(3)
    for first, second, threshold, message in [
        (good, np.eye(4), 0.5, "of 3 and of 4 dimensions"),
        (good[0], good, 0.5, r"first is float64 \(3,\); expected floating \(identities, dim\)"),
        (good, good.astype(int), 0.5, "second is int64"),
        (good, np.zeros((2, 3)), 0.5, "second: the embedding of identity 0 is zero, NaN, infinite or too long"),
        (np.array([[1.0, np.nan, 0.0]]), good, 0.5, "first: the embedding of identity 0"),
        (good, good, 1.5, "threshold=1.5 must be between -1 and 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            similar_identities(first, second, threshold)
