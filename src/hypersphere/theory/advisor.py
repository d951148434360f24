"""Which scale and margins to start from: those whose loss ends at half the angle to the nearest prototype."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hypersphere.core import check_integer, check_positive
from hypersphere.geometry import nearest_angle
from hypersphere.theory.expected_softmax import (
    ExpectedSoftmax,
    polar_collapse_loss,
    termination_angle,
    termination_cosine,
    vary,
)
from hypersphere.theory.normface import softmax_bound
from hypersphere.theory.weights import relative_deviation

LOSSES = {"m3": "cosface", "m2": "arcface", "m0": "ampface", "m1": "sphereface_r"}
"""In the order of AmpFace's table 3: the best first."""
_DONE = -math.log(0.9)
"""The loss at the termination angle."""
_LARGEST_SCALE = 64.0
_SEARCH = 512.0


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One loss with the margin that ends at the wanted angle.

    Args:
        loss: its name as `create_head` has it.
        margin: which of m0..m3.
        value: of it.
        warnings: what the papers say against it.
    """

    loss: str
    margin: str
    value: float
    warnings: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Imbalance:
    """What to do about unequal classes.

    Args:
        ratio: largest over smallest count.
        max_margin: of `ldam`, whose margins are then as large as CosFace's on average over the classes.
        min_margin: of its largest class.
    """

    ratio: float
    max_margin: float
    min_margin: float


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What `advise` found; angles in radians.

    Args:
        setting: C, d and s, without margins.
        nearest: expected angle to the nearest prototype.
        wanted: the termination angle to meet, half of it.
        plain: the termination angle without a margin, or None.
        choices: the losses, the papers' best first; empty where the loss ends below the wanted angle by itself.
        alternatives: other scales with their choices.
        imbalance: for unequal classes.
        warnings: about the setting itself.
    """

    setting: ExpectedSoftmax
    nearest: float
    wanted: float
    plain: float | None
    choices: tuple[Choice, ...]
    alternatives: tuple[tuple[float, tuple[Choice, ...]], ...]
    imbalance: Imbalance | None
    warnings: tuple[str, ...]


def advise(
    num_classes: int, dim: int, *, scale: float | None = None, class_counts: Sequence[int] | None = None
) -> Advice:
    """Recommend a scale and margins by the AmpFace paper's observation (App. B), not a theorem.

    Its four best margins all end (1 - p_y = 0.1) near half the expected angle to the nearest prototype. With kappa of
    `termination_cosine` and that angle t, the margins that do so exactly are

        m0 = kappa / cos t,  m1 = arccos(kappa) / t,  m2 = arccos(kappa) - t,  m3 = cos t - kappa

    Args:
        num_classes: C, at least 2.
        dim: d >= 2.
        scale: s; by default `recommended_scale`.
        class_counts: how many samples each class has.

    Example:
        >>> advice = advise(85_742, 512)
        >>> advice.setting.scale, round(advice.choices[0].value, 2)
        (64.0, 0.5)
    """
    law = nearest_angle(num_classes, dim)
    chosen = recommended_scale(num_classes, dim) if scale is None else check_positive("scale", scale)
    setting = ExpectedSoftmax(num_classes=num_classes, dim=dim, scale=chosen)
    wanted = law.mean / 2
    others = [s for s in (16.0, 30.0, 64.0) if abs(s - chosen) > 1]
    return Advice(
        setting=setting,
        nearest=law.mean,
        wanted=wanted,
        plain=termination_angle(setting),
        choices=margins_for(setting, wanted),
        alternatives=tuple((s, margins_for(vary(setting, "scale", s), wanted)) for s in others),
        imbalance=None if class_counts is None else _imbalance(setting, wanted, class_counts),
        warnings=tuple(warn(setting)),
    )


def recommended_scale(num_classes: int, dim: int) -> float:
    """A scale to start from: a convention, 64 at the AmpFace paper's setting.

    The largest, up to 64, at which the total wrong-class weight is as well known as there (`relative_deviation`;
    Prop. 3 needs C >> e^(s^2/d)), but at least 1.5 times the smallest that lets the loss end at the wanted angle.
    """
    wanted = math.cos(nearest_angle(num_classes, dim).mean / 2)
    known = relative_deviation(85_742, 512, _LARGEST_SCALE) * (1 + 1e-9)

    def ends(scale: float) -> bool:
        return termination_cosine(ExpectedSoftmax(num_classes=num_classes, dim=dim, scale=scale)) <= wanted

    scales = [float(s) for s in range(1, int(_SEARCH) + 1)]
    high = max((s for s in scales[:64] if relative_deviation(num_classes, dim, s) <= known), default=1.0)
    low = next((s for s in scales if ends(s)), None)
    if low is None:
        return _LARGEST_SCALE
    return max(high, min(math.ceil(1.5 * low), _LARGEST_SCALE), low)


def margins_for(setting: ExpectedSoftmax, wanted: float) -> tuple[Choice, ...]:
    """Each margin alone that ends at the wanted angle; none where the loss without a margin ends below it already."""
    kappa, cosine = termination_cosine(setting), math.cos(wanted)
    if not 0 < kappa < cosine:
        return ()
    values = {
        "m0": kappa / cosine,
        "m1": math.acos(kappa) / wanted,
        "m2": math.acos(kappa) - wanted,
        "m3": cosine - kappa,
    }
    choices = []
    for name, loss in LOSSES.items():
        found = _margin_warnings(vary(setting, name, values[name]), bounded=loss == "sphereface_r")
        choices.append(Choice(loss=loss, margin=name, value=values[name], warnings=tuple(found)))
    return tuple(choices)


def warn(setting: ExpectedSoftmax) -> list[str]:
    """Everything the papers warn of in a setting with its margins."""
    return [*_setting_warnings(setting), *_margin_warnings(setting)]


def _setting_warnings(setting: ExpectedSoftmax) -> list[str]:
    found = []
    classes, dim, scale = setting.num_classes, setting.dim, setting.scale
    bound = float(softmax_bound(classes, scale))
    if bound > _DONE:
        found.append(
            f"saturation: with scale {scale:g} the loss cannot fall below {bound:.3g} even for a perfect simplex "
            "(NormFace Prop. 2); p_y = 0.9 is out of reach"
        )
    elif termination_cosine(setting) >= 1:
        found.append(f"saturation: among uniform prototypes p_y = 0.9 is out of reach with scale {scale:g}, d = {dim}")
    deviation = relative_deviation(classes, dim, scale)
    if deviation > 0.5:
        found.append(
            f"the total wrong-class weight of a sample varies by {100 * deviation:.0f} % (AmpFace Prop. 3 needs "
            "C >> e^(s^2/d)); angles here are rough"
        )
    if classes <= dim + 1:
        best = math.degrees(math.acos(-1 / (classes - 1)))
        found.append(
            f"C <= d + 1: training can place the prototypes {best:.1f} degrees apart (largest-margins Lemma 2.1), "
            "further than uniform ones; the rule was observed for C far above d"
        )
    return found


def _margin_warnings(setting: ExpectedSoftmax, *, bounded: bool = False) -> list[str]:
    """`bounded`: the angle is cut at pi, as SphereFace-R does."""
    found = []
    collapse = polar_collapse_loss(setting)
    if collapse < _DONE and not bounded:
        found.append(
            f"polar collapse: prototypes all opposite to the feature have loss {collapse:.1g}; keep "
            "wrong_class_relu=True (AmpFace sec. 3.2)"
            + (", or take sphereface_r, which bounds the angle" if setting.m1 != 1 else "")
        )
    if setting.m2 > math.pi / 2:
        found.append(f"m2 = {setting.m2:.3g} > pi/2: the loss is least at the angle pi (largest-margins App. B.1)")
    least, name = 3.0, "3 for many (SphereFace Property 3)"
    if setting.num_classes == 2:
        least, name = 2 + math.sqrt(3), "2 + sqrt(3) for two (SphereFace Property 2)"
    if 1 < setting.m1 < least:
        found.append(
            f"m1 = {setting.m1:.3g} does not force classes apart by more than they are wide; that takes {name}"
        )
    if termination_cosine(setting) < 1 and termination_angle(setting) is None:
        found.append("with these margins p_y never reaches 0.9: the loss pulls at every angle")
    return found


def _imbalance(setting: ExpectedSoftmax, wanted: float, class_counts: Sequence[int]) -> Imbalance:
    """LDAM's margins K n^(-1/4) (largest-margins sec. 3.1), on average over classes as large as CosFace's.

    The rarest class's is cut where it would end below half the wanted angle.
    """
    counts = [check_integer("class_counts entry", count, 1) for count in class_counts]
    if len(counts) != setting.num_classes:
        raise ValueError(f"class_counts has {len(counts)} entries; num_classes is {setting.num_classes}")
    kappa = termination_cosine(setting)
    mean = math.cos(wanted) - kappa
    if mean <= 0:
        raise ValueError(f"scale={setting.scale:g} leaves no room for margins; a larger one would")
    shares = [count**-0.25 for count in counts]
    largest = mean * max(shares) * len(shares) / sum(shares)
    largest = min(largest, math.cos(wanted / 2) - kappa)
    return Imbalance(
        ratio=max(counts) / min(counts), max_margin=largest, min_margin=largest * min(shares) / max(shares)
    )
