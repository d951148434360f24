"""NormFace: Propositions 1-3 as checks."""

from __future__ import annotations

import math

import torch

from hypersphere.core import check_integer
from hypersphere.geometry import normalize, uniform_sphere
from hypersphere_papers.engine.minimise import minimise


def best_probability(num_classes: int, scale: float) -> float:
    """p_y where the target's cosine is 1 and all others' -1: e^s / (e^s + (n-1) e^-s) (sec. 3.3), not reachable."""
    return 1 / (1 + math.exp(math.log(check_integer("num_classes", num_classes, 2) - 1) - 2 * scale))


def check_scaling(trials: int = 2000, *, seed: int = 0) -> tuple[float, float]:
    """Prop. 1: P_i(s f) >= P_i(f) for s > 1 and i = argmax, without bias; and where a bias breaks it.

    Args:
        trials: random features and prototypes.
        seed: of them.

    Returns:
        The smallest P_i(s f) - P_i(f) seen without a bias (not negative), and with one (negative: it fails).
    """
    g = torch.Generator().manual_seed(seed)
    weight = torch.randn(trials, 6, 3, generator=g, dtype=torch.float64)
    feature = torch.randn(trials, 3, 1, generator=g, dtype=torch.float64)
    bias = torch.randn(trials, 6, generator=g, dtype=torch.float64)
    scale = 1 + 3 * torch.rand(trials, 1, generator=g, dtype=torch.float64)
    logits = (weight @ feature)[..., 0]

    def least_gain(before: torch.Tensor, after: torch.Tensor) -> float:
        winner = before.argmax(1, keepdim=True)
        gain = after.softmax(1).gather(1, winner) - before.softmax(1).gather(1, winner)
        return float(gain.min())

    return least_gain(logits, scale * logits), least_gain(logits + bias, scale * logits + bias)


def least_loss(num_classes: int, dim: int, scale: float, *, seed: int = 0) -> float:
    """The softmax loss of prototypes that are their own features, minimised from a random start (Prop. 2's setting).

    Args:
        num_classes: n.
        dim: d; for n <= d + 1 the result is `softmax_bound`.
        scale: s.
        seed: of the start.
    """
    start = uniform_sphere(num_classes, dim, generator=torch.Generator().manual_seed(seed))
    labels = torch.arange(num_classes)

    def loss(points: torch.Tensor) -> torch.Tensor:
        unit = normalize(points, eps=0.0)
        return torch.nn.functional.cross_entropy(scale * unit @ unit.T, labels)

    return minimise(loss, start)[1]


def check_agents(trials: int = 500, *, seed: int = 0) -> tuple[float, float]:
    """Prop. 3: an agent's distortion mean_j (d(f0, f_j) - d(f0, W))^2 is at most mean_j d(f_j, W)^2, d a distance.

    Args:
        trials: random classes of ten features, an agent near them and a feature f0 each.
        seed: of them.

    Returns:
        The largest distortion / bound seen, and the mean bound.
    """
    g = torch.Generator().manual_seed(seed)
    centre = torch.randn(trials, 1, 8, generator=g, dtype=torch.float64)
    features = normalize(centre + torch.randn(trials, 10, 8, generator=g, dtype=torch.float64))
    agent = normalize(features.mean(1, keepdim=True))
    other = normalize(torch.randn(trials, 1, 8, generator=g, dtype=torch.float64))
    to_other, to_agent = (features - other).norm(dim=2), (features - agent).norm(dim=2)
    distortion = (to_other - (agent - other).norm(dim=2)).square().mean(1)
    bound = to_agent.square().mean(1)
    return float((distortion / bound).max()), float(bound.mean())
