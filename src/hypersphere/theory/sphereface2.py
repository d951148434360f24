"""SphereFace2: its loss curves (Figs. 3, 6), decision planes, the start of the bias, and the gradients of Table 13."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hypersphere.core import check_integer, check_positive
from hypersphere.engines import Similarity
from hypersphere.geometry import uniform_sphere
from hypersphere.losses import SphereFace2
from hypersphere.plots import Line, Panel, draw_panels
from hypersphere.theory.report import Report, Row, verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]


def softmax_example(cosine: npt.ArrayLike, scale: float) -> Floats:
    """L_n = -log(e^(s c) / (e^(s c) + 3 e^(0.2 s))): four classes, the wrong ones at 0.2 (Fig. 3a)."""
    c = np.asarray(cosine, dtype=np.float64)
    return np.logaddexp(0.0, math.log(3) + check_positive("scale", scale) * (0.2 - c))


def positive_loss(cosine: npt.ArrayLike, scale: float) -> Floats:
    """The positive term of eq. 2 at lambda = 1: log(1 + e^(-r c)) / r (Fig. 3b)."""
    c, r = np.asarray(cosine, dtype=np.float64), check_positive("scale", scale)
    return np.asarray(np.logaddexp(0.0, -r * c) / r)


def adjusted(cosine: npt.ArrayLike, power: float) -> Floats:
    """g(z) = 2 ((z + 1)/2)^t - 1, the similarity adjustment (sec. 2.2, Fig. 6)."""
    c = torch.tensor(cosine, dtype=torch.float64)
    return Similarity(check_positive("power", power)).value(c).numpy()


def adjusted_inverse(similarity: npt.ArrayLike, power: float) -> Floats:
    """The cosine with g(cosine) = similarity; NaN outside [-1, 1]."""
    z = np.asarray(similarity, dtype=np.float64)
    share = np.where(np.abs(z) <= 1, (z + 1) / 2, np.nan)
    return np.asarray(2 * share ** (1 / check_positive("power", power)) - 1)


def decision_planes(*, scale: float, margin: float, bias: float, power: float = 1.0) -> dict[str, float]:
    """The cosines at which the logits of eq. 5 are 0: planes across the classifier's direction (Figs. 4, 7, 8).

        positive   r (g(c) - m) + b = 0,   baseline  r g(c) + b = 0,   negative  r (g(c) + m) + b = 0

    In r g they are r m apart, 2 r m from positive to negative (sec. 2.3).

    Args:
        scale: r.
        margin: m.
        bias: b.
        power: t.

    Returns:
        The three cosines; NaN where a plane misses the sphere.
    """
    r = check_positive("scale", scale)
    places = {"positive": margin - bias / r, "baseline": -bias / r, "negative": -margin - bias / r}
    return {name: float(adjusted_inverse(place, power)) for name, place in places.items()}


def start_bias(num_classes: int, *, balance: float, scale: float, margin: float, power: float) -> float:
    """The bias at which dL/db = 0 for all cosines 0 (App. G, eqs. 9 and 10).

    Args:
        num_classes: n.
        balance: lambda.
        scale: r.
        margin: m.
        power: t.

    Example:
        >>> round(start_bias(8_631, balance=0.7, scale=40, margin=0.4, power=3), 2)
        5.78
    """
    classes = check_integer("num_classes", num_classes, 2)
    loss = SphereFace2(num_classes=classes, balance=balance, scale=scale, margin=margin, power=power)
    return loss.start_bias(classes)


def bias_slope(bias: float, num_classes: int, *, balance: float, scale: float, margin: float, power: float) -> float:
    """r dL/db with all cosines 0, straight from eq. 7 (times r), divided by lambda."""
    g = float(adjusted(0.0, power))
    a_y, a_i = scale * (g - margin), scale * (g + margin)
    positive = -1 / (1 + math.exp(a_y + bias))
    return positive + (1 - balance) / balance * (num_classes - 1) / (1 + math.exp(-a_i - bias))


def gradient_table(*, seed: int = 0) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
    """Table 13's four cells: the gradient by autograd, as printed, and corrected, for random W and x.

    Returns:
        By cell, three vectors.
    """
    g = torch.Generator().manual_seed(seed)
    weight = uniform_sphere(5, 3, generator=g).requires_grad_()
    x, y = 1.5 * uniform_sphere(1, 3, generator=g)[0], 2
    logits = weight @ x
    signs = torch.ones(5, dtype=torch.float64)
    signs[y] = -1
    softmax = torch.autograd.grad(logits.logsumexp(0) - logits[y], weight, retain_graph=True)[0]
    binary = torch.autograd.grad(torch.nn.functional.softplus(signs * logits).sum(), weight)[0]
    p, sigmoid = logits.detach().softmax(0), logits.detach().sigmoid()
    wrong = p.sum() - p[y]
    return {
        "softmax, i != y": (softmax[0], p[0] * x, p[0] * x),
        "SphereFace2, i != y": (binary[0], sigmoid[0] * x, sigmoid[0] * x),
        "softmax, y": (softmax[y], (wrong - 1) * x, (p[y] - 1) * x),
        "SphereFace2, y": (binary[y], -sigmoid[y] * x, (sigmoid[y] - 1) * x),
    }


def report_sphereface2() -> Report:
    """The bias, the planes and Table 13."""
    rows = []
    for n in (6, 8_631, 85_742):
        options = {"balance": 0.7, "scale": 40.0, "margin": 0.4, "power": 3.0}
        bias = start_bias(n, **options)
        note = verdict(abs(bias_slope(bias, n, **options)) < 1e-9)
        rows.append(Row(f"start of the bias, n = {n:,} (App. G)", f"{bias:.3f}", "dL/db = 0", note))
    planes = decision_planes(scale=30.0, margin=0.2, bias=0.0)
    degrees = "  ".join(f"{math.degrees(math.acos(c)):.1f}" for c in planes.values())
    rows.append(Row("planes for r = 30, m = 0.2, b = 0 (Fig. 8)", degrees, "", "degrees: positive, baseline, negative"))
    rows.append(Row("their distance in r g", f"{30 * (planes['positive'] - planes['negative']):.1f}", "2 r m = 12"))
    low, high = (float(adjusted(c, 3.0)) for c in (-0.2, 1.0))
    rows.append(Row("g maps [-0.2, 1] at t = 3 to", f"[{low:.2f}, {high:.0f}]", "[-0.9, 1]", "its wish, for example"))
    for name, (true, printed, right) in gradient_table().items():
        error = float((true - printed).norm() / true.norm())
        note = "as printed" if error < 1e-9 else f"printed wrongly; corrected {verdict(torch.allclose(true, right))}"
        rows.append(Row(f"Table 13, dL/dW, {name}: error of the cell", f"{error:.2f}", "0", note))
    notes = ["lambda = 0.7, r = 40, m = 0.4, t = 3 for the bias. The two cells of Table 13 are in docs/errata.md."]
    return Report(
        "SphereFace2: loss curves, planes, bias and gradients",
        rows,
        notes,
        {"fig3": _draw_losses, "fig6": _draw_adjustment, "planes": _draw_planes},
    )


def _draw_losses() -> Figure:
    cosines = np.linspace(-1, 1, 201)
    scales = (1, 2, 5, 10, 20, 30)
    softmax = [Line(f"s = {s}", cosines, softmax_example(cosines, s)) for s in scales]
    binary = [Line(f"r = {s}", cosines, positive_loss(cosines, s)) for s in scales]
    return draw_panels(
        [
            Panel("(a) softmax, wrong classes at 0.2", "cosine with the target", "loss", softmax),
            Panel("(b) one binary classification", "cosine with the target", "loss", binary),
        ],
        width=4.4,
        height=3.4,
    )


def _draw_adjustment() -> Figure:
    cosines = np.linspace(-1, 1, 201)
    lines = [Line(f"t = {t}", cosines, adjusted(cosines, t)) for t in (1, 2, 3, 4, 5)]
    panel = Panel("Similarity adjustment", "cosine", "g(cosine)", lines)
    return draw_panels([panel], width=4.4, height=3.4)


def _draw_planes() -> Figure:
    biases = np.linspace(-15, 15, 121)
    panels = []
    for power in (1.0, 3.0):
        planes = [decision_planes(scale=30.0, margin=0.2, bias=float(b), power=power) for b in biases]
        lines = [
            Line(name, biases, np.degrees(np.arccos([plane[name] for plane in planes])))
            for name in ("positive", "baseline", "negative")
        ]
        title = f"Planes, r = 30, m = 0.2, t = {power:g}"
        panels.append(Panel(title, "bias b", "angle to the classifier (degrees)", lines))
    return draw_panels(panels, width=4.4, height=3.4)
