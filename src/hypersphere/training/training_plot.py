"""The picture of a run: its loss, angles and validation over the steps, in one image."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hypersphere.core import is_installed
from hypersphere.plots import Line, Panel, draw_panels, save_figure
from hypersphere.training.logs import read_log

_ANGLES = {"angle": "to the own prototype", "class_margin": "class margin"}


def save_training_plot(folder: str | Path, accuracy: Mapping[str, float]) -> Path | None:
    """Draw the log of a run to `training.png` in its folder; None without matplotlib, or without a log.

    Args:
        folder: of the run.
        accuracy: of the finished run, by validation set; the log has that of earlier steps where it was asked for.
    """
    log = read_log(Path(folder) / "log.jsonl")
    log = [*log, {"step": log[-1]["step"], **accuracy}] if log else log
    if not log or not is_installed("matplotlib"):
        return None
    panels = [
        Panel("loss", "step", "loss", _lines(log, {"loss": "of the batch"}), log_y=True),
        Panel("angles", "step", "degrees", _lines(log, _ANGLES)),
        Panel("training images", "step", "share", _lines(log, {"accuracy": "nearest to the own prototype"})),
        Panel("people never seen", "step", "accuracy", _lines(log, {name: name for name in accuracy}, "o")),
    ]
    return save_figure(draw_panels([panel for panel in panels if panel.lines]), Path(folder) / "training.png")


def _lines(log: Sequence[Mapping[str, Any]], names: Mapping[str, str], style: str = "-") -> list[Line]:
    """A line of each value that the log has."""
    lines = []
    for name, label in names.items():
        points = [(record["step"], record[name]) for record in log if math.isfinite(record.get(name, math.nan))]
        if points:
            steps, values = zip(*points, strict=True)
            lines.append(Line(label, steps, values, style))
    return lines
