"""Damage done on purpose, and exactly: imbalance, label noise, labels taken away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hypersphere.core import check_range

Integers = npt.NDArray[np.int64]
IntegersLike = Sequence[int] | npt.NDArray[np.integer[Any]]


def long_tailed_counts(num_classes: int, largest: int, ratio: float) -> Integers:
    """Images per class, falling exponentially: n_i = largest ratio^(-i / (C - 1)), rounded down, at least 1.

    Args:
        num_classes: C, at least 2.
        largest: images of the first class.
        ratio: rho, the first class's images over the last one's.

    References:
        Cui et al., Class-Balanced Loss, CVPR 2019, sec. 5.1; Cao et al., LDAM, NeurIPS 2019, sec. 4.1.

    Example:
        >>> long_tailed_counts(5, 100, 100)
        array([100,  31,  10,   3,   1])
    """
    _check_profile(num_classes, largest, ratio)
    return _whole(largest * float(ratio) ** -(np.arange(num_classes) / (num_classes - 1)))


def step_counts(num_classes: int, largest: int, ratio: float, minority: float = 0.5) -> Integers:
    """Images per class in one step: `largest` for the first classes, largest / ratio (rounded down) for the others.

    Args:
        num_classes: C, at least 2.
        largest: images of a majority class.
        ratio: rho.
        minority: mu, the share of classes with few images.

    References:
        Buda et al., A systematic study of the class imbalance problem, 2018; Cao et al., LDAM, sec. 4.1.

    Example:
        >>> step_counts(4, 100, 10)
        array([100, 100,  10,  10])
    """
    _check_profile(num_classes, largest, ratio)
    few = _nearest(check_range("minority", minority, 0, 1) * num_classes)
    counts = np.full(num_classes, float(largest))
    counts[num_classes - few :] /= float(ratio)
    return _whole(counts)


def imbalance(labels: IntegersLike, counts: IntegersLike, seed: int) -> Integers:
    """The images to keep so that class c has `counts[c]`, chosen at random; those without a class (-1) stay.

    Args:
        labels: (N,) in [0, len(counts)), or -1.
        counts: images per class; a class that has fewer is a ValueError.
        seed: of the choice.

    Returns:
        indices, ascending.

    Example:
        >>> kept = Subset(source, imbalance(source.labels, long_tailed_counts(source.num_classes, 4, 4), seed=0))
    """
    wanted = np.asarray(counts, dtype=np.int64)
    classes = check_labels(labels, len(wanted))
    if (wanted < 0).any():
        raise ValueError(f"counts[{int(wanted.argmin())}]={int(wanted.min())} must not be negative")
    rng = np.random.default_rng(seed)
    kept = [np.flatnonzero(classes < 0)]
    for label, (members, count) in enumerate(zip(_members(classes, len(wanted)), wanted, strict=True)):
        if len(members) < count:
            raise ValueError(f"class {label} has {len(members)} images, but counts[{label}]={count} are to be kept")
        kept.append(rng.permutation(members)[:count])
    return np.sort(np.concatenate(kept))


def noisy_labels(labels: IntegersLike, share: float, num_classes: int, seed: int) -> Integers:
    """Labels of which a share is wrong: of every class the same share (rounded), at random.

    A wrong label is one of the other classes, each equally likely. Images without a class (-1) stay so.

    Args:
        labels: (N,) in [0, num_classes), or -1.
        share: of the labels of each class, in [0, 1].
        num_classes: at least 2.
        seed: of the choice.

    References:
        SphereFace2, sec. 3.3: shares of 0.2 to 0.8.

    Example:
        >>> int((noisy_labels([0] * 10, 0.2, num_classes=2, seed=0) == 1).sum())
        2
    """
    check_range("share", share, 0, 1)
    if num_classes < 2:
        raise ValueError(f"num_classes={num_classes} must be at least 2: a wrong label is another class")
    noisy = check_labels(labels, num_classes).copy()
    rng = np.random.default_rng(seed)
    for label, members in enumerate(_members(noisy, num_classes)):
        wrong = rng.permutation(members)[: _nearest(share * len(members))]
        others = rng.integers(0, num_classes - 1, len(wrong))
        noisy[wrong] = others + (others >= label)
    return noisy


def unlabelled(labels: IntegersLike, indices: IntegersLike) -> Integers:
    """The labels with those at `indices` taken away: -1, none of the classes.

    Example:
        >>> unlabelled([4, 5, 6], [1])
        array([ 4, -1,  6])
    """
    left = np.array(labels, dtype=np.int64)
    chosen = np.asarray(indices, dtype=np.int64)
    outside = chosen[(chosen < 0) | (chosen >= len(left))]
    if len(outside):
        raise ValueError(f"index {outside[0]} is not in [0, {len(left)})")
    left[chosen] = -1
    return left


def check_labels(labels: IntegersLike, num_classes: int | None = None) -> Integers:
    """Labels as (N,) int64, each -1 or a class."""
    array = np.asarray(labels)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"labels are {array.dtype} {array.shape}; expected integers in one dimension")
    end = np.inf if num_classes is None else num_classes
    outside = array[(array < -1) | (array >= end)]
    if len(outside):
        wanted = "at least 0" if num_classes is None else f"in [0, {num_classes})"
        raise ValueError(f"label {outside[0]} must be {wanted}, or -1 for none")
    return array.astype(np.int64)


def _members(labels: Integers, num_classes: int) -> list[Integers]:
    """The images of each class, ascending."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.searchsorted(labels[order], np.arange(num_classes + 1)))[1:-1]


def _check_profile(num_classes: int, largest: int, ratio: float) -> None:
    check_range("num_classes", num_classes, 2)
    check_range("largest", largest, 1)
    check_range("ratio", ratio, 1)


def _nearest(number: float) -> int:
    return int(np.floor(number + 0.5))


def _whole(counts: npt.NDArray[np.float64]) -> Integers:
    """Rounded down, save for rounding errors of the power: 49.999999999 are 50 images."""
    return np.maximum(np.floor(counts + 1e-6), 1).astype(np.int64)
