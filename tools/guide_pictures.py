"""The pictures of the guide to the losses, drawn by the losses themselves; `make docs` writes them to docs/images."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.engines import CircleNegative, Modulated, Similarity
from hypersphere.geometry import class_margin, normalize, tammes, uniform_sphere
from hypersphere.losses import LDAM, ArcFace, SphereFace, SphereFaceR
from hypersphere.plots import Line, Panel, draw_panels, draw_spheres
from hypersphere.theory import softmax_bound

DEGREES = torch.linspace(0, 180, 721, dtype=torch.float64)
COSINES = DEGREES.deg2rad().cos()
STEPS = 600


def loss_on_the_way(name: str, degrees: Tensor = DEGREES, away: float = 90.0, **options: Any) -> Tensor:
    """Return the loss of unit embeddings in the plane of two prototypes that are `away` degrees apart.

    Args:
        name: of the loss.
        degrees: angles of the embeddings from their own prototype, on the way to the other one and beyond.
        away: the angle between the prototypes.
        options: of the loss.
    """
    angles = torch.tensor([0.0, math.radians(away)], dtype=torch.float64)
    prototypes = torch.stack([angles.cos(), angles.sin()], 1)
    head = hs.create_head(name, dim=2, num_classes=2, prototypes=prototypes, reduction="none", **options).double()
    embeddings = torch.stack([degrees.deg2rad().cos(), degrees.deg2rad().sin()], 1)
    with torch.no_grad():
        losses: Tensor = head(embeddings, torch.zeros(len(degrees), dtype=torch.int64))
    return losses


def draw_softmax() -> Any:
    """What a scale does: the least loss of n classes, and the loss between two prototypes."""
    scales = torch.linspace(0.5, 40, 400, dtype=torch.float64)
    bounds = [Line(f"n = {n:,}", scales, softmax_bound(n, scales)) for n in (10, 1_000, 100_000)]
    losses = [
        Line(f"s = {s}", DEGREES[:361], loss_on_the_way("coco", DEGREES[:361], scale=s) / s) for s in (1, 5, 10, 30)
    ]
    return draw_panels(
        [
            Panel("the least loss that n classes can have", "scale s", "loss", bounds),
            Panel("on the way to the wrong prototype", "angle to the own prototype (degrees)", "loss / s", losses),
        ]
    )


def draw_sphereface() -> Any:
    """The multiplied angle, and what annealing makes of it."""
    powers = [
        Line(f"ψ, m = {m}", DEGREES, SphereFace(margin=m, anneal=None).with_margin(COSINES)) for m in (1, 2, 3, 4)
    ]
    annealed = []
    for minimum in (1000.0, 5.0, 1.0, 0.0):
        loss = SphereFace(margin=4, anneal={"base": minimum, "minimum": minimum})
        annealed.append(Line(f"λ = {minimum:g}", DEGREES, loss.with_margin(COSINES)))
    real = [
        Line(
            f"SphereFace-R v{version}, m = 1.5", DEGREES, SphereFaceR(margin=1.5, version=version).with_margin(COSINES)
        )
        for version in (0, 1)
    ]
    x, y = "target angle θ (degrees)", "target logit / s"
    return draw_panels(
        [
            Panel("SphereFace: ψ(θ)", x, y, powers),
            Panel("m = 4, annealed", x, y, annealed),
            Panel("a real m", x, y, [*real, Line("cos θ", DEGREES, COSINES, "--")]),
        ]
    )


def draw_sphereface2() -> Any:
    """The two terms of a binary decision over the cosine."""
    cosines = torch.linspace(-1, 1, 401, dtype=torch.float64)
    r, m, b = 30.0, 0.4, 0.0
    panels = []
    for power in (1.0, 3.0):
        g = Similarity(power).value(cosines)
        positive = torch.nn.functional.softplus(-(r * (g - m) + b)) / r
        negative = torch.nn.functional.softplus(r * (g + m) + b) / r
        lines = [Line("own class", cosines, positive), Line("another class", cosines, negative)]
        panels.append(Panel(f"t = {power:g}", "cos θ", "term of the loss", lines))
    return draw_panels(panels)


def draw_proxies() -> Any:
    """C-contrastive and C-triplet on the way from the own prototype to another."""
    contrastive = [
        Line(f"m = {m:g}", DEGREES[:361], loss_on_the_way("c_contrastive", DEGREES[:361], margin=m))
        for m in (0.5, 1, 2)
    ]
    triplet = [
        Line(f"m = {m:g}", DEGREES[:361], loss_on_the_way("c_triplet", DEGREES[:361], margin=m))
        for m in (0.2, 0.8, 1.5)
    ]
    x = "angle to the own prototype (degrees)"
    return draw_panels(
        [Panel("C-contrastive", x, "loss", contrastive), Panel("C-triplet", x, "loss", triplet)],
    )


def draw_hard_and_rare() -> Any:
    """CurricularFace's negatives, Circle's weights and LDAM's margins."""
    cosines = torch.linspace(-1, 1, 401, dtype=torch.float64)
    threshold = ArcFace(margin=0.5).with_margin(torch.tensor(0.7, dtype=torch.float64))
    modulated = [
        Line(f"t = {t:g}", cosines, Modulated(threshold, torch.tensor(t)).value(cosines)) for t in (0.0, 0.5, 0.9)
    ]
    m = 0.25
    weights = [
        Line("own class: 1 + m - cos θ", cosines, (1 + m - cosines).clamp(min=0)),
        Line("another class: cos θ + m", cosines, CircleNegative(m).derivative(cosines)),
    ]
    counts = torch.logspace(0, 3, 50, dtype=torch.float64)
    loss = LDAM(num_classes=len(counts), class_counts=counts)
    margins = [Line("max_margin = 0.5", counts, loss.margins.double())]
    return draw_panels(
        [
            Panel("CurricularFace: a negative's logit / s", "cos θ of the wrong class", "", modulated),
            Panel("Circle: how hard a cosine is pulled", "cos θ", "weight", weights),
            Panel("LDAM: margin of a class", "its images, over those of the rarest", "margin", margins, log_x=True),
        ]
    )


def draw_pairs() -> Any:
    """Contrastive and triplet losses over the angle of a pair."""
    squared = 2 - 2 * COSINES
    pair = [
        Line("one person", DEGREES, squared),
        *(Line(f"two people, m = {m:g}", DEGREES, (m - squared).clamp(min=0)) for m in (0.5, 1.0)),
    ]
    triplet = [
        Line(f"positive at {at} degrees", DEGREES, (0.2 + 2 - 2 * math.cos(math.radians(at)) - squared).clamp(min=0))
        for at in (20, 40, 60)
    ]
    return draw_panels(
        [
            Panel("contrastive", "angle of the pair (degrees)", "loss", pair),
            Panel("triplet, m = 0.2", "angle to the negative (degrees)", "loss", triplet),
        ]
    )


def spread(name: str, start: Tensor) -> Tensor:
    """Return prototypes on the sphere after steps down a regulariser's gradient."""
    points = start.clone().requires_grad_()
    head = hs.create_head(name, dim=3, num_classes=len(start))
    optimizer = torch.optim.Adam([points], lr=0.02)
    labels = torch.zeros(1, dtype=torch.int64)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.func.functional_call(head, {"weight": points}, (points[:1], labels))
        loss.backward()
        optimizer.step()
    return normalize(points.detach())


def draw_regularizers() -> Any:
    """Twelve prototypes after each regulariser alone, beside the best packing."""
    start = normalize(uniform_sphere(12, 3, generator=torch.Generator().manual_seed(1)))
    found = {
        "random": start,
        "zero centroid": spread("zero_centroid", start),
        "hyperspherical energy": spread("hyperspherical_energy", start),
        "best packing": tammes(12, 3).to(start),
    }
    labels = torch.arange(12)
    return draw_spheres(
        [
            (f"{title}: {class_margin(points).rad2deg().item():.1f}°", points, points, labels)
            for title, points in found.items()
        ]
    )


PICTURES: dict[str, Callable[[], Any]] = {
    "guide-softmax": draw_softmax,
    "guide-sphereface": draw_sphereface,
    "guide-sphereface2": draw_sphereface2,
    "guide-proxies": draw_proxies,
    "guide-hard-and-rare": draw_hard_and_rare,
    "guide-pairs": draw_pairs,
    "guide-regularizers": draw_regularizers,
}
