"""Log-likelihood ratios against plain float64: the cost's minimum, C_llr by a loop, its least by PAV."""

import math

import numpy as np
import pytest

from hypersphere.evaluation import SortedScores, roc_from
from hypersphere.recognition.llr import LlrLine, cllr, fit_llr, min_cllr

RNG = np.random.default_rng(0)
GENUINE = RNG.normal(0.6, 0.15, 300).round(2)
IMPOSTORS = RNG.normal(0.2, 0.15, 900).round(2)


def fitted(genuine: np.ndarray, impostors: np.ndarray, prior: float = 0.5) -> LlrLine:
    curve = roc_from(SortedScores(genuine), SortedScores(impostors))
    return fit_llr(genuine, impostors, curve, prior=prior)


def cost(line: tuple[float, float], prior: float) -> float:
    total, shift = 0.0, math.log(prior / (1 - prior))
    for score in GENUINE:
        total += prior / len(GENUINE) * math.log(1 + math.exp(-(line[0] * score + line[1] + shift)))
    for score in IMPOSTORS:
        total += (1 - prior) / len(IMPOSTORS) * math.log(1 + math.exp(line[0] * score + line[1] + shift))
    return total


@pytest.mark.parametrize("prior", [0.5, 0.01])
def test_the_line_is_the_minimum_of_the_papers_cost(prior: float) -> None:
    found = fitted(GENUINE, IMPOSTORS, prior)
    least = cost((found.slope, found.offset), prior)
    for a, b in ((1e-3, 0), (-1e-3, 0), (0, 1e-3), (0, -1e-3)):
        assert cost((found.slope + a, found.offset + b), prior) > least
        slope = (cost((found.slope + a, found.offset + b), prior) - least) / 1e-3
        assert slope < 1e-4
    assert (found.low, found.high) == (-math.log(301), math.log(901))


def pav(genuine: np.ndarray, impostors: np.ndarray) -> float:
    """C_llr after pooling adjacent violators, in plain loops; equal scores are pooled first."""
    blocks: list[list[float]] = []
    for score in np.unique(np.concatenate([genuine, impostors])):
        blocks.append([float((genuine == score).sum()), float((impostors == score).sum())])
        while len(blocks) > 1 and blocks[-2][0] * sum(blocks[-1]) >= blocks[-1][0] * sum(blocks[-2]):
            last = blocks.pop()
            blocks[-1] = [blocks[-1][0] + last[0], blocks[-1][1] + last[1]]
    total = 0.0
    for own, other in blocks:
        if own and other:
            ratio = own / len(genuine) / (other / len(impostors))
            total += own / len(genuine) * math.log(1 + 1 / ratio) + other / len(impostors) * math.log(1 + ratio)
    return total / (2 * math.log(2))


def test_costs_against_loops() -> None:
    found = fitted(GENUINE, IMPOSTORS)
    own = [math.log(1 + math.exp(-found.at(score))) for score in GENUINE]
    others = [math.log(1 + math.exp(found.at(score))) for score in IMPOSTORS]
    assert found.cllr == pytest.approx((sum(own) / 300 + sum(others) / 900) / (2 * math.log(2)), rel=1e-12)
    assert found.cllr_min == pytest.approx(pav(GENUINE, IMPOSTORS), rel=1e-12)
    assert found.cllr_min < found.cllr < 1
    assert cllr([0.0], [0.0, 0.0]) == pytest.approx(1)


@pytest.mark.parametrize("seed", range(5))
def test_the_least_cost_of_few_tied_scores(seed: int) -> None:
    rng = np.random.default_rng(seed)
    genuine, impostors = rng.integers(0, 9, 7).astype(float), rng.integers(0, 9, 11).astype(float)
    curve = roc_from(SortedScores(genuine), SortedScores(impostors))
    assert min_cllr(curve) == pytest.approx(pav(genuine, impostors), rel=1e-12)


def test_scores_are_held_within_what_the_pairs_show() -> None:
    found = fitted(GENUINE, IMPOSTORS)
    assert found.at(1.0) == math.log(901)
    assert found.at(-1.0) == -math.log(301)


def test_scores_that_do_not_overlap() -> None:
    genuine, impostors = np.array([0.6, 0.7, 0.9]), np.array([0.1, 0.2])
    found = fitted(genuine, impostors)
    assert (found.at(0.6), found.at(0.2)) == pytest.approx((math.log(3), -math.log(4)))
    assert found.cllr_min == 0
    assert 0 < found.cllr < 1
    touching = fitted(np.array([0.5, 0.7]), np.array([0.1, 0.5]))
    assert touching.slope > 0


def test_scores_that_say_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="genuine pairs score no higher"):
        fitted(IMPOSTORS[:300], GENUINE)
    with pytest.raises(ValueError, match="prior"):
        fitted(GENUINE, IMPOSTORS, prior=1.0)
