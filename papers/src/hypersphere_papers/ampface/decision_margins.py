"""Decision margins: where a sample counts as a class, and where as none (AmpFace Figs. 15-18)."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from hypersphere.core import check_integer
from hypersphere.theory import ExpectedSoftmax

NOBODY = -1


def decide(cosines: Tensor, setting: ExpectedSoftmax) -> Tensor:
    """The class whose logit with its margin beats all others' without, or -1 in the margin (AmpFace App. D).

        class i  where  m0 cos(m1 theta_i + m2) - m3 > max_(j != i) cos theta_j

    A large m1 makes regions that hold for two classes at once: the nearest prototype wins.

    Args:
        cosines: (..., k) with the k >= 2 prototypes.
        setting: its margins; C, d and s do not matter.

    Returns:
        (...,) class indices.
    """
    if cosines.ndim < 1 or cosines.shape[-1] < 2:
        raise ValueError(f"cosines has shape {tuple(cosines.shape)}; the last dimension must hold 2 classes or more")
    scores = cosines.double().clamp(-1, 1)
    with_margin = torch.from_numpy(setting.logit(scores.arccos().numpy()) / setting.scale)
    top = scores.topk(2, dim=-1)
    rivals = torch.where(scores == top.values[..., :1], top.values[..., 1:], top.values[..., :1])
    accepted = with_margin > rivals
    nearest = torch.where(accepted, scores, -math.inf).argmax(-1)
    return torch.where(accepted.any(-1), nearest, NOBODY)


def cap_boundary(
    prototypes: Tensor, setting: ExpectedSoftmax, *, directions: int = 360, steps: int = 2000
) -> np.ndarray:
    """How far the first prototype's region reaches along great circles around it (AmpFace Fig. 18), in radians.

    Args:
        prototypes: (k, 3) unit vectors, the first (0, 0, 1).
        setting: its margins.
        directions: how many azimuths.
        steps: of the polar angle in [0, pi/2].

    Returns:
        (directions,) the smallest polar angle outside the region.
    """
    check_integer("directions", directions, 1)
    polar = torch.linspace(0, math.pi / 2, steps, dtype=torch.float64)
    around = torch.arange(directions, dtype=torch.float64) * (2 * math.pi / directions)
    sine = polar.sin()[None]
    points = torch.stack(
        [sine * around.cos()[:, None], sine * around.sin()[:, None], polar.cos().expand(directions, -1)], dim=-1
    )
    inside = decide(points @ prototypes.double().T, setting) == 0
    outside = torch.cat([~inside, torch.ones(directions, 1, dtype=torch.bool)], dim=1).double().argmax(1)
    return np.asarray(torch.cat([polar, polar[-1:]])[outside].numpy())


def equatorial_prototypes(count: int, nearest: float, *, seed: int = 0) -> Tensor:
    """The pole (0, 0, 1) and `count` uniform prototypes at least `nearest` from it and from its opposite (Fig. 18).

    Args:
        count: how many around the equator; the paper has 200.
        nearest: in radians, at most pi/2.
        seed: of the draw.
    """
    generator = torch.Generator().manual_seed(seed)
    reach = math.cos(nearest)
    height = (2 * torch.rand(count, generator=generator, dtype=torch.float64) - 1) * reach
    around = 2 * math.pi * torch.rand(count, generator=generator, dtype=torch.float64)
    ring = (1 - height**2).sqrt()
    points = torch.stack([ring * around.cos(), ring * around.sin(), height], dim=1)
    return torch.cat([torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64), points])
