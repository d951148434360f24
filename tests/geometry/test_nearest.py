"""The nearest of many uniform prototypes: exact, against closed forms, plain quadrature and sampling."""

import math

import pytest
import torch
from scipy import integrate, special

from hypersphere.geometry import nearest_angle, nearest_angle_asymptotics, sample_nearest_angles


def plain_mean(num_classes: int, dim: int) -> float:
    def cap(theta: float) -> float:
        half = 0.5 * special.betainc((dim - 1) / 2, 0.5, math.sin(theta) ** 2)
        return float(half if theta <= math.pi / 2 else 1 - half)

    points = [0.1 * k for k in range(1, 31)]
    return integrate.quad(lambda a: (1 - cap(a)) ** (num_classes - 1), 0, math.pi, points=points, limit=500)[0]


def test_the_papers_setting_is_79_degrees() -> None:
    law = nearest_angle(85_742, 512)
    assert math.degrees(law.mean) == pytest.approx(79.00, abs=0.005)
    assert math.degrees(law.mean) == pytest.approx(math.degrees(plain_mean(85_742, 512)), abs=1e-7)
    assert math.degrees(law.deviation) < 1
    assert law.mean == pytest.approx(law.median, abs=0.01)


@pytest.mark.parametrize("num_classes", [2, 3, 10, 1000, 10**9])
def test_on_the_circle_it_is_pi_over_c(num_classes: int) -> None:
    """In the plane P(angle > t) = (1 - t/pi)^(C-1): mean pi/C, a beta law."""
    law, n = nearest_angle(num_classes, 2), num_classes - 1
    assert law.mean == pytest.approx(math.pi / num_classes, rel=1e-9)
    assert law.deviation == pytest.approx(math.pi * math.sqrt(n / ((n + 1) ** 2 * (n + 2))), rel=1e-6)
    assert law.median == pytest.approx(math.pi * -math.expm1(-math.log(2) / n), rel=1e-9)


@pytest.mark.parametrize(("num_classes", "dim"), [(2, 3), (10, 3), (200, 3), (10, 64), (1000, 512), (10**6, 128)])
def test_against_plain_quadrature(num_classes: int, dim: int) -> None:
    assert nearest_angle(num_classes, dim).mean == pytest.approx(plain_mean(num_classes, dim), rel=1e-8)


def test_two_random_directions_are_a_right_angle_apart() -> None:
    for dim in (2, 3, 512, 4096):
        assert nearest_angle(2, dim).mean == pytest.approx(math.pi / 2, rel=1e-12)


def test_extremes_stay_finite_and_ordered() -> None:
    means = [nearest_angle(count, 4096).mean for count in (10, 10**4, 10**9, 10**15)]
    assert means == sorted(means, reverse=True)
    assert 1.3 < means[-1] < means[0] < math.pi / 2


def test_asymptotics_are_right_in_their_limits() -> None:
    many_classes = nearest_angle_asymptotics(10**9, 3)["many classes"]
    assert many_classes == pytest.approx(nearest_angle(10**9, 3).mean, rel=1e-6)
    assert many_classes == pytest.approx(math.sqrt(math.pi) / math.sqrt(10**9 - 1), rel=1e-9)
    wide = nearest_angle_asymptotics(10**6, 10**6)
    exact = nearest_angle(10**6, 10**6).mean
    assert math.cos(wide["many dimensions"]) == pytest.approx(math.cos(exact), rel=0.005)
    assert math.cos(wide["first order"]) == pytest.approx(math.cos(exact), rel=0.1)
    assert wide["one in the cap"] == pytest.approx(exact, abs=2e-4)


def test_asymptotics_beyond_their_reach_are_left_out() -> None:
    assert set(nearest_angle_asymptotics(2, 3)) == {"one in the cap", "many classes"}
    assert "first order" not in nearest_angle_asymptotics(10**6, 3)


def test_sampling_agrees() -> None:
    law = nearest_angle(3000, 32)
    angles = sample_nearest_angles(3000, 32, probes=400, seed=1)
    assert angles.mean().item() == pytest.approx(law.mean, abs=5 * law.deviation / 20)
    assert angles.std().item() == pytest.approx(law.deviation, rel=0.2)
    assert torch.equal(angles, sample_nearest_angles(3000, 32, probes=400, seed=1))


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="num_classes=1 must be"):
        nearest_angle(1, 3)
    with pytest.raises(ValueError, match="dim=1 must be"):
        nearest_angle(10, 1)
    with pytest.raises(ValueError, match="probes=0"):
        sample_nearest_angles(10, 3, probes=0)
