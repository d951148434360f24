"""The page of a decision: two photos with their faces, and the score among those of the calibration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn import functional

from hypersphere.data import Image
from hypersphere.plots import Page, draw_det, draw_score_histogram
from hypersphere.recognition.calibration import Calibration
from hypersphere.recognition.decision import NO_LIVENESS, Decision
from hypersphere.recognition.face import Face
from hypersphere.recognition.recognizer import Portrait

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIDE = 360
"""Pixels that a photo on a page is high or wide at most."""
_MARK = "#CC3311"
_BOX, _POINT = (0, 180, 90), (255, 220, 0)


def write_verify_page(
    path: str | Path, portraits: tuple[Portrait, Portrait], decision: Decision, calibration: Calibration, model: str
) -> Path:
    """Write what a decision about two photos rests on as one offline page.

    Args:
        path: the new `.html`.
        portraits: both faces, as they were embedded.
        decision: about them.
        calibration: of the model.
        model: its name.
    """
    table = calibration.table
    page = Page(decision.verdict, decision.setting)
    page.text(f"{NO_LIVENESS[0].upper()}{NO_LIVENESS[1:]}.")
    shown = [(marked_photo(each.photo, each.face), each.name) for each in portraits if each.face is not None]
    page.heading("Photos")
    if shown:
        page.sheet(shown, "What the detector found: the box and five landmarks.", quality=90, large=True)
    page.sheet([(each.crop, each.name) for each in portraits], "The crops that were embedded.", large=True)
    page.heading("Score")
    page.table(["", "value", "95 % interval"], _rows(decision), text=True)
    page.figure(
        {"histogram of scores": _histogram(decision, calibration), "error rates": _det(decision, calibration)},
        f"Scores and error rates of {table.genuine:,} pairs of one person and {table.impostors:,} pairs of two, of "
        f"{table.identities:,} people; the red mark is this score.",
        columns=2,
    )
    page.heading("What it rests on")
    page.options(
        {
            "model": f"{model}, weights {decision.model}, contract {decision.contract}",
            "calibration set": f"{decision.calibration}; {table.images:,} images, SHA-256 {table.digest}",
            "intervals": table.method,
            "C_llr": f"{calibration.llr.cllr:.3f} bits, at least {calibration.llr.cllr_min:.3f}",
        }
    )
    return page.save(path)


def _rows(decision: Decision) -> list[list[str]]:
    hint = ", indicative: fewer than 30 false matches" if decision.indicative else ""
    return [
        ["score", f"{decision.score:.4f}", ""],
        ["threshold", f"{decision.threshold:.4f}", ""],
        ["false-match rate", f"{decision.fmr:.0e}{hint}", f"{decision.fmr_low:.1e} to {decision.fmr_high:.1e}"],
        ["false-non-match rate", f"{decision.fnmr:.1%}", f"{decision.fnmr_low:.1%} to {decision.fnmr_high:.1%}"],
        ["false-match rate at this score", f"at most {decision.fmr_at_score:.1e}", ""],
        ["log-likelihood ratio (natural)", f"{decision.llr:+.2f}", ""],
    ]


def _histogram(decision: Decision, calibration: Calibration) -> Figure:
    curve = calibration.curve
    figure = draw_score_histogram(
        np.array(curve.edges), np.array(curve.genuine), np.array(curve.impostors), decision.threshold, "cosine"
    )
    axes = figure.axes[0]
    axes.axvline(decision.score, color=_MARK, linewidth=2, label=f"this score {decision.score:.3f}")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, fontsize=8, frameon=False)
    return figure


def _det(decision: Decision, calibration: Calibration) -> Figure:
    curve, table = calibration.curve, calibration.table
    figure = draw_det(
        {"calibration set": (curve.fmr[::-1], curve.fnmr[::-1])}, genuine=table.genuine, impostor=table.impostors
    )
    place = min(max(0, int(np.searchsorted(curve.edges, decision.score, side="right")) - 1), len(curve.genuine) - 1)
    axes = figure.axes[0]
    at = max(float(curve.fmr[place]), 0.5 / table.impostors), max(float(curve.fnmr[place]), 0.5 / table.genuine)
    axes.plot(*at, "o", color=_MARK, label="a threshold at this score")
    axes.legend(loc="lower left", fontsize=8)
    return figure


def marked_photo(photo: Image, face: Face) -> Image:
    """A photo, at most `SIDE` pixels high and wide, with the box and the landmarks of a face drawn in."""
    scale = min(1.0, SIDE / max(photo.shape[:2]))
    height, width = (max(1, round(side * scale)) for side in photo.shape[:2])
    planes = torch.from_numpy(photo.copy()).permute(2, 0, 1)[None].float()
    small = functional.interpolate(planes, (height, width), mode="bilinear", antialias=True) if scale < 1 else planes
    image: Image = small[0].round().clamp(0, 255).byte().permute(1, 2, 0).contiguous().numpy()
    x0, y0, x1, y1 = (round(value * scale) for value in face.box)
    for row in (y0, y1):
        _fill(image, (row - 1, row + 1), (x0, x1), _BOX)
    for column in (x0, x1):
        _fill(image, (y0, y1), (column - 1, column + 1), _BOX)
    for x, y in face.landmarks * scale:
        _fill(image, (round(y) - 2, round(y) + 2), (round(x) - 2, round(x) + 2), _POINT)
    return image


def _fill(image: Image, rows: tuple[int, int], columns: tuple[int, int], colour: tuple[int, int, int]) -> None:
    image[max(0, rows[0]) : max(0, rows[1]), max(0, columns[0]) : max(0, columns[1])] = colour
