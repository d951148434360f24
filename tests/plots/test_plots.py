"""Figures: drawn without a window, written whole or not at all."""

from pathlib import Path

import pytest
import torch

from hypersphere.geometry import regular_simplex
from hypersphere.plots import draw_spheres, new_figure, save_figure


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
