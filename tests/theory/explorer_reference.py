"""What the explorer's curves must be, from the library's own heads in float64.

A head of two classes is asked for its loss where the target is at one angle from the sample and the wrong class at
another. From that come the target's and the wrong class's terms with their slopes, and from these the loss among C
uniform prototypes in d dimensions, by a quadrature that has nothing in common with the page's but Gauss's name.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from hypersphere.engines import EngineOptions
from hypersphere.geometry import log_angle_density
from hypersphere.heads import Head, create_head
from hypersphere.losses import Batch

Floats = npt.NDArray[np.float64]
Settings = Mapping[str, Any]
RIGHT = math.pi / 2
DENSE = EngineOptions(engine="dense")

SOFTMAX = (
    "normface",
    "ampface",
    "sphereface_r",
    "arcface",
    "cosface",
    "unified",
    "sphereface",
    "sphereface_r2",
    "circle",
)
SUMS = ("sphereface2_c", "sphereface2_a", "sphereface2_m", "c_contrastive")
COUPLED = ("curricularface", "c_triplet")
ALL = (*SOFTMAX, "lm_softmax", *SUMS, *COUPLED)


def head_of(name: str, settings: Settings, num_classes: int, dim: int, scale: float, bias_classes: int) -> Head:
    """The library's head for a loss of the page; SphereFace2's bias is the one for `bias_classes`."""

    def own(key: str) -> Any:
        return settings[f"{name}.{key}"]

    options: dict[str, Any] = {} if name.startswith("c_") else {"scale": scale}
    library = name
    if name == "normface":
        options["learnable_scale"] = False
    elif name == "unified":
        options |= {key: own(key) for key in ("m0", "m1", "m2", "m3")} | {"wrong_class_relu": bool(own("relu"))}
    elif name == "sphereface":
        options |= {"margin": int(own("m")), "anneal": None}
    elif name.startswith("sphereface_r"):
        library, version = "sphereface_r", 2 if name.endswith("2") else 1
        options |= {"margin": own("m"), "version": version}
    elif name.startswith("sphereface2"):
        library = "sphereface2"
        common = {"balance": "lambda", "scale": "r", "power": "t"}
        options |= {key: settings[f"sphereface2.{short}"] for key, short in common.items()}
        options |= {"margin": own("m"), "margin_type": name[-1]}
    elif name == "circle":
        options |= {"scale": own("gamma"), "margin": own("m")}
    elif name != "lm_softmax":
        options["margin"] = own("m")
    head = create_head(library, dim=dim, num_classes=num_classes, engine="dense", **options).double().eval()
    with torch.no_grad():
        if library == "sphereface2":
            bias = settings["sphereface2.b"]
            head.objective.bias.fill_(head.objective.start_bias(bias_classes) if bias is None else bias)
        if library == "curricularface":
            head.objective.t.fill_(own("t"))
    return head


def term(head: Head, angles: Floats, *, axis: int, label: int = 0, together: bool = False) -> tuple[Floats, Floats]:
    """Losses and slopes with the sample at the angles from one axis (0 or 1) and at a right angle to the other.

    Prototype 0 is on axis 0 and the others on axis 1; or all on axis 1 where they are `together`.
    """
    angle = torch.tensor(np.atleast_1d(angles), dtype=torch.float64, requires_grad=True)
    x = torch.stack([angle.cos(), torch.zeros_like(angle), angle.sin()], dim=1)
    weight = torch.zeros(head.num_classes, 3, dtype=torch.float64)
    weight[:, 1] = 1
    if not together:
        weight[0] = torch.tensor([1.0, 0.0, 0.0])
    labels = torch.full((len(x),), label)
    losses = head.objective.samples(
        Batch(embeddings=x if axis == 0 else x[:, [1, 0, 2]], labels=labels, prototypes=weight, options=DENSE)
    )
    (slopes,) = torch.autograd.grad(losses.sum(), angle)
    return losses.detach().numpy(), slopes.numpy()


def nodes_of(kinks: list[float]) -> tuple[Floats, Floats]:
    """Angles and weights on [0, pi], dense everywhere."""
    x, w = np.polynomial.legendre.leggauss(16)
    edges = sorted({*np.linspace(0, math.pi, 121), *(kink for kink in kinks if 0 < kink < math.pi)})
    low, high = np.array(edges[:-1]), np.array(edges[1:])
    middle, half = (low + high) / 2, (high - low) / 2
    return (middle[:, None] + half[:, None] * x).ravel(), (half[:, None] * w).ravel()


def kinks_of(name: str, settings: Settings) -> list[float]:
    """Angles at which a wrong class's term has no slope."""
    if name == "circle":
        return [math.acos(-settings["circle.m"])]
    if name == "c_contrastive":
        return [math.acos(1 - settings["c_contrastive.m"] / 2)]
    return [RIGHT]


def log_mean(dim: int, angles: Floats, weights: Floats, logs: Floats) -> float:
    """The logarithm of the mean of e^logs over the angle to a uniform direction."""
    return float(np.logaddexp.reduce(np.log(weights) + log_angle_density(angles, dim) + logs))


def curves(name: str, settings: Settings, angles: Floats, own: float) -> dict[str, Floats]:
    """Logit, loss, and both gradients at the angles; the wrong class's with the target at `own`."""
    if name in COUPLED:
        return _coupled(name, settings, angles, own)
    return (_sums if name in SUMS else _softmax)(name, settings, angles, own)


def _softmax(name: str, settings: Settings, angles: Floats, own: float) -> dict[str, Floats]:
    count, dim, scale = settings["C"], settings["d"], settings["s"]
    head = head_of(name, settings, 2, 3, scale, count)
    largest = name == "lm_softmax"

    def excess(where: Floats, axis: int) -> tuple[Floats, Floats]:
        """log of the odds against the target among two, and its slope."""
        losses, slopes = term(head, where, axis=axis)
        if largest:
            return scale * losses, scale * slopes
        odds = losses + np.log(-np.expm1(-losses))
        return odds, slopes * (1 + np.exp(-odds))

    nodes, weights = nodes_of(kinks_of(name, settings))
    both = excess(np.array([RIGHT]), 0)[0][0]
    mean = log_mean(dim, nodes, weights, excess(nodes, 1)[0]) - both
    (target, slope), (wrong, wrong_slope) = excess(angles, 0), excess(angles, 1)
    at_own = excess(np.array([own]), 0)[0][0]
    total = math.log(count - 1) + mean + target
    right = {
        "circle": -settings["circle.gamma"] * max(0.0, settings["circle.m"]) * settings["circle.m"],
        "sphereface_r2": scale * math.cos(RIGHT / settings["sphereface_r2.m"]),
    }.get(name, 0.0)
    rest = math.log(count - 2) + mean + at_own if count > 2 else -math.inf
    alone = wrong + at_own - both
    below = np.logaddexp(alone, rest)
    if largest:
        shares = np.exp(alone - below) / scale
        loss, gradient = total / scale, slope / scale
    else:
        shares = np.exp(alone - np.logaddexp(0.0, below))
        loss, gradient = np.logaddexp(0.0, total), slope / (1 + np.exp(-total))
    return {"logit": right - target, "loss": loss, "target": gradient, "wrong": shares * wrong_slope}


def _sums(name: str, settings: Settings, angles: Floats, own: float) -> dict[str, Floats]:
    count, dim = settings["C"], settings["d"]
    head = head_of(name, settings, 2, 3, settings["s"], count)

    def wrong(where: Floats) -> tuple[Floats, Floats]:
        """Of one class: half of what a sample of no class has from two at one place."""
        losses, slopes = term(head, where, axis=1, label=-1, together=True)
        return losses / 2, slopes / 2

    losses, gradient = term(head, angles, axis=0)
    pull = losses - wrong(np.array([RIGHT]))[0]
    nodes, weights = nodes_of(kinks_of(name, settings))
    mean = math.exp(log_mean(dim, nodes, weights, np.log(np.maximum(wrong(nodes)[0], 1e-300))))
    logit = -pull
    if name != "c_contrastive":
        loss, cosines = head.objective, torch.from_numpy(np.cos(angles))
        logit = (loss.scale * loss.target(cosines) + loss.bias.detach()).numpy()
    return {"logit": logit, "loss": pull + (count - 1) * mean, "target": gradient, "wrong": wrong(angles)[1]}


def _pair(head: Head, target: float, wrong: float) -> tuple[float, float, float]:
    """The loss of two classes at any two angles, and its slopes."""
    angle = torch.tensor([target, wrong], dtype=torch.float64, requires_grad=True)
    weight = torch.stack([angle.cos(), angle.sin()], dim=1)
    x = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    labels = torch.zeros(1, dtype=torch.int64)
    loss = head.objective.samples(Batch(embeddings=x, labels=labels, prototypes=weight, options=DENSE))[0]
    (slopes,) = torch.autograd.grad(loss, angle)
    return loss.item(), slopes[0].item(), slopes[1].item()


def _coupled(name: str, settings: Settings, angles: Floats, own: float) -> dict[str, Floats]:
    count, dim, scale, margin = settings["C"], settings["d"], settings["s"], settings[f"{name}.m"]
    head = head_of(name, settings, 2, 2, scale, count)
    softmax = name == "curricularface"
    level: Callable[[float], float] = (
        (lambda a: math.cos(a + margin)) if softmax else (lambda a: max(-1.0, math.cos(a) - margin / 2))
    )
    density: Callable[[Floats], Floats] = lambda a: np.exp(log_angle_density(a, dim))  # noqa: E731

    def mean(angle: float) -> tuple[float, float]:
        """E of the odds and of their slope in the target's angle; for a sum, of the loss and its slope."""
        x, w = np.polynomial.legendre.leggauss(16)
        edge = math.acos(level(angle))
        low, high = max(0.0, RIGHT - 14 / math.sqrt(dim)), min(math.pi, RIGHT + 8 / math.sqrt(dim))
        value = slope = 0.0
        edges = sorted({*np.linspace(low, high, 7), *([edge] if low < edge < high else [])})
        for start, end in itertools.pairwise(edges):
            nodes = (start + end) / 2 + (end - start) / 2 * x
            for node, weight in zip(nodes, w * (end - start) / 2 * density(nodes), strict=True):
                loss, by_target, _ = _pair(head, angle, float(node))
                value += weight * (math.expm1(loss) if softmax else loss)
                slope += weight * (math.exp(loss) * by_target if softmax else by_target)
        return value, slope

    found: dict[str, list[float]] = {"logit": [], "loss": [], "target": [], "wrong": []}
    others = mean(own)[0] * (count - 2)
    for angle in angles:
        value, slope = (count - 1) * np.array(mean(float(angle)))
        loss, _, by_wrong = _pair(head, own, float(angle))
        found["logit"].append(scale * math.cos(angle + margin) if softmax else 2 * math.cos(angle) - 2)
        found["loss"].append(math.log1p(value) if softmax else value)
        found["target"].append(slope / (1 + value) if softmax else slope)
        found["wrong"].append(math.exp(loss) * by_wrong / (math.exp(loss) + others) if softmax else by_wrong)
    return {key: np.array(values) for key, values in found.items()}
