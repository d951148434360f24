"""Two models compared: cosines of embeddings, and decisions on the same pairs."""

from pathlib import Path

import numpy as np
import pytest

from hypersphere.evaluation import Embeddings
from hypersphere.evaluation.parity import embedding_parity, pair_parity
from hypersphere.evaluation.protocols import read_pairs
from tests.evaluation.protocols.standins import made_up, write_lfw_list


def test_cosines_do_not_depend_on_lengths() -> None:
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(2, 50, 7))
    wanted = [one[k] @ two[k] / np.sqrt((one[k] @ one[k]) * (two[k] @ two[k])) for k in range(50)]
    found = embedding_parity(3 * one, two)
    assert found.images == 50
    assert found.mean_cosine == pytest.approx(np.mean(wanted), abs=1e-14)
    assert found.least_cosine == pytest.approx(np.min(wanted), abs=1e-14)
    assert embedding_parity(one, one).least_cosine == pytest.approx(1)


@pytest.mark.parametrize(
    ("one", "two", "message"),
    [
        (np.ones((2, 3)), np.ones((2, 4)), r"first is \(2, 3\), second \(2, 4\)"),
        (np.ones((0, 3)), np.ones((0, 3)), "one shape"),
        (np.ones((2, 3)), np.zeros((2, 3)), "zero or not finite"),
        (np.ones((2, 3)), np.full((2, 3), np.nan), "zero or not finite"),
    ],
)
def test_embeddings_that_cannot_be_compared(one: np.ndarray, two: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        embedding_parity(one, two)


def test_decisions_on_the_same_pairs(tmp_path: Path) -> None:
    pairs = read_pairs(write_lfw_list(tmp_path / "pairs.txt"))
    good = made_up(pairs.names, dim=32)
    noise = np.random.default_rng(0).normal(size=good.values.shape).astype(np.float32)
    bad = Embeddings(good.names, good.values + 2 * noise, {})
    same = pair_parity(good, good, pairs)
    assert (same.difference.estimate.value, same.difference.p_value) == (0, 1)
    worse = pair_parity(good, bad, pairs)
    assert worse.title == pairs.title
    assert worse.after.value - worse.before.value == pytest.approx(worse.difference.estimate.value)
    assert worse.difference.estimate.value < 0
