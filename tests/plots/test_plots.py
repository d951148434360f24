"""Figures: drawn without a window, written whole or not at all."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from hypersphere.geometry import normalize, regular_simplex
from hypersphere.plots import (
    draw_roc,
    draw_similarities,
    draw_spheres,
    draw_training,
    new_figure,
    project_to_sphere,
    save_figure,
)


def test_spheres(tmp_path: Path) -> None:
    points = regular_simplex(4, 3)
    figure = draw_spheres([("a", points, points, torch.arange(4)), ("b", points, points, torch.arange(4))])
    assert [axes.get_title() for axes in figure.axes] == ["a", "b"]
    for name in ("spheres.png", "spheres.svg"):
        assert save_figure(figure, tmp_path / "deep" / name).stat().st_size > 1000
    assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == ["spheres.png", "spheres.svg"]


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    target = tmp_path / "figure.unknown"
    target.write_text("old")
    with pytest.raises(ValueError, match="unknown"):
        save_figure(new_figure(2, 2), target)
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["figure.unknown"]


def test_points_in_front_are_drawn_over_the_globe_and_those_behind_under_it() -> None:
    points = torch.tensor([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
    axes = draw_spheres([("a", None, points, torch.tensor([0, 0]))]).axes[0]
    order = [(drawn.get_zorder(), drawn.get_alpha()) for drawn in axes.collections]
    assert order == [(2, 0.25), (2, 0.35), (1, 0.35), (3, 1.0)], "globe, its lines, behind, in front"


def test_projection_keeps_what_three_dimensions_hold() -> None:
    generator = torch.Generator().manual_seed(0)
    flat = normalize(torch.randn(20, 3, generator=generator, dtype=torch.float64) + 1)
    basis = torch.linalg.qr(torch.randn(10, 3, generator=generator, dtype=torch.float64))[0]
    points, kept = project_to_sphere(flat @ basis.T)
    assert kept == pytest.approx(1)
    torch.testing.assert_close(points @ points.T, flat @ flat.T)
    elevation, azimuth = math.radians(20), math.radians(35)
    toward = [math.cos(elevation) * math.cos(azimuth), math.cos(elevation) * math.sin(azimuth), math.sin(elevation)]
    torch.testing.assert_close(normalize(points.mean(0)), torch.tensor(toward, dtype=torch.float64))
    assert project_to_sphere(torch.eye(6))[1] == pytest.approx(0.5)
    with pytest.raises(ValueError, match=r"embeddings have shape \(5, 2\)"):
        project_to_sphere(torch.ones(5, 2))


def test_roc() -> None:
    far, tar = np.array([0, 0.01, 1.0]), np.array([0, 0.9, 1.0])
    axes = draw_roc({"a": (far, tar), "b": (far, tar / 2)}, genuine=50, impostor=100).axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "logit")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]
    assert "100 pairs" in axes.get_xlabel()
    assert "50 pairs" in axes.get_ylabel()
    drawn = np.asarray(axes.lines[0].get_xydata())
    np.testing.assert_allclose(drawn, [[0.005, 0.01], [0.01, 0.9], [1, 0.99]], err_msg="0 and 1 lie on the border")
    assert axes.get_ylim() == (0.1, 0.99)


def test_the_roc_of_a_good_model_is_legible() -> None:
    far, tar = np.array([0, 1e-4, 1e-3, 1.0]), np.array([0.99, 0.999, 0.9995, 1.0])
    axes = draw_roc({"good": (far, tar)}, genuine=100_000, impostor=100_000).axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["90 %", "99 %", "99.9 %", "99.99 %", "99.999 %"]
    height = axes.get_window_extent().height
    _, low, high = axes.transData.transform(np.column_stack([[1e-4, 1e-3, 1e-3], [0.9, 0.999, 0.9995]]))[:, 1]
    assert (high - low) / height > 0.05, "99.9 and 99.95 % can be told apart"


def test_similarities_share_their_axes() -> None:
    scores, same = np.array([0.9, 0.95, 0.1]), np.array([True, True, False])
    drawn = draw_similarities({"title": scores, "other": np.full(3, 0.5)}, same, {"title": 0.5, "other": 0.2})
    assert list(drawn) == ["title", "other"]
    first, other = (figure.axes[0] for figure in drawn.values())
    assert (first.get_xlim(), first.get_ylim()) == (other.get_xlim(), other.get_ylim())
    assert other.get_ylim()[1] > 2
    axes = first
    assert axes.get_title() == "title"
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert sorted(labels) == ["one person (2)", "threshold 0.50", "two people (1)"]
    assert sum(bar.get_height() for bar in axes.patches) == 3  # type: ignore[attr-defined]


def test_training_curves_leave_out_what_is_missing() -> None:
    log = [{"step": 1, "loss": 2.0}, {"step": 2, "loss": math.nan}, {"step": 2, "score": 0.5}, {"step": 3, "loss": 1.0}]
    axes = draw_training({"run": log}, "loss", "loss", log_scale=True).axes[0]
    assert np.asarray(axes.lines[0].get_xydata()).tolist() == [[1, 2], [3, 1]]
    assert axes.get_yscale() == "log"
