"""Plain loops that say what the protocols' estimates mean; float64 throughout."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]


def unit(vector: npt.NDArray[Any]) -> Vector:
    wide = np.asarray(vector, dtype=np.float64)
    return wide / np.sqrt((wide**2).sum())


def accepted_at(genuine: Sequence[float], impostors: Sequence[float], far: float) -> Fraction:
    """Share of genuine scores accepted by the lowest threshold that accepts at most `far` of the impostors."""
    ordered = sorted(impostors, reverse=True)
    allowed = 0
    while allowed < len(ordered) and (allowed + 1) / len(ordered) <= far:
        allowed += 1
    if allowed == len(ordered):
        return Fraction(1)
    return Fraction(sum(score > ordered[allowed] for score in genuine), len(genuine))


def best_threshold(scores: Sequence[float], same: Sequence[bool]) -> float:
    """Most right decisions; half-way to the next lower score; of equally good ones the middle, the upper of two."""
    cuts = [float("inf"), *sorted(set(scores), reverse=True)]
    right = [sum((s >= cut) == truth for s, truth in zip(scores, same, strict=True)) for cut in cuts]
    best = [place for place, count in enumerate(right) if count == max(right)]
    place = best[(len(best) - 1) // 2]
    if place == 0:
        return float(np.nextafter(cuts[1], np.inf))
    return cuts[place] if place == len(cuts) - 1 else (cuts[place] + cuts[place + 1]) / 2


def open_set(
    probes: Sequence[Vector], owners: Sequence[int], gallery: Sequence[Vector], enrolled: Sequence[int], far: float
) -> Fraction:
    """DIR at rank 1, i.e. TPIR, at a FAR, i.e. FPIR."""
    mates, strangers, total = [], [], 0
    for vector, owner in zip(probes, owners, strict=True):
        scores = [float(vector @ entry) for entry in gallery]
        best = max(range(len(scores)), key=lambda place: (scores[place], -place))
        if owner not in enrolled:
            strangers.append(scores[best])
            continue
        total += 1
        if enrolled[best] == owner:
            mates.append(scores[best])
    share = accepted_at(mates, strangers, far) if mates else Fraction(0)
    return share * len(mates) / total
