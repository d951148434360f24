"""The `real` items on MNIST with features of two dimensions: SphereFace Figs. 8, 9, 11 and 12."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hypersphere.evaluation import angular_fisher_score
from hypersphere.geometry import normalize
from hypersphere.losses.angular import RELEASED_ANNEAL
from hypersphere.plots import Line, Panel, draw_features, draw_panels
from hypersphere.reproduce.experiment.digits import (
    DeeperLeNet,
    Digits,
    TrainedDigits,
    open_digits,
    seconds_a_step,
    train_digits,
)
from hypersphere.reproduce.experiment.verdict import of_correlation
from hypersphere.reproduce.job import Job, item
from hypersphere.reproduce.outcome import Finding, Outcome

EPOCHS, IMAGES = 2, 20_000
SHOWN = 10_000
RATE, BATCH = 0.01, 64
_RUNS: dict[Any, TrainedDigits] = {}


@dataclass(frozen=True)
class Spread:
    """How 2-D features lie: angles in degrees.

    Args:
        within: mean angle of a feature to the mean direction of its class.
        between: smallest angle between the mean directions of two classes.
        empty: the largest sector of the plane without any class's mean direction.
    """

    within: float
    between: float
    empty: float


def spread(features: Tensor, labels: Tensor) -> Spread:
    """Measure the directions of features by class."""
    unit = normalize(features.double(), eps=0.0)
    means = normalize(torch.stack([unit[labels == c].mean(0) for c in range(int(labels.max()) + 1)]), eps=0.0)
    own = (unit * means[labels]).sum(1).clamp(-1, 1).acos()
    around = torch.atan2(means[:, 1], means[:, 0]).sort().values
    gaps = torch.diff(torch.cat([around, around[:1] + 2 * math.pi]))
    return Spread(*(math.degrees(float(angle)) for angle in (own.mean(), gaps.min(), gaps.max())))


@functools.cache
def mnist(data: Path | None) -> tuple[Digits, Digits]:
    """The data, read once."""
    return open_digits(data)


def training_images(job: Job) -> Digits:
    """All of them where the epochs are given, else so many that a slow CPU is done in minutes."""
    train, _ = mnist(job.data)
    return train if job.epochs is not None else train.some(IMAGES)


@dataclass(frozen=True, kw_only=True)
class Plane:
    """A run of the deeper LeNet with 2-D features.

    Args:
        loss: of `create_head`.
        options: of the loss.
        relu: a ReLU on the features.
        seed: of start and order; the job's first by default.
    """

    loss: str
    options: Mapping[str, Any] = field(default_factory=dict)
    relu: bool = False
    seed: int | None = None


def train_planes(job: Job, planes: Sequence[Plane]) -> list[TrainedDigits]:
    """Train each of them, in order; the same run is trained once, whichever item asks for it."""

    def settings(plane: Plane) -> dict[str, Any]:
        network = functools.partial(DeeperLeNet, last_relu=plane.relu)
        seed = job.seeds[0] if plane.seed is None else plane.seed
        return {"dim": 2, "network": network, "options": plane.options, "rate": RATE, "batch_size": BATCH, "seed": seed}

    def key(plane: Plane) -> Any:
        options = repr(sorted(plane.options.items()))
        return job.data, plane.loss, plane.relu, settings(plane)["seed"], job.epochs, options

    left = {key(plane): plane for plane in planes if key(plane) not in _RUNS}
    if left:
        images, epochs = training_images(job), job.epochs or EPOCHS
        steps, first = epochs * (len(images.labels) // BATCH), next(iter(left.values()))
        with job.training(len(left), steps, lambda: seconds_a_step(images, first.loss, **settings(first))) as part:
            for number, (name, plane) in enumerate(left.items()):
                _RUNS[name] = train_digits(images, plane.loss, epochs=epochs, progress=part(number), **settings(plane))
    return [_RUNS[key(plane)] for plane in planes]


def panel_of(job: Job, title: str, trained: TrainedDigits) -> tuple[str, Tensor, Tensor]:
    """Title, features and labels of the training images that are drawn."""
    shown = mnist(job.data)[0].some(SHOWN)
    return title, trained.features(shown), shown.labels


def accuracy(trained: TrainedDigits, digits: Digits) -> float:
    """Share of images whose own logit is the largest, in per cent; the bias counts where there is one."""
    features = trained.features(digits)
    logits = features @ normalized_prototypes(trained).T
    logits = logits + trained.bias()
    return 100 * float((logits.argmax(1) == digits.labels).double().mean())


def normalized_prototypes(trained: TrainedDigits) -> Tensor:
    """The prototypes, of length 1 where the loss makes them so."""
    weight = trained.head.weight.detach()
    return normalize(weight) if trained.head.objective.normalizes_prototypes else weight


def how(job: Job) -> list[str]:
    """How the features were made."""
    return [
        f"A LeNet with two convolutions a stage and 2-D features, {job.epochs or EPOCHS} epochs of "
        f"{len(training_images(job).labels):,} images; the paper does not print its network. {SHOWN:,} training images "
        "are drawn."
    ]


@item("sphereface/fig8")
def last_relu(job: Job) -> Outcome:
    """Fig. 8: 2-D features with and without the last ReLU."""
    planes = [Plane(loss="softmax", options={"bias": False}, relu=relu) for relu in (True, False)]
    runs = dict(zip(("with the last ReLU", "without"), train_planes(job, planes), strict=True))
    panels = [panel_of(job, title, trained) for title, trained in runs.items()]
    quadrant = [100 * float((features >= 0).all(1).double().mean()) for _, features, _ in panels]
    empty = [spread(features, labels).empty for _, features, labels in panels[1:]]
    findings = [
        Finding(what=f"{title}: accuracy on test images, %", ours=f"{accuracy(trained, mnist(job.data)[1]):.2f}")
        for title, trained in runs.items()
    ]
    findings += [
        job.claim(
            quadrant[0] == 100, f"{quadrant[0]:.1f} %", sentence="with the ReLU all features lie in the first quadrant"
        ),
        job.judged(
            None,
            f"{quadrant[1]:.1f} % in the first quadrant, largest empty sector {empty[0]:.0f} degrees",
            sentence="without it they lie around the whole plane",
        ),
    ]
    return Outcome(
        findings=findings, figures={"fig8": lambda: draw_features(panels)}, notes=how(job), seeds=job.seeds[:1]
    )


@item("sphereface/fig11")
def bias(job: Job) -> Outcome:
    """Fig. 11: 2-D features with and without a bias in the last layer."""
    planes = [Plane(loss="softmax", options={"bias": bias}) for bias in (True, False)]
    runs = dict(zip(("with bias", "without bias"), train_planes(job, planes), strict=True))
    panels = [panel_of(job, title, trained) for title, trained in runs.items()]
    findings = []
    for (title, features, labels), trained in zip(panels, runs.values(), strict=True):
        measured = spread(features, labels)
        right = accuracy(trained, mnist(job.data)[1])
        findings.append(
            job.judged(
                None,
                f"largest empty sector {measured.empty:.0f} degrees, test accuracy {right:.2f} %",
                sentence=f"{title}: the classes use the whole plane",
            )
        )
    return Outcome(
        findings=findings, figures={"fig11": lambda: draw_features(panels)}, notes=how(job), seeds=job.seeds[:1]
    )


@item("sphereface/fig12")
def larger_margin(job: Job) -> Outcome:
    """Fig. 12: softmax and A-Softmax with m = 2, 3, 4, on training and test images."""
    _, test = mnist(job.data)
    steps = (job.epochs or EPOCHS) * len(training_images(job).labels) // BATCH
    anneal = {**RELEASED_ANNEAL, "gamma": 3 * 199 / steps}
    planes = {"softmax": Plane(loss="softmax", options={"bias": False})} | {
        f"A-Softmax, m = {m}": Plane(loss="sphereface", options={"margin": m, "anneal": anneal}) for m in (2, 3, 4)
    }
    runs = dict(zip(planes, train_planes(job, list(planes.values())), strict=True))
    panels = [panel_of(job, f"{title}, training", trained) for title, trained in runs.items()]
    tests = [(f"{title}, test", trained.features(test), test.labels) for title, trained in runs.items()]
    ratios, scores, findings = [], [], []
    for title, features, labels in (*panels, *tests):
        measured = spread(features, labels)
        ratios.append(measured.within / measured.between)
        scores.append(angular_fisher_score(features.numpy(), labels.numpy(), replicates=100).value)
        text = f"{measured.within:.1f}, {measured.between:.1f}"
        findings.append(
            Finding(what=f"{title}: mean angle within a class, smallest between classes, degrees", ours=text)
        )
    for place, where in ((0, "training"), (4, "test")):
        for values, what in ((ratios, "within / between"), (scores, "the angular Fisher score (App. E)")):
            own = values[place : place + 4]
            findings.append(
                job.judged(
                    None,
                    ", ".join(f"{value:.4f}" for value in own),
                    sentence=f"{where} images: {what} falls from softmax over m = 2 and 3 to m = 4",
                )
            )
    findings += [
        Finding(what=f"{title}: accuracy on test images, %", ours=f"{accuracy(trained, test):.2f}")
        for title, trained in runs.items()
    ]
    return Outcome(
        findings=findings,
        figures={"fig12": lambda: draw_features([*panels, *tests])},
        notes=[*how(job), "A-Softmax is annealed to lambda = 5 (App. G) within a third of the run."],
        seeds=job.seeds[:1],
    )


@item("sphereface/fig9")
def norms_and_counts(job: Job) -> Outcome:
    """Fig. 9, its MNIST half: the length of a prototype against the number of samples of its class."""
    counts = torch.bincount(training_images(job).labels, minlength=10).double()
    runs = train_planes(job, [Plane(loss="softmax", options={"bias": True}, seed=seed) for seed in job.seeds])
    norms = [trained.head.weight.detach().norm(dim=1).double() for trained in runs]
    correlations = [float(torch.corrcoef(torch.stack([counts, norm]))[0, 1]) for norm in norms]
    mean = sum(correlations) / len(correlations)
    claim = job.judged(
        of_correlation(mean, 10),
        f"correlation {mean:.2f} (seeds: {', '.join(f'{r:.2f}' for r in correlations)})",
        sentence="classes with more samples have longer prototypes",
        note=f"ten classes, which differ little here: {int(counts.min()):,} to {int(counts.max()):,} samples",
    )
    lines = [
        Line(f"seed {seed}", counts.numpy(), norm.numpy(), "o") for seed, norm in zip(job.seeds, norms, strict=True)
    ]
    panel = Panel("MNIST, softmax", "samples of the class", "length of its prototype", lines)
    return Outcome(
        findings=[claim], figures={"fig9": lambda: draw_panels([panel], width=4.8, height=3.4)}, notes=how(job)
    )
