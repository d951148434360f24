"""Margins of a trained sphere: how far classes are from each other, and samples from the wrong classes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from hypersphere.core import Reporter
from hypersphere.geometry.sphere import angle_between, normalize

_BLOCK = 2048
_SMALL = 0.999
"""Above this cosine (2.6 degrees) even a float64 cosine loses digits of the angle, so pairs are compared by chord."""


@torch.no_grad()
def class_margin(prototypes: Tensor, *, block: int | None = None, progress: Reporter | None = None) -> Tensor:
    """The class margin: the smallest angle between two prototypes (largest-margins eq. 2.2).

        m_c(w_1, ..., w_k) = min_{i != j} angle(w_i, w_j) = arccos max_{i != j} w_i.w_j / (|w_i| |w_j|)

    Exact, whatever the lengths: every pair is scored in blocks; all pairs that could be the closest within the rounding
    of the scores are compared in float64, and the winner is measured by its chord. A measurement, without gradient.

    Args:
        prototypes: (num_classes, dim), at least two, none of them zero.
        block: prototypes per block; block x block scores are in memory at a time, never num_classes x num_classes.
        progress: called as `progress(done, total)` after each block.

    Returns:
        The angle in radians, a 0-d float64 tensor.

    Example:
        >>> class_margin(torch.tensor([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0]]))
        tensor(1.5708, dtype=torch.float64)
    """
    _check_prototypes(prototypes)
    if block is not None and block < 1:
        raise ValueError(f"block={block} must be at least 1 (or None to choose one)")
    first, second = _closest_pair(prototypes, block or _BLOCK, progress)
    return angle_between(_unit(prototypes[first]), _unit(prototypes[second]))


@torch.no_grad()
def sample_margins(embeddings: Tensor, prototypes: Tensor, labels: Tensor) -> Tensor:
    """The sample margin of every embedding, in cosines (largest-margins eq. 2.5 on the unit sphere).

        gamma(x, y) = cos(w_y, x) - max_{j != y} cos(w_j, x)

    Vectors are normalised as in NormFace eq. 3. A measurement, without gradient; the scores are made in blocks, so
    num_samples x num_classes of them are never in memory.

    Args:
        embeddings: (num_samples, dim).
        prototypes: (num_classes, dim), at least two, none of them zero.
        labels: (num_samples,) integers in [0, num_classes), or -1 for a sample of none of the classes.

    Returns:
        (num_samples,) margins in [-2, 2], float32 or wider; NaN where the label is -1.

    Example:
        >>> sample_margins(torch.tensor([[2.0, 0.0]]), torch.eye(2), torch.tensor([0]))
        tensor([1.])
    """
    _check_prototypes(prototypes)
    _check_samples(embeddings, prototypes, labels)
    dtype = torch.promote_types(torch.promote_types(embeddings.dtype, prototypes.dtype), torch.float32)
    margins = [
        _block_margins(normalize(rows.to(dtype)), prototypes, wanted)
        for rows, wanted in zip(torch.split(embeddings, _BLOCK), torch.split(labels, _BLOCK), strict=True)
    ]
    return torch.cat(margins).masked_fill(labels == -1, math.nan)


@dataclass(frozen=True, kw_only=True)
class SampleMargins:
    """Sample margins in three numbers.

    Args:
        mean: the average sample margin (m_samp in table 1 of largest-margins).
        minimum: the smallest, gamma_min (eq. 2.6).
        share_positive: the share of samples nearer to their own prototype than to any other, i.e. the accuracy.
    """

    mean: float
    minimum: float
    share_positive: float


def summarize_sample_margins(margins: Tensor) -> SampleMargins:
    """Sum up what `sample_margins` returned, leaving out the NaN of samples without a class.

    Args:
        margins: (num_samples,), at least one of them a number.

    Returns:
        Their mean, minimum and share above zero.

    Example:
        >>> summarize_sample_margins(torch.tensor([0.5, -0.5, 1.5, float("nan")])).mean
        0.5
    """
    known = margins[~margins.isnan()].double()
    if known.numel() == 0:
        raise ValueError("margins holds no number: at least one sample must have a label other than -1")
    return SampleMargins(
        mean=float(known.mean()),
        minimum=float(known.min()),
        share_positive=float((known > 0).double().mean()),
    )


def _closest_pair(prototypes: Tensor, block: int, progress: Reporter | None) -> tuple[int, int]:
    """The indices of the two prototypes with the smallest angle, by a scan over the upper triangle of blocks."""
    dtype = _scan_dtype(prototypes)
    slack = _slack(dtype, prototypes.shape[1])
    starts = range(0, len(prototypes), block)
    total = len(starts) * (len(starts) + 1) // 2
    done, best, chord, pair = 0, -2.0, math.inf, (0, 1)
    for top in starts:
        rows = _unit(prototypes[top : top + block])
        for left in range(top, len(prototypes), block):
            columns = rows if left == top else _unit(prototypes[left : left + block])
            scores = rows.to(dtype) @ columns.to(dtype).T
            if left == top:
                scores.fill_diagonal_(-math.inf)
            highest = float(scores.max())
            if highest >= best - slack:
                best = max(best, highest)
                i, j = _refine(rows, columns, scores >= best - slack)
                found = float((rows[i] - columns[j]).norm())
                if found < chord:
                    chord, pair = found, (top + i, left + j)
            done += 1
            if progress is not None:
                progress(done, total)
    return pair


def _refine(rows: Tensor, columns: Tensor, near: Tensor) -> tuple[int, int]:
    """Of the pairs marked in `near`, the one with the smallest angle: by float64 cosines, by chords if it is small."""
    i, j = near.any(1).nonzero()[:, 0], near.any(0).nonzero()[:, 0]
    a, b = rows[i], columns[j]
    scores = (a @ b.T).masked_fill_(~near[i][:, j], -math.inf)
    highest = float(scores.max())
    if highest > _SMALL:
        close = scores >= highest - _slack(torch.float64, rows.shape[1])
        p, q = close.any(1).nonzero()[:, 0], close.any(0).nonzero()[:, 0]
        i, j, close = i[p], j[q], close[p][:, q]
        chords = torch.cdist(rows[i], columns[j], compute_mode="donot_use_mm_for_euclid_dist")
        scores = (-chords).masked_fill_(~close, -math.inf)
    row, column = divmod(int(scores.argmax()), scores.shape[1])
    return int(i[row]), int(j[column])


def _scan_dtype(prototypes: Tensor) -> torch.dtype:
    """float32 is enough to find the candidates, unless the user lets float32 products be rounded further (TF32)."""
    exact = torch.get_float32_matmul_precision() == "highest"
    narrow = prototypes.dtype in (torch.float16, torch.bfloat16, torch.float32)
    return torch.float32 if narrow and exact else torch.float64


def _slack(dtype: torch.dtype, dim: int) -> float:
    """How far the computed cosines of two pairs can be off against each other: twice the error of a dot product."""
    return (dim + 8) * torch.finfo(dtype).eps


def _unit(x: Tensor) -> Tensor:
    """x / |x| in float64 without any epsilon, so that vectors of every length count alike."""
    wide = x.double()
    return normalize(wide / wide.abs().amax(-1, keepdim=True), eps=0.0)


def _block_margins(embeddings: Tensor, prototypes: Tensor, labels: Tensor) -> Tensor:
    """The margins of one block of normalised embeddings; rows labelled -1 get some number."""
    labels = labels.long().clamp(min=0)
    target = (embeddings * normalize(prototypes[labels].to(embeddings.dtype))).sum(-1)
    others = torch.full_like(target, -math.inf)
    for start in range(0, len(prototypes), _BLOCK):
        classes = normalize(prototypes[start : start + _BLOCK].to(embeddings.dtype))
        scores = embeddings @ classes.T
        own = ((labels >= start) & (labels < start + len(classes))).nonzero()[:, 0]
        scores[own, labels[own] - start] = -math.inf
        others = torch.maximum(others, scores.amax(-1))
    return target - others


def _check_prototypes(prototypes: Tensor) -> None:
    _check_finite("prototypes", prototypes)
    if len(prototypes) < 2:
        raise ValueError(f"prototypes has {len(prototypes)} row(s); a margin needs at least 2")
    zero = (prototypes == 0).all(-1)
    if bool(zero.any()):
        raise ValueError(f"prototypes row {int(zero.nonzero()[0])} is the zero vector, which has no direction")


def _check_samples(embeddings: Tensor, prototypes: Tensor, labels: Tensor) -> None:
    _check_finite("embeddings", embeddings)
    classes, dim = prototypes.shape
    if embeddings.shape[1] != dim:
        raise ValueError(f"embeddings have dimension {embeddings.shape[1]}, prototypes {dim}; they must agree")
    if labels.shape != (len(embeddings),):
        raise ValueError(f"labels has shape {tuple(labels.shape)}; {len(embeddings)} embeddings need {len(embeddings)}")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise ValueError(f"labels has dtype {labels.dtype}; it must hold integers")
    wrong = (labels < -1) | (labels >= classes)
    if bool(wrong.any()):
        label = int(labels[wrong][0])
        raise ValueError(f"labels holds {label}; with {classes} classes it must be in [0, {classes}), or -1 for none")


def _check_finite(name: str, x: Tensor) -> None:
    if x.ndim != 2 or x.shape[1] == 0:
        raise ValueError(f"{name} has shape {tuple(x.shape)}; it must be (rows, dim) with dim at least 1")
    finite = torch.isfinite(x).all(-1)
    if not bool(finite.all()):
        raise ValueError(f"{name} row {int((~finite).nonzero()[0])} is not finite")
