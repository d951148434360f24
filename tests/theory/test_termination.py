"""The termination angle read from the library's own losses."""

import math
from typing import Any

import numpy as np
import pytest

from hypersphere.theory import ExpectedSoftmax, loss_termination_angle, target_logit, termination_angle

PAPER: dict[str, Any] = {"num_classes": 85_742, "dim": 512, "scale": 64.0}


@pytest.mark.parametrize(
    ("loss", "options", "margins"),
    [
        ("normface", {}, {}),
        ("cosface", {"margin": 0.5}, {"m3": 0.5}),
        ("arcface", {"margin": 0.6}, {"m2": 0.6}),
        ("ampface", {"margin": 0.35}, {"m0": 0.35}),
        ("sphereface_r", {"margin": 1.85}, {"m1": 1.85}),
        ("sphereface", {"margin": 2}, {"m1": 2.0}),
        ("unified", {"m0": 0.9, "m2": 0.3, "m3": 0.1}, {"m0": 0.9, "m2": 0.3, "m3": 0.1}),
    ],
)
def test_it_is_the_closed_form(loss: str, options: dict[str, Any], margins: dict[str, Any]) -> None:
    found = loss_termination_angle(loss, **PAPER, **options)
    assert found == pytest.approx(termination_angle(ExpectedSoftmax(**margins)), rel=1e-6)


def test_the_logit_is_that_of_the_loss() -> None:
    angles = np.array([0.1, 0.8, 1.5, 2.5])
    np.testing.assert_allclose(
        target_logit("arcface", scale=20.0, margin=0.4)(angles)[:3], 20 * np.cos(angles[:3] + 0.4), rtol=1e-6
    )
    psi = target_logit("sphereface", scale=10.0, margin=3)(angles)
    for angle, value in zip(angles, psi, strict=True):
        k = math.floor(angle / (math.pi / 3))
        assert value == pytest.approx(10 * ((-1) ** k * math.cos(3 * angle) - 2 * k), rel=1e-6)


def test_a_loss_outside_the_family_is_refused() -> None:
    with pytest.raises(ValueError, match="loss='lm_softmax' is unknown"):
        loss_termination_angle("lm_softmax", **PAPER)
