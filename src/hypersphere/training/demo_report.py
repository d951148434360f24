"""The report of `hypersphere demo`: every sentence about a result is made from its numbers."""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hypersphere.core import digest
from hypersphere.evaluation import Estimate, Metrics, NotMeasurable, Verification, embed
from hypersphere.evaluation.metrics.verification import fold_of_pairs
from hypersphere.evaluation.results.result import now
from hypersphere.evaluation.statistics.estimate import rate_name
from hypersphere.geometry import normalize
from hypersphere.plots import (
    ImagePair,
    Page,
    draw_roc,
    draw_similarities,
    draw_spheres,
    draw_training,
    interval,
    percent,
    points,
    project_to_sphere,
)
from hypersphere.pocket import contact_sheet
from hypersphere.training.finished_run import run_embedder
from hypersphere.training.recipe import Recipe
from hypersphere.training.recipe_names import SHIPPED_RECIPES
from hypersphere.training.training_data import training_source
from hypersphere.training.validation import UnseenPairs
from hypersphere.version import __version__

RECIPE = SHIPPED_RECIPES / "pocket" / "demo.toml"
LOSSES = {"softmax": "softmax", "arcface": "ArcFace", "sphereface2": "SphereFace2"}
COLUMNS = (
    "loss", "accuracy [95 %]", "against softmax", "EER", "TAR@FAR=1e-2", "TAR@FAR=1e-3", "seconds",
)  # fmt: skip
FARS = (1e-2, 1e-3)
SHOWN_PEOPLE, _SHOWN_PAIRS = 6, 12


@dataclass(frozen=True)
class DemoOutcome:
    """One loss, trained and tested.

    Args:
        title: the loss's name.
        recipe, folder, log, seconds: of its training; seconds are None where a killed run did not tell.
        scores: the cosine of every pair.
        result: of the verification, with an interval over people.
        metrics: EER and TAR at `FARS`, likewise.
        gain: its accuracy less that of softmax; None for softmax.
    """

    title: str
    recipe: Recipe
    folder: Path
    scores: np.ndarray
    result: Verification
    metrics: Metrics
    gain: Estimate | None
    log: Sequence[Mapping[str, Any]]
    seconds: float | None


@dataclass(frozen=True)
class Sphere:
    """The first test people on the sphere of a network.

    Args:
        title: of the picture.
        points: (N, 3) unit vectors, projections of the embeddings.
        labels: (N,) who each is.
        kept: the share of squared length that the projection kept.
        within, between: mean angle in degrees of two embeddings of one person and of two, before the projection.
    """

    title: str
    points: Tensor
    labels: Tensor
    kept: float
    within: float
    between: float


def sphere(title: str, network: nn.Module, pairs: UnseenPairs) -> Sphere:
    """Embed and project all images of the first test people."""
    chosen = torch.from_numpy(np.flatnonzero(np.asarray(pairs.source.labels) < SHOWN_PEOPLE))
    labels = torch.from_numpy(np.asarray(pairs.source.labels))[chosen]
    unit = normalize(embed(run_embedder(pairs.recipe, network), pairs.source, chosen))
    points, kept = project_to_sphere(unit)
    angles = (unit @ unit.T).clamp(-1, 1).arccos().rad2deg()
    same, other = labels[:, None] == labels, ~torch.eye(len(labels), dtype=torch.bool)
    return Sphere(title, points, labels, kept, float(angles[same & other].mean()), float(angles[~same].mean()))


def demo_row(outcome: DemoOutcome) -> tuple[str, ...]:
    """The cells of an outcome, as in `COLUMNS`, for a terminal: EER and TAR without intervals."""
    return (
        outcome.title,
        " ".join(_share(outcome.result.accuracy, 2)),
        points(outcome.gain.value, outcome.gain.low, outcome.gain.high) if outcome.gain is not None else "–",
        _share(outcome.metrics["eer"], 2)[0],
        *(_share(outcome.metrics[rate_name("tar@far", far)], 1)[0] for far in FARS),
        f"{outcome.seconds:.0f}" if outcome.seconds is not None else "–",
    )


def page_row(outcome: DemoOutcome) -> tuple[str, ...]:
    """The cells of an outcome, as in `COLUMNS`, for a page: every interval below its value."""
    title, _, gain, *_, seconds = demo_row(outcome)
    rates = [outcome.metrics[rate_name("tar@far", far)] for far in FARS]
    shares = [(outcome.result.accuracy, 2), (outcome.metrics["eer"], 2), *((rate, 1) for rate in rates)]
    accuracy, *others = ("\n".join(_share(estimate, digits)) for estimate, digits in shares)
    return (title, accuracy, gain.replace(" ", "\n", 1), *others, seconds)


def _share(estimate: Estimate | NotMeasurable, digits: int) -> list[str]:
    """A share and its interval; a dash for what cannot be measured."""
    if isinstance(estimate, NotMeasurable):
        return ["–"]
    return [percent(estimate.value, digits), interval(estimate.low, estimate.high, digits)]


def build_report(
    outcomes: Mapping[str, DemoOutcome],
    spheres: Sequence[Sphere],
    pairs: UnseenPairs,
    *,
    out: Path,
    seed: int,
    seconds: float,
) -> Page:
    """The whole page."""
    recipe = outcomes["softmax"].recipe
    losses = ", ".join(outcome.title for outcome in outcomes.values())
    page = Page(
        "Three losses on the unit sphere",
        f"The same small network, trained on the same painted faces with {losses}, then asked about pairs of images of "
        "people it has never seen: is this one person, or two?",
    )
    page.origin(_origin(recipe, losses, pairs, command=_command(out, seed)))
    _results(page, outcomes)
    _data(page, recipe, pairs)
    add_curves(page, outcomes, pairs)
    add_training(page, outcomes)
    _spheres(page, spheres, recipe.backbone["dim"])
    add_hardest(page, outcomes, pairs)
    _reproduce(page, outcomes, out, seed, seconds)
    return page


def _origin(recipe: Recipe, losses: str, pairs: UnseenPairs, *, command: str) -> dict[str, str]:
    data, source = recipe.data, pairs.source
    return {
        "model": f"{recipe.backbone['name']} with {recipe.backbone['dim']} dimensions, trained here with {losses}",
        "data": f"pocket faces (painted): {data.identities:,} people to train on, {len(pairs.same):,} pairs of "
        f"{source.num_classes:,} others to test on",
        "command": command,
        "measured": now(),
        "version": f"hypersphere {__version__}",
    }


def _command(out: Path, seed: int) -> str:
    return shlex.join(["hypersphere", "demo", "--seed", str(seed), "--out", str(out)])


def _results(page: Page, outcomes: Mapping[str, DemoOutcome]) -> None:
    accuracies = [outcome.result.accuracy.value for outcome in outcomes.values()]
    page.heading("Result")
    page.table(
        COLUMNS,
        [page_row(outcome) for outcome in outcomes.values()],
        "Best: the highest accuracy here. "
        "Accuracy: share of pairs decided rightly, in ten folds, each at the threshold that is best on the other nine. "
        "Against softmax: the difference in percentage points. In brackets 95 % intervals by bootstrap over people: "
        "pairs that share a person are not independent. EER: the error rate at the threshold where both kinds of "
        "error are equally frequent. TAR@FAR=1e-2: share of pairs of one person that are accepted when one in a "
        "hundred pairs of two people is. A dash: none, or too few pairs to tell. Seconds: of training.",
        best=accuracies.index(max(accuracies)),
    )
    page.text(*(_verdict(outcome) for outcome in outcomes.values() if outcome.gain is not None))
    page.text(
        "This is one training run of each loss. Another seed moves every number a little; the intervals know of other "
        "test people, not of other runs. hypersphere compare trains several seeds and prints mean and deviation.",
        "The losses were tuned, and on some of these people: scales, margins and rates of all three were chosen by "
        "accuracy on half of them, softmax from 8 settings, the other two from more. Read the numbers as a little too "
        "good; docs/demo.md has those of the same networks on 400 people whom nobody looked at before.",
    )


def _verdict(outcome: DemoOutcome) -> str:
    gain = outcome.gain
    assert gain is not None
    if gain.low > 0:
        verdict = "better than softmax, by more than the choice of test people explains."
    elif gain.high < 0:
        verdict = "worse than softmax, by more than the choice of test people explains."
    else:
        verdict = "no clear difference from softmax on these people."
    return f"{outcome.title}: {points(gain.value, gain.low, gain.high)} points: {verdict}"


def _data(page: Page, recipe: Recipe, pairs: UnseenPairs) -> None:
    data, source = recipe.data, pairs.source
    page.heading("The images")
    page.image(
        contact_sheet(source, range(min(SHOWN_PEOPLE, source.num_classes)), 10),
        f"painted faces, {SHOWN_PEOPLE} people in rows, ten images of each",
        f"The first {SHOWN_PEOPLE} of the {source.num_classes} test people, a row each: pocket faces, drawn by a "
        f"program at {data.size[1]} x {data.size[0]} pixels. A person is a set of numbers: shape of the head, eyes, "
        "mouth, skin, hair. Everything else changes from image to image: pose, light, expression, haircut, things in "
        f"front, blur and noise. The networks were trained on {data.identities} other people, "
        f"{data.images_per_identity} images of each.",
    )


def add_curves(page: Page, outcomes: Mapping[str, DemoOutcome], pairs: UnseenPairs) -> None:
    """Add the ROC of every network, and how similar pairs are to it."""
    genuine, impostor = int(pairs.same.sum()), int((~pairs.same).sum())
    page.heading("Who is let in: the ROC")
    curves = {outcome.title: (outcome.result.roc.far, outcome.result.roc.tar) for outcome in outcomes.values()}
    page.figure(
        {"true accept rate over false accept rate for each loss": draw_roc(curves, genuine=genuine, impostor=impostor)},
        "A network gives each pair a cosine; a threshold turns it into yes or no. Every threshold is a point: to the "
        "right, more pairs of two people are wrongly accepted; upwards, more pairs of one person are rightly accepted. "
        "Higher is better, and the left is where a door lock works. Axes are stretched where errors are rare: 90 and "
        "99 % are as far apart as 99 and 99.9 %. In the grey parts fewer than three pairs decide.",
    )
    page.heading("How similar pairs are")
    histograms = draw_similarities(
        {outcome.title: outcome.scores for outcome in outcomes.values()},
        pairs.same,
        {outcome.title: _threshold(outcome.result) for outcome in outcomes.values()},
    )
    page.figure(
        {f"similarities with {title}": histogram for title, histogram in histograms.items()},
        "The cosine of the two embeddings of each pair: 1 means the same direction, 0 a right angle. Pairs of one "
        "person should lie to the right of the dashed threshold, pairs of two to the left; where the colours overlap, "
        "the network errs. Only the overlap counts: each loss has its own scale of cosines. The line is the mean of "
        "the ten folds' thresholds; all have the same axes.",
        columns=3,
    )


def add_training(page: Page, outcomes: Mapping[str, DemoOutcome]) -> None:
    """Add loss, angle, accuracy and class margin over the steps of every run."""
    logs = {outcome.title: outcome.log for outcome in outcomes.values()}
    page.heading("How training went")
    page.figure(
        {
            "loss by step": draw_training(logs, "loss", "loss", log_scale=True),
            "angle to the own prototype by step": draw_training(logs, "angle", "angle to own prototype (degrees)"),
            "accuracy on the training batches by step": draw_training(
                logs, "accuracy", "share nearest to own prototype"
            ),
            "class margin by step": draw_training(logs, "class_margin", "class margin (degrees)"),
        },
        "Every trained person has a prototype, a direction that the network learns to send that person's images to. "
        "Loss: what training lowers; every loss has its own unit, so compare shapes and not heights. Angle: how far an "
        "image is from its own prototype, mean of one batch. Share: how many images of that batch are nearer to their "
        "own prototype than to any other. Class margin: the smallest angle between two prototypes. All are measured on "
        "training images: they say how well the losses fit, not how well they do on new people.",
        columns=2,
    )


def _spheres(page: Page, spheres: Sequence[Sphere], dim: int) -> None:
    page.heading("The sphere, before and after")
    page.figure(
        {
            f"embeddings on the sphere, {sphere.title}": draw_spheres(
                [(sphere.title, None, sphere.points, sphere.labels)]
            )
            for sphere in spheres
        },
        "An embedding is a direction, a point on the unit sphere. A point here is an image of one of the test people "
        "above, a colour is a person; what is faint is at the back. Before: the network with its random start weights. "
        f"After: the three networks of the table. Embeddings have {dim} dimensions; the pictures show the three that "
        "keep most of them, which still hides a part: the table has the angles without that loss.",
        columns=4,
        vector=False,
    )
    page.table(
        ["sphere", "angle, one person", "angle, two people", "kept by the picture"],
        [
            [sphere.title, f"{sphere.within:.0f}°", f"{sphere.between:.0f}°", percent(sphere.kept, 0)]
            for sphere in spheres
        ],
        f"The mean angle between two images of one of these people and of two of them, in {dim} dimensions, and the "
        "share of squared length that the picture keeps.",
    )


def add_hardest(page: Page, outcomes: Mapping[str, DemoOutcome], pairs: UnseenPairs) -> None:
    """Add the pairs that the network with the highest accuracy is most wrong about."""
    best = max(outcomes.values(), key=lambda outcome: outcome.result.accuracy.value)
    wrong = ~best.result.right
    limits = best.result.fold_thresholds[fold_of_pairs(len(best.result.fold_thresholds), len(best.scores))]
    over = best.scores - limits
    page.heading("The hardest pairs")
    page.text(f"Where the network with the highest accuracy here, {best.title}, was most wrong.")
    for same, name in (
        (False, "False matches: two people taken for one"),
        (True, "False non-matches: one person taken for two"),
    ):
        errors = np.flatnonzero(wrong & (pairs.same == same))
        order = np.argsort(over[errors] if same else -over[errors], kind="stable")
        shown = errors[order[:_SHOWN_PAIRS]]
        page.pairs(
            [_pair(pairs, int(index), float(best.scores[index]), float(limits[index])) for index in shown],
            f"{name}. {len(errors):,} of {int((pairs.same == same).sum()):,} pairs; the worst {len(shown)} are shown, "
            "with their cosine and the threshold of their fold.",
        )


def _threshold(result: Verification) -> float:
    """The mean of the folds' thresholds."""
    return float(result.fold_thresholds.mean())


def _pair(pairs: UnseenPairs, index: int, score: float, limit: float) -> ImagePair:
    left, right = int(pairs.left[index]), int(pairs.right[index])
    said = f"{score:.3f} {'≥' if score >= limit else '<'} {limit:.3f}"
    return ImagePair(pairs.source.read(left), pairs.source.read(right), said)


def _reproduce(page: Page, outcomes: Mapping[str, DemoOutcome], out: Path, seed: int, seconds: float) -> None:
    recipe = outcomes["softmax"].recipe
    page.heading("How to reproduce this")
    page.code(_command(out, seed))
    page.text(
        "The same versions on the same kind of machine give the same numbers. A finished run is not trained again, an "
        "interrupted one goes on where it stopped; remove the folder to start anew."
    )
    runs = {
        f"run of {outcome.title}": f"{outcome.folder} (recipe {digest(outcome.recipe)})"
        for outcome in outcomes.values()
    }
    page.options(
        {
            "hypersphere": __version__,
            "torch, numpy": f"{torch.__version__}, {np.__version__}",
            "Python": platform.python_version(),
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
            f"{torch.get_num_threads()} threads used",
            "seed": seed,
            "this call took": f"{seconds:.0f} s, before drawing",
            "training images": f"{len(training_source(recipe.data)):,}",
            **runs,
        }
    )
    page.text("The recipe; each run's folder has its own, with every default filled in, as recipe.toml:")
    page.code(RECIPE.read_text(encoding="utf-8"))
