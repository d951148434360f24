"""Plain loops that say what every metric means."""

import itertools
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

PAIRS = st.lists(st.tuples(st.integers(-5, 5), st.booleans()), min_size=2, max_size=40).filter(
    lambda pairs: len({same for _, same in pairs}) == 2
)
"""Scores with many ties, of both kinds of pairs."""


def split(pairs: list[tuple[int, bool]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([score / 4 for score, _ in pairs]), np.array([same for _, same in pairs])


def rates(scores: np.ndarray, same: np.ndarray, threshold: float) -> tuple[Fraction, Fraction]:
    """FAR and TAR of accepting scores >= threshold."""
    counts = {True: [0, 0], False: [0, 0]}
    for score, mate in zip(scores, same, strict=True):
        counts[bool(mate)][1] += 1
        counts[bool(mate)][0] += bool(score >= threshold)
    return Fraction(*counts[False]), Fraction(*counts[True])


def curve(scores: np.ndarray, same: np.ndarray) -> list[tuple[Fraction, Fraction]]:
    """FAR and TAR at every distinct score, falling, after the point that accepts nothing."""
    return [rates(scores, same, threshold) for threshold in [np.inf, *sorted(set(scores.tolist()), reverse=True)]]


def area(scores: np.ndarray, same: np.ndarray) -> Fraction:
    """P(genuine > impostor) + P(equal) / 2 over all pairs of a genuine and an impostor score."""
    wins = [Fraction(int(g > i) + int(g >= i), 2) for g in scores[same] for i in scores[~same]]
    return sum(wins, Fraction(0)) / len(wins)


def equal_error(scores: np.ndarray, same: np.ndarray) -> Fraction:
    """Where the polygon of `curve` meets FAR = 1 - TAR."""
    points = curve(scores, same)
    for (far, tar), (next_far, next_tar) in itertools.pairwise(points):
        before, after = far + tar - 1, next_far + next_tar - 1
        if before < 0 <= after:
            return far + (next_far - far) * (-before / (after - before))
    raise AssertionError("no crossing")
