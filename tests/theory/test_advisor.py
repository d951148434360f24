"""The advisor: its margins end where they should, and it warns."""

import math
from typing import Any

import pytest

from hypersphere.heads import create_head
from hypersphere.theory import (
    ExpectedSoftmax,
    advise,
    half_nearest_angle,
    margins_for,
    recommended_scale,
    relative_deviation,
    termination_angle,
    termination_cosine,
    warn,
)

SETTINGS = [(85_742, 512), (10_572, 512), (8_631, 512), (100, 128), (751, 2048), (10**6, 128), (10**9, 4096), (2, 512)]


@pytest.mark.parametrize(("classes", "dim"), SETTINGS)
def test_every_choice_ends_at_half_the_nearest_angle(classes: int, dim: int) -> None:
    advice = advise(classes, dim)
    assert len(advice.choices) == 4
    for choice in advice.choices:
        setting = ExpectedSoftmax(
            num_classes=classes,
            dim=dim,
            scale=advice.setting.scale,
            **{choice.margin: choice.value},  # type: ignore[arg-type]
        )
        assert termination_angle(setting) == pytest.approx(half_nearest_angle(classes, dim), rel=1e-9)


def test_at_the_papers_setting_it_recommends_the_papers_margins() -> None:
    advice = advise(85_742, 512)
    assert advice.setting.scale == 64
    assert math.degrees(advice.nearest) == pytest.approx(79.00, abs=0.005)
    values = {choice.margin: choice.value for choice in advice.choices}
    for name, best in {"m0": 0.35, "m1": 1.85, "m2": 0.6, "m3": 0.5}.items():
        assert values[name] == pytest.approx(best, rel=0.02)
    assert advice.choices[0].loss == "cosface"
    assert advice.warnings == ()


@pytest.mark.parametrize(("classes", "dim"), SETTINGS)
def test_the_scale_lets_the_loss_end_and_the_weight_be_known(classes: int, dim: int) -> None:
    scale = recommended_scale(classes, dim)
    setting = ExpectedSoftmax(num_classes=classes, dim=dim, scale=scale)
    assert termination_cosine(setting) < math.cos(half_nearest_angle(classes, dim))
    assert 1 <= scale <= 64
    if classes > 5000:
        assert relative_deviation(classes, dim, scale) <= relative_deviation(85_742, 512, 64) * 1.001


def test_the_choices_are_heads_that_exist() -> None:
    for choice in advise(50, 16).choices:
        options: dict[str, Any] = {"scale": 20.0, "margin": choice.value}
        head = create_head(choice.loss, dim=16, num_classes=50, **options)
        assert head.weight.shape == (50, 16)


def test_alternatives_have_other_scales() -> None:
    advice = advise(85_742, 512, scale=40)
    assert [scale for scale, _ in advice.alternatives] == [16, 30, 64]
    low, middle, high = (choices for _, choices in advice.alternatives)
    assert low == ()  # the loss without a margin ends below the wanted angle
    assert middle[0].value < high[0].value


def messages(**keywords: float) -> str:
    return "\n".join(warn(ExpectedSoftmax(**keywords)))  # type: ignore[arg-type]


def test_warnings() -> None:
    assert warn(ExpectedSoftmax(m3=0.5)) == []
    assert "polar collapse" in messages(m0=0.35)
    assert "wrong_class_relu=True" in messages(m0=0.35)
    assert "sphereface_r" in messages(m1=1.35)
    assert "saturation" in messages(scale=8.0)
    assert "NormFace Prop. 2" in messages(scale=8.0)
    assert "m2 = 1.6 > pi/2" in messages(m2=1.6)
    assert "that takes 3 for many (SphereFace Property 3)" in messages(m1=2.9)
    assert "Property 3" not in messages(m1=3.0)
    assert "2 + sqrt(3)" in messages(num_classes=2, m1=3.7)
    assert "Property 2" not in messages(num_classes=2, m1=3.74)
    assert "varies by" in messages(num_classes=100, scale=64.0)
    assert "C <= d + 1" in messages(num_classes=100)
    assert "never reaches 0.9" in messages(m3=0.9)


def test_a_bounded_angle_does_not_collapse() -> None:
    bounded = next(choice for choice in advise(85_742, 512).choices if choice.margin == "m1")
    assert not any("polar" in warning for warning in bounded.warnings)
    assert any("SphereFace Property 3" in warning for warning in bounded.warnings)


def test_where_nothing_helps_it_says_so() -> None:
    advice = advise(10, 2)
    assert advice.choices == ()
    assert advice.plain is None
    assert any("saturation" in warning for warning in advice.warnings)
    assert margins_for(ExpectedSoftmax(scale=10.0), 0.7) == ()


def test_imbalance() -> None:
    counts = [1000] * 50 + [10] * 50
    uneven = advise(100, 64, class_counts=counts).imbalance
    assert uneven is not None
    assert uneven.ratio == 100
    assert uneven.max_margin / uneven.min_margin == pytest.approx(100**0.25)
    cosface = advise(100, 64).choices[0].value
    assert (uneven.max_margin + uneven.min_margin) / 2 <= cosface * (1 + 1e-9)
    level = advise(100, 64, class_counts=[7] * 100).imbalance
    assert level is not None
    assert level.max_margin == pytest.approx(cosface)
    with pytest.raises(ValueError, match="class_counts has 3 entries; num_classes is 100"):
        advise(100, 64, class_counts=[1, 2, 3])
    with pytest.raises(ValueError, match="class_counts entry=0"):
        advise(2, 64, class_counts=[1, 0])


def test_bad_arguments() -> None:
    for call, message in (
        (lambda: advise(1, 64), "num_classes=1"),
        (lambda: advise(10, 1), "dim=1"),
        (lambda: advise(10, 64, scale=-1.0), "scale=-1"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
