"""How far features and prototypes have collapsed (neural collapse; Papyan, Han and Donoho 2020)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class NeuralCollapse:
    """The four properties, all zero at full collapse.

    Args:
        within: NC1, trace(S_W pinv(S_B)) / k: the spread inside classes against that between them.
        unequal_norms: NC2, deviation over mean of the lengths of the centred class means.
        unequal_angles: NC2, standard deviation of the cosines between them.
        off_simplex: NC2, mean |cosine + 1/(k-1)|.
        off_dual: NC3, |W/|W| - M/|M|| of the prototypes W and the centred class means M, each of Frobenius norm 1.
        disagreement: NC4, share of features whose best prototype is not that of the nearest class mean.
    """

    within: float
    unequal_norms: float
    unequal_angles: float
    off_simplex: float
    off_dual: float
    disagreement: float


@torch.no_grad()
def neural_collapse(features: Tensor, labels: Tensor, prototypes: Tensor) -> NeuralCollapse:
    """Measure neural collapse; the solutions of Theorem 3.2 in Largest Margins have all of it.

    Class means M are centred by their own mean. Prototypes are taken as they are, without a bias.

    Args:
        features: (N, d).
        labels: (N,) integers in [0, k), every class present.
        prototypes: (k, d), k >= 2.

    Example:
        >>> from hypersphere.geometry import regular_simplex
        >>> simplex = regular_simplex(4, 3)
        >>> neural_collapse(simplex, torch.arange(4), simplex).off_simplex < 1e-12
        True
    """
    classes = len(prototypes)
    x, w = features.double(), prototypes.double()
    if classes < 2 or x.ndim != 2 or w.ndim != 2 or x.shape[1] != w.shape[1]:
        raise ValueError(
            f"features {tuple(features.shape)} and prototypes {tuple(prototypes.shape)} must be (N, d) and (k, d), "
            "k at least 2"
        )
    if labels.shape != (len(x),):
        raise ValueError(f"labels has shape {tuple(labels.shape)}; {len(x)} features need ({len(x)},)")
    counts = torch.bincount(labels.clamp(min=0), minlength=classes)
    if len(counts) > classes or bool((labels < 0).any()) or bool((counts == 0).any()):
        raise ValueError(f"labels must hold every class of [0, {classes}) and no other")
    means = torch.zeros_like(w).index_add_(0, labels, x) / counts[:, None]
    centred = means - means.mean(0)
    inside = x - means[labels]
    within = inside.T @ inside / len(x)
    between = centred.T @ centred / classes
    lengths = centred.norm(dim=1)
    if bool((lengths == 0).all()):
        raise ValueError("features have the same mean in every class; nothing tells them apart")
    units = centred / lengths[:, None].clamp(min=torch.finfo(torch.float64).tiny)
    cosines = (units @ units.T)[~torch.eye(classes, dtype=torch.bool, device=units.device)]
    nearest = torch.cdist(x, means).argmin(1)
    return NeuralCollapse(
        within=float(torch.trace(within @ torch.linalg.pinv(between))) / classes,
        unequal_norms=float(lengths.std(correction=0) / lengths.mean()),
        unequal_angles=float(cosines.std(correction=0)),
        off_simplex=float((cosines + 1 / (classes - 1)).abs().mean()),
        off_dual=float((w / math.sqrt(float(w.square().sum())) - centred / float(centred.norm())).norm()),
        disagreement=float(((x @ w.T).argmax(1) != nearest).double().mean()),
    )
