"""Learning rates over a run, as pure functions of the step: nothing to save, nothing to restore."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass

from hypersphere.core import check_choice, check_range


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The factor on the learning rate.

    Args:
        name: `step` (times `gamma` at each milestone), `cosine` or `linear` (down to `floor`), or `constant`.
        milestones: of `step`, in `unit`s.
        gamma: of `step`.
        unit: of milestones and warm-up: `iteration` or `epoch`.
        warmup: the factor grows linearly to 1 over so many units.
        warmup_start: from this factor.
        floor: where `cosine` and `linear` end, as a factor.
    """

    name: str = "constant"
    milestones: tuple[float, ...] = ()
    gamma: float = 0.1
    unit: str = "iteration"
    warmup: float = 0.0
    warmup_start: float = 0.0
    floor: float = 0.0

    def __post_init__(self) -> None:
        check_choice("name", self.name, ("constant", "step", "cosine", "linear"))
        check_choice("unit", self.unit, ("iteration", "epoch"))
        check_range("gamma", self.gamma, 0)
        check_range("warmup", self.warmup, 0)
        check_range("warmup_start", self.warmup_start, 0, 1)
        check_range("floor", self.floor, 0, 1)
        if list(self.milestones) != sorted(self.milestones):
            raise ValueError(f"milestones={list(self.milestones)} must grow")
        if (self.name == "step") != bool(self.milestones):
            raise ValueError(f"milestones belong to name='step', and it needs them; name={self.name!r}")

    def factor(self, step: int, total: int, steps_per_epoch: int) -> float:
        """Return the factor at a step (counted from 0) of `total`."""
        unit = steps_per_epoch if self.unit == "epoch" else 1
        warm = self.warmup * unit
        if step < warm:
            return self.warmup_start + (1 - self.warmup_start) * (step + 1) / (warm + 1)
        if self.name == "step":
            return float(self.gamma ** bisect.bisect_right([at * unit for at in self.milestones], step))
        done = (step - warm) / max(1.0, total - warm)
        if self.name == "cosine":
            return self.floor + (1 - self.floor) * (1 + math.cos(math.pi * done)) / 2
        return self.floor + (1 - self.floor) * (1 - done) if self.name == "linear" else 1.0
