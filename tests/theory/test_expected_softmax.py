"""Losses over angles, against plain formulas, differences, autograd of the real head, and the paper's angles."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import hypersphere as hs
from hypersphere.losses.target_margins import psi
from hypersphere.theory import (
    ExpectedSoftmax,
    half_nearest_angle,
    margin_loss,
    polar_collapse_loss,
    target_gradient,
    termination_angle,
    termination_angle_of,
    termination_cosine,
    wrong_class_gradient,
)

MARGINS = [{}, {"m0": 0.35}, {"m1": 1.85}, {"m2": 0.6}, {"m3": 0.5}, {"m0": 0.9, "m1": 1.1, "m2": 0.2, "m3": 0.1}]
SMALL = ExpectedSoftmax(num_classes=50, dim=16, scale=12.0)
ANGLES = np.radians([1.0, 20.0, 40.0, 75.0, 110.0])


@pytest.mark.parametrize("margins", MARGINS, ids=str)
def test_the_loss_is_a_softmax_with_the_expected_weight(margins: dict[str, Any]) -> None:
    setting = replace(SMALL, **margins)
    for theta in ANGLES:
        m = {"m0": 1.0, "m1": 1.0, "m2": 0.0, "m3": 0.0, **margins}
        target = math.exp(12.0 * (m["m0"] * math.cos(m["m1"] * theta + m["m2"]) - m["m3"]))
        wanted = -math.log(target / (target + math.exp(setting.log_weight())))
        assert float(margin_loss(setting, theta)) == pytest.approx(wanted, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("margins", MARGINS, ids=str)
def test_the_target_gradient_is_the_slope(margins: dict[str, Any]) -> None:
    setting = replace(SMALL, **margins)
    slope = (margin_loss(setting, ANGLES + 1e-6) - margin_loss(setting, ANGLES - 1e-6)) / 2e-6
    np.testing.assert_allclose(target_gradient(setting, ANGLES), slope, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("margins", MARGINS, ids=str)
def test_the_wrong_class_gradient_is_the_slope_of_the_whole_loss(margins: dict[str, Any]) -> None:
    setting = replace(SMALL, **margins)

    def loss(target: float, wrong: float) -> float:
        own = math.exp(12.0 * math.cos(wrong))
        others = math.exp(setting.log_weight()) * 48 / 49
        top = math.exp(float(setting.logit(target)))
        return -math.log(top / (top + own + others))

    for target in ANGLES:
        for wrong in (0.3, 1.0, 1.6):
            slope = (loss(target, wrong + 1e-6) - loss(target, wrong - 1e-6)) / 2e-6
            assert float(wrong_class_gradient(setting, target, wrong)) == pytest.approx(slope, rel=1e-5, abs=1e-8)


def test_the_head_has_this_loss_and_these_gradients() -> None:
    """Two classes in the plane: the weight is one class's own, so the real loss is the same formula."""
    head = hs.create_head("unified", dim=2, num_classes=2, scale=5.0, m0=0.8, m2=0.2, m3=0.1).double()
    target, wrong = 0.6, 1.1
    angle = torch.tensor(target, dtype=torch.float64, requires_grad=True)
    x = torch.stack([angle.cos(), angle.sin()])[None]
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[1.0, 0.0], [math.cos(target - wrong), math.sin(target - wrong)]]))
    loss = head(x, torch.tensor([0]))
    (slope,) = torch.autograd.grad(loss, angle)
    setting = ExpectedSoftmax(num_classes=2, dim=2, scale=5.0, m0=0.8, m2=0.2, m3=0.1)
    own = float(wrong_class_gradient(setting, target, wrong))
    p = -own / (5.0 * math.sin(wrong))
    pull = p * float(-setting.logit_slope(target))
    assert float(loss.detach()) == pytest.approx(-math.log(1 - p), rel=1e-6)
    assert float(slope) == pytest.approx(pull + own, rel=1e-6)


def test_extreme_angles_scales_and_counts_stay_finite() -> None:
    for setting in (
        ExpectedSoftmax(num_classes=10**9, dim=4096, scale=1000.0),
        ExpectedSoftmax(num_classes=2, dim=2, scale=1e-3),
        ExpectedSoftmax(num_classes=10**9, dim=2, scale=200.0, m3=1.0),
    ):
        angles = np.array([0.0, 1e-12, 1.5, math.pi])
        for values in (
            margin_loss(setting, angles),
            target_gradient(setting, angles),
            wrong_class_gradient(setting, angles, 1.0),
        ):
            assert np.isfinite(values).all()


@pytest.mark.parametrize(
    ("margins", "issue", "exact"),
    [
        ({"m0": 0.35}, 38.4, 38.52),
        ({"m1": 1.85}, 40.0, 40.06),
        ({"m2": 0.6}, 39.7, 39.73),
        ({"m3": 0.5}, 39.3, 39.30),
    ],
)
def test_the_termination_angles_of_the_best_margins(margins: dict[str, Any], issue: float, exact: float) -> None:
    angle = termination_angle(ExpectedSoftmax(weight="approximation", **margins))
    assert angle is not None
    assert math.degrees(angle) == pytest.approx(issue, abs=0.05)
    ours = termination_angle(ExpectedSoftmax(**margins))
    assert ours is not None
    assert math.degrees(ours) == pytest.approx(exact, abs=0.005)
    assert ours == pytest.approx(half_nearest_angle(85_742, 512), abs=math.radians(1.0))
    assert math.exp(-float(margin_loss(ExpectedSoftmax(**margins), ours))) == pytest.approx(0.9, rel=1e-9)


@pytest.mark.parametrize("margins", MARGINS, ids=str)
def test_the_closed_form_is_the_first_root(margins: dict[str, Any]) -> None:
    setting = ExpectedSoftmax(**margins)
    wanted = termination_angle(setting, level=0.3)
    found = termination_angle_of(setting.logit, setting.log_weight(), level=0.3)
    assert wanted == pytest.approx(found, rel=1e-9)


def test_any_loss_has_a_termination_angle() -> None:
    """SphereFace's psi with m = 2 equals cos(2 theta) on its first piece."""
    setting = ExpectedSoftmax(m1=2.0)
    found = termination_angle_of(
        lambda angle: 64 * psi(torch.from_numpy(np.cos(np.atleast_1d(angle))), 2).numpy().reshape(np.shape(angle)),
        setting.log_weight(),
    )
    assert found == pytest.approx(termination_angle(setting), rel=1e-7)


def test_a_loss_that_never_ends() -> None:
    for setting in (
        ExpectedSoftmax(scale=5.0),
        ExpectedSoftmax(m0=0.1),
        ExpectedSoftmax(m2=3.0),
        ExpectedSoftmax(m3=0.9),
    ):
        assert termination_angle(setting) is None
        assert termination_angle_of(setting.logit, setting.log_weight()) is None
    assert termination_cosine(ExpectedSoftmax()) == pytest.approx(0.27384, abs=1e-5)
    with pytest.raises(ValueError, match="level=1 must be below 1"):
        termination_angle(ExpectedSoftmax(), level=1.0)


def test_polar_collapse() -> None:
    """The loss of the real head with every prototype opposite to the feature."""
    for margins in MARGINS:
        setting = ExpectedSoftmax(num_classes=7, dim=4, scale=9.0, **margins)  # type: ignore[arg-type]
        head = hs.create_head("unified", dim=4, num_classes=7, scale=9.0, **margins).double()  # type: ignore[call-overload]
        x = torch.tensor([[0.0, 1.0, 0.0, 0.0]], dtype=torch.float64)
        with torch.no_grad():
            head.weight.copy_((-x).expand(7, 4))
        loss = float(head(x, torch.tensor([0])).detach())
        assert loss == pytest.approx(polar_collapse_loss(setting), rel=1e-4)
    assert polar_collapse_loss(ExpectedSoftmax(m0=0.35)) < 1e-12
    assert polar_collapse_loss(ExpectedSoftmax(m3=0.5)) > 40


def test_bad_settings() -> None:
    for keywords, message in (
        ({"num_classes": 1}, "num_classes=1"),
        ({"scale": 0.0}, "scale=0"),
        ({"m0": -1.0}, "m0=-1"),
        ({"weight": "guess"}, "weight='guess' is unknown"),
    ):
        with pytest.raises(ValueError, match=message):
            ExpectedSoftmax(**keywords)
