"""Panels of curves and regions of classes."""

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hypersphere.plots import Line, Panel, draw_panels, draw_plane_regions, draw_sphere_regions, save_figure


def test_panels_hold_their_curves_labels_and_marks() -> None:
    x = np.linspace(1, 10, 5)
    first = Panel(
        "one", "angle (degrees)", "loss", [Line("a", x, x), Line("b", x, 2 * x, "o")], {"here": 3.0}, log_x=True
    )
    second = Panel("two", "x", "y", [Line("c", x, x, low=x - 1, high=x + 1)], log_y=True, y_range=(0.1, 20))
    figure = draw_panels([first, second, first], columns=2)
    axes = figure.axes
    assert [a.get_title() for a in axes] == ["one", "two", "one"]
    assert axes[0].get_xlabel() == "angle (degrees)"
    assert [line.get_label() for line in axes[0].lines] == ["a", "b", "here"]
    assert (axes[0].get_xscale(), axes[1].get_yscale()) == ("log", "log")
    assert axes[1].get_ylim() == (0.1, 20)
    assert len(axes[1].collections) == 1


def test_plane_regions_are_those_of_the_function() -> None:
    def nearer(degrees: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        return np.where(np.abs(degrees[:, 0] - degrees[:, 1]) < 20, -1, degrees.argmin(1))

    figure = draw_plane_regions([("bisector", nearer)], points=19)
    picture = figure.axes[0].images[0].get_array()
    assert picture is not None
    assert picture[9, 9] == -1
    assert picture[18, 0] == 0
    assert picture[0, 18] == 1


def test_sphere_regions_show_the_side_of_the_viewer() -> None:
    prototypes = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0], [-1.0, 0.0, 0.0]])

    def northern(points: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        assert np.allclose(np.linalg.norm(points, axis=1), 1)
        assert (points[:, 0] >= -1e-9).all()
        return np.where(points[:, 2] > 0, 0, -1)

    figure = draw_sphere_regions([("north", northern, prototypes)], viewer=(1.0, 0.0, 0.0), pixels=21)
    picture = figure.axes[0].images[0].get_array()
    assert picture is not None
    top, bottom, corner = picture[15, 10], picture[5, 10], picture[0, 0]
    assert top[2] > top[0]
    assert np.ptp(bottom) < 0.01
    assert (corner == 1).all()


def test_logarithmic_panels_of_nothing_measured_are_drawn(tmp_path: Path) -> None:
    nothing = Line("not measured", [0.001, 0.01], [math.nan, math.nan])
    figure = draw_panels([Panel("empty", "x", "y", [nothing], log_x=True, log_y=True)])
    save_figure(figure, tmp_path / "empty.png")
    assert (tmp_path / "empty.png").stat().st_size > 0
