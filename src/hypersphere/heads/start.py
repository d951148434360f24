"""Where prototypes start: fixed points of the sphere, or rows drawn at random."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from hypersphere.core import check_choice, check_positive
from hypersphere.geometry import regular_simplex, tammes
from hypersphere.heads.validate import REALS, check_dense
from hypersphere.losses import Objective

_STD = 0.01


def draw_rows_(rows: Tensor, norm: float | None, normalized: bool) -> Tensor:
    """Draw learned prototypes, in place.

    Args:
        rows: (C, d) to be filled.
        norm: of every row, which is then uniform on the sphere of that radius.
        normalized: without a norm, whether the loss sees the rows' directions alone: they are normal with standard
            deviation 0.01 (InsightFace); otherwise their lengths matter, and they start as those of `torch.nn.Linear`.
    """
    if norm is not None:
        return scale_rows_(nn.init.normal_(rows), norm)
    if normalized:
        return nn.init.normal_(rows, std=_STD)
    return nn.init.kaiming_uniform_(rows, a=math.sqrt(5))


@torch.no_grad()
def scale_rows_(rows: Tensor, norm: float) -> Tensor:
    """Scale every row to a norm, in place; a row that has it up to rounding, or is zero, keeps its bits."""
    wide = torch.promote_types(rows.dtype, torch.float32)
    length = torch.linalg.vector_norm(rows, dim=1, keepdim=True, dtype=wide)
    right = (length - norm).abs() <= 8 * torch.finfo(wide).eps * norm
    return rows.mul_(torch.where(right | (length == 0), 1.0, norm / length))


def check_norm(norm: float | None, renormalize: bool, learned: bool, objectives: Iterable[Objective]) -> float | None:
    """The norm of learned prototypes, where it and `renormalize` make sense."""
    if not learned and (renormalize or norm is not None):
        given = "renormalize=True" if norm is None else f"prototype_norm={norm!r}"
        raise ValueError(f"{given} is about learned prototypes: fixed ones keep the norms they have")
    if norm is None:
        if renormalize:
            raise ValueError("renormalize=True needs the norm to come back to: give prototype_norm, for example 1.0")
        return None
    for each in objectives if renormalize else ():
        if not each.normalizes_prototypes:
            raise ValueError(f"renormalize=True: {each.name} learns the lengths of its prototypes; leave it out")
    return check_positive("prototype_norm", norm)


def fixed_prototypes(prototypes: str | Tensor, num_classes: int, dim: int) -> Tensor | None:
    """The prototypes that are not learned, by name or as given; None for learned ones."""
    if isinstance(prototypes, Tensor):
        check_dense("prototypes", prototypes)
        if prototypes.shape != (num_classes, dim):
            shape = tuple(prototypes.shape)
            raise ValueError(f"prototypes have shape {shape}; num_classes and dim ask for {(num_classes, dim)}")
        if prototypes.dtype not in REALS or not bool(prototypes.isfinite().all()):
            raise ValueError("prototypes must be a floating tensor without NaN or infinity")
        return prototypes.detach().clone()
    if not isinstance(prototypes, str):
        raise ValueError(f"prototypes must be a tensor or a name, not {type(prototypes).__name__}")
    check_choice("prototypes", prototypes, ("learned", "simplex", "tammes"))
    if prototypes == "learned":
        return None
    points = regular_simplex(num_classes, dim) if prototypes == "simplex" else tammes(num_classes, dim)
    return points.to(torch.get_default_dtype())
