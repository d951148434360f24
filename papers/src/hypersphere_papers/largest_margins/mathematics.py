"""Learning Towards the Largest Margins: Lemma 2.1 and Theorems 2.2-3.5, each optimised from random starts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

from hypersphere.geometry import (
    class_margin,
    normalize,
    regular_simplex,
    riesz_energy,
    sample_margins,
    tammes,
    uniform_sphere,
)
from hypersphere.heads import create_head
from hypersphere.theory import smooth_margin_bound
from hypersphere_papers.engine.minimise import minimise

STARTS = 4


@dataclass(frozen=True, kw_only=True)
class Solution:
    """Where an optimisation ended.

    Args:
        value: of the objective.
        prototypes: (k, d) unit vectors.
        features: (N, d) unit vectors, or None where there are none.
        class_margin_degrees: smallest angle between prototypes (eq. 2.2).
        sample_margin: the smallest (eq. 2.6); NaN without features.
    """

    value: float
    prototypes: Tensor
    features: Tensor | None
    class_margin_degrees: float
    sample_margin: float


def simplex_margin_degrees(num_classes: int) -> float:
    """The largest class margin for k <= d + 1: arccos(-1/(k-1)) (Lemma 2.1), in degrees."""
    return math.degrees(math.acos(-1 / (num_classes - 1)))


def least_energy(num_points: int, dim: int, exponent: float, *, seed: int = 0) -> Solution:
    """Minimise the Riesz energy of free points (Lemma 2.1).

    For k <= d + 1 the unique minimum is the regular simplex, whatever the exponent.
    """
    start = uniform_sphere(num_points, dim, generator=torch.Generator().manual_seed(seed))
    points, value = minimise(lambda free: riesz_energy(normalize(free, eps=0.0), exponent), start)
    return _solution(value, points, None, torch.arange(num_points))


def simplex_energy(num_points: int, exponent: float) -> float:
    """The Riesz energy of the regular simplex."""
    return float(riesz_energy(regular_simplex(num_points, num_points), exponent))


def least_risk(
    loss: str,
    labels: Tensor,
    dim: int,
    *,
    options: Mapping[str, Any],
    centroid: float = 0.0,
    seed: int = 0,
) -> Solution:
    """Minimise a loss of the library over free prototypes and features on the sphere.

    Args:
        loss: a name of `create_head`.
        labels: (N,), every class present; unequal counts are allowed.
        dim: d.
        options: of the loss.
        centroid: weight of |sum_j w_j|^2, which stands for the constraint of Theorem 3.5.
        seed: of the start.

    Returns:
        The end of L-BFGS; `value` is the risk without the centroid's term.
    """
    classes = int(labels.max()) + 1
    head = create_head(loss, dim=dim, num_classes=classes, engine="dense", **options).double()

    def risk(free: Tensor) -> Tensor:
        result = functional_call(head, {"weight": free[:classes]}, (free[classes:], labels))
        assert isinstance(result, Tensor)
        return result

    def objective(free: Tensor) -> Tensor:
        return risk(free) + centroid * normalize(free[:classes], eps=0.0).sum(0).square().sum()

    start = uniform_sphere(classes + len(labels), dim, generator=torch.Generator().manual_seed(seed))
    free, _ = minimise(objective, start, steps=2000)
    with torch.no_grad():
        return _solution(float(risk(free)), free[:classes], free[classes:], labels)


def largest_sample_margin(labels: Tensor, dim: int, *, seed: int = 0) -> Solution:
    """Maximise the smallest sample margin (Theorem 2.2) as the limit of a log-sum-exp (eq. 3.6's left side).

        -gamma_min = lim 1/s log sum_i sum_(j != y_i) e^(s (w_j - w_(y_i)).z_i)

    with s doubled from 8 to 4096. `value` is -gamma_min.
    """
    classes = int(labels.max()) + 1
    free = uniform_sphere(classes + len(labels), dim, generator=torch.Generator().manual_seed(seed))
    own = torch.nn.functional.one_hot(labels, classes).bool()
    for power in range(3, 13):
        scale = 2.0**power

        def objective(points: Tensor, s: float = scale) -> Tensor:
            unit = normalize(points, eps=0.0)
            scores = unit[classes:] @ unit[:classes].T
            gaps = (scores - scores[own][:, None]).masked_fill(own, -math.inf)
            return smooth_margin_bound(gaps.mul(s).logsumexp(1) / s, s)

        free, _ = minimise(objective, free, steps=300)
    found = _solution(0.0, free[:classes], free[classes:], labels)
    return Solution(**{**vars(found), "value": -found.sample_margin})


def descend_sample_margin(labels: Tensor, dim: int, *, steps: int = 1500, seed: int = 0) -> Solution:
    """Minimise R_sm itself (Theorem 3.4), which is not smooth: Adam with a falling learning rate."""
    classes = int(labels.max()) + 1
    head = create_head("sample_margin", dim=dim, num_classes=classes, engine="dense").double()
    generator = torch.Generator().manual_seed(seed)
    features = torch.nn.Parameter(uniform_sphere(len(labels), dim, generator=generator))
    with torch.no_grad():
        head.weight.copy_(uniform_sphere(classes, dim, generator=generator))
    optimizer = torch.optim.Adam([head.weight, features], lr=0.05)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (1 - step / steps) ** 2 + 1e-5)
    for _ in range(steps):
        optimizer.zero_grad()
        head(features, labels).backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        return _solution(float(head(features, labels)), head.weight.detach(), features.detach(), labels)


def gm_bound(
    num_classes: int, *, scale: float, alpha1: float = 1.0, beta1: float = 0.0, alpha2: float = 1.0, beta2: float = 0.0
) -> float:
    """The least risk of GM-Softmax for k <= d + 1 (Theorems 3.2, 3.5), with the sign of the proof (see errata).

    log[e^(s (alpha2 - alpha1 + beta2 - beta1)) + (k-1) e^(-s (1/(k-1) + alpha1 + beta1))]
    """
    first = scale * (alpha2 - alpha1 + beta2 - beta1)
    second = math.log(num_classes - 1) - scale * (1 / (num_classes - 1) + alpha1 + beta1)
    return max(first, second) + math.log1p(math.exp(-abs(first - second)))


def collapsed_softmax(num_classes: int, dim: int, angle: float, length: float) -> tuple[float, float]:
    """Softmax without normalisation at prototypes that are all `angle` apart (Theorem 3.1's construction).

    Args:
        num_classes: k <= d (equal acute angles need a dimension each).
        dim: d.
        angle: between any two prototypes, in radians, below pi/2.
        length: of prototypes and features.

    Returns:
        The loss, and the class margin in degrees.
    """
    if num_classes > dim:
        raise ValueError(
            f"num_classes={num_classes} must be at most dim={dim}: equal acute angles need a dimension each"
        )
    gram = torch.full((num_classes, num_classes), math.cos(angle), dtype=torch.float64).fill_diagonal_(1.0)
    prototypes = length * torch.linalg.cholesky(gram)
    loss = torch.nn.functional.cross_entropy(prototypes @ prototypes.T, torch.arange(num_classes))
    return float(loss), math.degrees(class_margin(prototypes).item())


def best_of(solve: Callable[[int], Solution], starts: int = STARTS) -> Solution:
    """The solution of least value over several seeds."""
    return min((solve(seed) for seed in range(starts)), key=lambda found: found.value)


def _solution(value: float, prototypes: Tensor, features: Tensor | None, labels: Tensor) -> Solution:
    weights = normalize(prototypes, eps=0.0)
    units = None if features is None else normalize(features, eps=0.0)
    return Solution(
        value=value,
        prototypes=weights,
        features=units,
        class_margin_degrees=math.degrees(class_margin(weights).item()),
        sample_margin=math.nan if units is None else float(sample_margins(units, weights, labels).min()),
    )


def packing_degrees(num_points: int, *, restarts: int = 12) -> float:
    """The smallest angle of our packing in 3-D, in degrees."""
    return math.degrees(class_margin(tammes(num_points, 3, restarts=restarts)).item())


def fejes_toth_bound(count: int) -> float:
    """No k >= 3 points in 3-D are all further apart than arccos((cot^2 w - 1)/2), w = pi k / (6 (k - 2))."""
    angle = math.pi * count / (6 * (count - 2))
    return math.degrees(math.acos((1 / math.tan(angle) ** 2 - 1) / 2))
