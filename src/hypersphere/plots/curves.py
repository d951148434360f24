"""Curves over the steps of training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hypersphere.plots.style import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_training(
    logs: Mapping[str, Sequence[Mapping[str, Any]]], key: str, label: str, *, log_scale: bool = False
) -> Figure:
    """Draw one value of the logs of several runs over the steps.

    Args:
        logs: by the run's name, the records of its `log.jsonl`; those without the key, or not finite, are left out.
        key: which value, such as `loss` or `angle`.
        label: of the axis, with the unit.
        log_scale: a logarithmic axis.
    """
    figure = new_figure(4.4, 2.9)
    axes = figure.add_subplot()
    for name, log in logs.items():
        records = [(record["step"], record[key]) for record in log if math.isfinite(record.get(key, math.nan))]
        axes.plot([step for step, _ in records], [value for _, value in records], label=name)
    axes.set(xlabel="step", ylabel=label)
    axes.set_xlim(left=0)
    if log_scale:
        axes.set_yscale("log")
    axes.legend(fontsize=8)
    return figure
