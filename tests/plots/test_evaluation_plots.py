"""Figures of results."""

import numpy as np
import pytest

from hypersphere.plots import draw_cmc, draw_det, draw_score_histogram


def test_det_keeps_zero_on_the_border() -> None:
    fmr, fnmr = np.array([0, 0.01, 1.0]), np.array([1.0, 0.2, 0])
    axes = draw_det({"a": (fmr, fnmr)}, genuine=50, impostor=100).axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert np.asarray(axes.lines[0].get_xydata()).tolist() == [[0.005, 1], [0.01, 0.2], [1, 0.01]]


def test_histogram_with_its_threshold() -> None:
    axes = draw_score_histogram(np.linspace(-1, 1, 3), np.array([1, 4]), np.array([7, 0]), 0.25, "cosine").axes[0]
    labels = {text.get_text() for text in axes.get_legend().get_texts()}
    assert labels == {"one person (5)", "two people (7)", "threshold 0.250"}
    assert axes.get_xlabel() == "cosine"
    shares = [stairs.get_data().values.tolist() for stairs in axes.patches]  # type: ignore[attr-defined]
    assert shares == [[0.2, 0.8], [1, 0]]
    assert axes.lines[0].get_xdata()[0] == pytest.approx(0.25)  # type: ignore[index]
    without = draw_score_histogram(np.linspace(-1, 1, 3), np.array([1, 4]), np.array([7, 0]), np.inf).axes[0]
    assert not without.lines


def test_cmc_begins_at_rank_one() -> None:
    axes = draw_cmc({"probes": np.array([0.5, 0.75])}).axes[0]
    assert np.asarray(axes.lines[0].get_xydata()).tolist() == [[1, 0.5], [2, 0.75]]
