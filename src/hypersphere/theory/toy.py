"""The toy problem of Learning Towards the Largest Margins (Fig. 3, App. C.1): all vectors free on a sphere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from hypersphere.core import Reporter, check_integer
from hypersphere.geometry import angle_between, class_margin, normalize, sample_margins
from hypersphere.heads import create_head

OPTIMUM_DEGREES = 74.8585
"""The class margin of the best packing of 8 points in 3-D; the paper prints 74.86."""

TOY_STEPS = 13_000
"""Optimisation steps per loss, by default."""
CONVERGED_DEGREES = 0.1
"""Prototypes that turn by less than this over the second half of the steps have converged."""


@dataclass(frozen=True, eq=False)
class ToyLoss:
    """One panel of Fig. 3: a loss, its options, and the class margin the paper prints, in degrees."""

    title: str
    name: str
    options: Mapping[str, Any]
    paper_degrees: float


_SCALE = 30.0

TOY_LOSSES: tuple[ToyLoss, ...] = (
    ToyLoss("NormFace", "normface", {"scale": _SCALE, "learnable_scale": False}, 68.50),
    ToyLoss("CosFace", "cosface", {"scale": _SCALE, "margin": 0.1}, 71.86),
    ToyLoss("ArcFace", "arcface", {"scale": _SCALE, "margin": 0.1}, 67.74),
    ToyLoss("LM-Softmax", "lm_softmax", {"scale": _SCALE}, 74.46),
)
"""Margins are those of the paper's other experiments (App. C.2). It does not print s: 30 is the scale at which the
minimum of LM-Softmax has the class margin that it does print."""


@dataclass(frozen=True)
class ToySolution:
    """Where the optimisation ended.

    Args:
        prototypes: (k, 3) unit vectors.
        features: (N, 3) unit vectors.
        labels: (N,).
        class_margin_degrees: the smallest angle between two prototypes (eq. 2.2).
        sample_margin: the smallest sample margin (eq. 2.5).
        late_turn_degrees: the largest angle that a prototype turned by over the second half of the steps.
        late_change_degrees: how much the class margin changed over them, which prototypes that turn as one leave alone.
    """

    prototypes: Tensor = field(repr=False)
    features: Tensor = field(repr=False)
    labels: Tensor = field(repr=False)
    class_margin_degrees: float
    sample_margin: float
    late_turn_degrees: float
    late_change_degrees: float

    @property
    def converged(self) -> bool:
        """Whether no prototype turned by 0.1 degrees or more over the second half of the steps."""
        return self.late_turn_degrees < CONVERGED_DEGREES


def solve_toy(
    loss: ToyLoss,
    *,
    num_classes: int = 8,
    dim: int = 3,
    samples_per_class: int = 10,
    steps: int = TOY_STEPS,
    learning_rate: float = 1.0,
    seed: int = 0,
    progress: Reporter | None = None,
) -> ToySolution:
    """Minimise a loss over random prototypes and features, both free.

    SGD with momentum 0.9, weight decay 1e-4 and cosine annealing as in App. C.1; one cycle at a large learning rate
    stands for the paper's 500,000 steps in cycles of 10,000, whose learning rate it does not print. LM-Softmax is at
    its minimum after 1,000 steps; the others are still on their way, and how far depends on when one stops.

    Example:
        >>> round(solve_toy(TOY_LOSSES[3], steps=1000).class_margin_degrees, 2)
        74.47
    """
    generator = torch.Generator().manual_seed(check_integer("seed", seed, 0))
    head = create_head(loss.name, dim=dim, num_classes=num_classes, engine="dense", **loss.options)
    nn.init.normal_(head.weight, generator=generator)
    labels = torch.arange(num_classes).repeat_interleave(samples_per_class)
    features = nn.Parameter(torch.randn(len(labels), dim, generator=generator))
    optimizer = torch.optim.SGD([head.weight, features], lr=learning_rate, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    halfway = head.weight.detach().clone()
    for step in range(steps):
        if step == steps // 2:
            halfway = head.weight.detach().clone()
        optimizer.zero_grad()
        head(features, labels).backward()
        optimizer.step()
        schedule.step()
        if progress is not None:
            progress(step + 1, steps)
    weight, unit = head.weight.detach(), normalize(features.detach())
    margin, before = (math.degrees(class_margin(each).item()) for each in (weight, halfway))
    return ToySolution(
        prototypes=normalize(weight),
        features=unit,
        labels=labels,
        class_margin_degrees=margin,
        sample_margin=sample_margins(unit, weight, labels).min().item(),
        late_turn_degrees=math.degrees(angle_between(halfway, weight).max().item()),
        late_change_degrees=abs(margin - before),
    )
