"""What this field looks at while training, and when to stop: angles, margins, NormFace's distortion bound, collapse."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from hypersphere.core import Failure
from hypersphere.geometry import class_margin, normalize
from hypersphere.heads import Head
from hypersphere.losses import Objective
from hypersphere.losses.angular import AnnealedLoss
from hypersphere.losses.margin_softmax import AmpFace
from hypersphere.losses.target_margins import angular_margin, psi

_SAMPLED_PROTOTYPES = 2048
_COLLAPSED_COSINE = 0.3
_COLLAPSED_ANGLE = 105.0
_FLAT_LOSS = 0.99
_LATE = 0.25
_MOMENTUM = 0.9


class TrainingStopped(Failure):
    """Training cannot go on; the message says why."""


class Monitor:
    """Log values of a run, from single batches, and the causes to stop it.

    Args:
        num_classes: chance is 1 / num_classes.
        patience: how many looks in a row at chance level, after better ones, count as divergence; and how many in a row
            at collapsed prototypes, in the last three quarters of a run and with a loss that falls by less than 1 %,
            count as polar collapse. Healthy runs pass through such states: SphereFace2 with the paper's own
            lambda = 0.7, r = 40, m = 0.4, t = 3 does on its way to a good solution. A run that ends in collapse has
            a `warning`.
    """

    def __init__(self, num_classes: int, patience: int = 5) -> None:
        self.chance = 1 / num_classes
        self.patience = patience
        self.state: dict[str, float] = {
            "distortion": math.nan,
            "best_accuracy": 0.0,
            "at_chance": 0.0,
            "collapsed": 0.0,
            "collapsed_loss": math.inf,
            "mean_cosine": math.nan,
            "angle": math.nan,
            "accuracy": math.nan,
        }

    @torch.no_grad()
    def look(self, head: Head, embeddings: Tensor, labels: Tensor, loss: float, done: float) -> dict[str, float]:
        """Return the log values of a batch; where the classes of the head are sharded, all processes ask for them.

        Args:
            head, embeddings, labels, loss: of the batch.
            done: share of the run that is over.

        Returns:
            `norm`: mean length of the embeddings; `angle`: mean angle to the target's prototype, in degrees;
            `accuracy`: share of samples nearer to their own prototype than to any other; `satisfied`: share that are so
            with the loss's margin on; `class_margin`: smallest angle between up to 2,048 prototypes, in degrees;
            `distortion`: moving average of ||f~ - W~_y||^2, NormFace's Prop. 3; `annealed_margin` for an annealed loss.
        """
        stop_unless_finite(loss)
        known = labels >= 0
        own, others = head.nearest(embeddings[known], labels[known])
        prototypes = head.prototypes(_SAMPLED_PROTOTYPES).float()
        values = {
            "norm": _mean(embeddings.float().norm(dim=1)),
            "angle": _mean(own.clamp(-1, 1).arccos().rad2deg()),
            "accuracy": _mean((own > others).float()),
            "satisfied": _mean((head.objective.with_margin(own) > others).float()),
            "class_margin": math.degrees(class_margin(prototypes).item()),
        }
        distortion, before = _mean(2 - 2 * own), self.state["distortion"]
        if len(own):
            moved = distortion if math.isnan(before) else _MOMENTUM * before + (1 - _MOMENTUM) * distortion
            self.state["distortion"] = moved
        values["distortion"] = self.state["distortion"]
        if isinstance(head.objective, AnnealedLoss):
            annealing = float(head.objective.annealing())
            values["annealed_margin"] = effective_margin(head.objective.margin, annealing)
        self.state["mean_cosine"] = float((normalize(prototypes).mean(0) ** 2).sum())
        self.state |= {name: values[name] for name in ("angle", "accuracy")}
        self._stop_on_collapse(head.objective, loss, done)
        self._stop_at_chance(values, len(own))
        return {name: value for name, value in values.items() if math.isfinite(value)}

    def warning(self, objective: Objective) -> str:
        """Return what is wrong with a run that ends as the last look saw it; nothing where it has not collapsed.

        A collapse whose loss keeps falling stops no run: it may be on its way to a good solution until its end.
        """
        if not self._is_collapsed():
            return ""
        return (
            f"the run ended in polar collapse: {self._collapse()}; {self.state['accuracy']:.1%} of the last batch are"
            f" nearest to their own prototype; {_advice(objective)}, or train for longer if the loss was still falling"
        )

    def _is_collapsed(self) -> bool:
        return self.state["mean_cosine"] > _COLLAPSED_COSINE and self.state["angle"] > _COLLAPSED_ANGLE

    def _collapse(self) -> str:
        return (
            f"the prototypes point one way (mean cosine {self.state['mean_cosine']:.3f}) and the samples the other"
            f" (mean angle {self.state['angle']:.1f} degrees)"
        )

    def _stop_on_collapse(self, objective: Objective, loss: float, done: float) -> None:
        if not self._is_collapsed():
            self.state["collapsed"] = 0.0
            return
        if self.state["collapsed"] == 0 or loss < _FLAT_LOSS * self.state["collapsed_loss"]:
            self.state["collapsed"], self.state["collapsed_loss"] = 0.0, loss
        self.state["collapsed"] += 1
        if self.state["collapsed"] >= self.patience and done >= _LATE:
            raise TrainingStopped(
                f"polar collapse: {self._collapse()}, and the loss does not fall; {_advice(objective)}"
            )

    def _stop_at_chance(self, values: Mapping[str, float], count: int) -> None:
        accuracy = values["accuracy"]
        if count == 0:
            return
        fallen = self.state["best_accuracy"] > max(0.2, 4 * self.chance) and accuracy <= 2 * self.chance
        self.state["at_chance"] = self.state["at_chance"] + 1 if fallen else 0.0
        self.state["best_accuracy"] = max(self.state["best_accuracy"], accuracy)
        if self.state["at_chance"] >= self.patience:
            raise TrainingStopped(
                f"diverged to chance: {accuracy:.1%} of samples nearest to their own prototype, after"
                f" {self.state['best_accuracy']:.1%}; lower the learning rate or the margin"
            )

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed run needs."""
        return dict(self.state)

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Take up where another run stopped."""
        self.state.update(state)


def _advice(objective: Objective) -> str:
    """Return what may help against collapse, among the options that this loss has."""
    options = dict(inspect.signature(type(objective)).parameters)
    if getattr(objective, "wrong_class_relu", False):
        del options["wrong_class_relu"]
    if getattr(objective, "margin", None) == (1 if isinstance(objective, AmpFace) else 0):
        del options["margin"]
    ways = {
        "wrong_class_relu": "turn head.wrong_class_relu on",
        "margin_steps": "let the margin grow (head.margin_steps)",
        "margin": "raise head.margin (1 is none)" if isinstance(objective, AmpFace) else "lower head.margin",
    }
    return ", or ".join([way for name, way in ways.items() if name in options] + ["lower the learning rate"])


def stop_unless_finite(loss: float) -> None:
    """Raise TrainingStopped for a loss that is no number."""
    if not math.isfinite(loss):
        raise TrainingStopped(f"the loss is {loss}: lower the learning rate, warm up, or clip gradients")


def effective_margin(margin: int, annealing: float) -> float:
    """Return the single m whose cos(m theta) is nearest to (lambda cos + psi) / (1 + lambda) on [0, 90] degrees.

    With m = 4 and lambda = 5 that is about 1.37.
    """
    angles = torch.linspace(0, math.pi / 2, 181, dtype=torch.float64)
    mixed = (annealing * angles.cos() + psi(angles.cos(), margin)) / (1 + annealing)
    candidates = torch.linspace(1, margin, 301, dtype=torch.float64)
    errors = torch.stack([(angular_margin(angles.cos(), m1=float(m)) - mixed).square().sum() for m in candidates])
    return float(candidates[errors.argmin()])


def _mean(values: Tensor) -> float:
    return float(values.mean()) if len(values) else math.nan
