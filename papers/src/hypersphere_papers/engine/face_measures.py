"""What pairs and rankings of people never seen say of a network on real faces; features of a few people, and biases."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from hypersphere.evaluation import retrieve
from hypersphere.geometry import normalize
from hypersphere.training import Trained, UnseenPairs, training_source
from hypersphere_papers.engine.face_searches import HELD_OUT, PEOPLE_OF_SETS
from hypersphere_papers.engine.measure import embedder, measure_fit, measure_head

Measured = dict[str, Any]
SIMILARITY_BINS = np.linspace(-1, 1, 201)
RANKED = ("precisions", "rank-1", "rank-10")
"""The measures of a ranking, which have a number of every person."""


def weigh_people_alike(left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """(pairs,) weights under which every person counts alike, and so do pairs of one person and pairs of two.

    Pairs of one person were drawn from all there are, whose number grows with the square of a person's images.

    Args:
        left, right: (pairs,) who is on the two images.
    """
    same = left == right
    people = np.stack([np.minimum(left, right), np.maximum(left, right)])
    _, place, count = np.unique(people, axis=1, return_inverse=True, return_counts=True)
    weights = 1 / count[place.reshape(-1)]
    for kind in (same, ~same):
        weights[kind] /= 2 * weights[kind].sum()
    return np.asarray(weights, dtype=np.float64)


def measure_rankings(trained: Trained, sets: Sequence[UnseenPairs], device: str) -> Mapping[str, Any]:
    """Measure the pairs of two validation sets, and rank the people held out; a `Measure` of `run_tasks`.

    Returns:
        by name and set, as `measure_similarities` has them, with people held out counting alike; of these, what
        `measure_ranking` returns.
    """
    found: Measured = {}
    for each in sets:
        unit = normalize(each.embeddings(trained.backbone, device))
        cosines = (unit[torch.from_numpy(each.left)] * unit[torch.from_numpy(each.right)]).sum(1).numpy()
        people, weights = PEOPLE_OF_SETS[each.title], np.ones(len(cosines))
        if people == HELD_OUT:
            weights = weigh_people_alike(*each.subjects)
            found |= measure_ranking(unit.numpy(), each.people_on_images)
        measured = measure_similarities(cosines, each.same, weights)
        found |= {f"{name}, {people}": value for name, value in measured.items()}
    return found


def measure_similarities(
    cosines: npt.NDArray[np.float32], same: npt.NDArray[np.bool_], weights: npt.NDArray[np.float64]
) -> Measured:
    """How the similarities of pairs lie (SphereFace2 Fig. 5).

    Args:
        cosines: (pairs,) of each.
        same: (pairs,) whether of one person.
        weights: (pairs,) how much each counts.

    Returns:
        `separation`, the distance of the two means over the root of the mean variance; `range`, that of 98 % of the
        cosines; and the two histograms.
    """
    kinds = {kind: (cosines[chosen], weights[chosen]) for kind, chosen in (("same", same), ("other", ~same))}
    means = {kind: np.average(values, weights=each) for kind, (values, each) in kinds.items()}
    variances = [np.average((values - means[kind]) ** 2, weights=each) for kind, (values, each) in kinds.items()]
    spread = math.sqrt(sum(variances) / 2)
    order = np.argsort(cosines)
    low, high = cosines[order][np.searchsorted(np.cumsum(weights[order]) / weights.sum(), [0.01, 0.99])]
    histograms = {
        f"histogram {kind}": np.histogram(values, SIMILARITY_BINS, weights=each)[0].astype(np.float32)
        for kind, (values, each) in kinds.items()
    }
    separation = float(means["same"] - means["other"]) / spread if spread else 0.0
    return {"separation": separation, "range": float(high - low), **histograms}


def measure_ranking(unit: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> Measured:
    """Every image is a query, and ranks all other images.

    Returns:
        (people,) the mean over the queries of each: `precisions`, and the share with a mate at rank 1 and up to 10.
    """
    each = np.arange(len(labels))
    ranked = retrieve(unit, unit, labels, labels, each, each)
    queries = np.bincount(labels)
    found = (ranked.average_precisions, ranked.first_ranks <= 1, ranked.first_ranks <= 10)
    return {
        name: (np.bincount(labels, weights=values) / queries).astype(np.float32)
        for name, values in zip(RANKED, found, strict=True)
    }


def measure_features(trained: Trained, sets: Sequence[UnseenPairs], device: str) -> Mapping[str, Any]:
    """Embed the images that a run was trained on; a `Measure` of `run_tasks` for features of two or three dimensions.

    Returns:
        `features` and `labels` of all images, `prototypes`, and the `bias` of a head that has one.
    """
    recipe = sets[0].recipe
    source = training_source(recipe.data)
    _, arrays = measure_head(trained.head)
    return arrays | {
        "features": embedder(recipe, trained.backbone, device)(source).numpy().astype(np.float16),
        "labels": np.asarray(source.labels).astype(np.int16),
        "prototypes": trained.head.weight.detach().float().cpu().numpy(),
    }


def measure_margins(trained: Trained, sets: Sequence[UnseenPairs], device: str) -> Mapping[str, Any]:
    """Measure similarities and sample margins of the images that a run was trained on; a `Measure` of `run_tasks`.

    Returns:
        those of `measure_fit`, with their histograms.
    """
    numbers, histograms = _fit(trained, sets, device)
    return {name: numbers[name] for name in ("train similarity", "train sample margin")} | histograms


def measure_biases(trained: Trained, sets: Sequence[UnseenPairs], device: str) -> Mapping[str, Any]:
    """Compare the biases of a classifier with its logits; a `Measure` of `run_tasks`.

    Returns:
        `bias` of every class, and the `logit spread` of `measure_fit`.
    """
    numbers, _ = _fit(trained, sets, device)
    _, arrays = measure_head(trained.head)
    return {"bias": arrays["bias"], "logit spread": numbers["logit spread"]}


def _fit(trained: Trained, sets: Sequence[UnseenPairs], device: str) -> tuple[Measured, Measured]:
    recipe = sets[0].recipe
    return measure_fit(embedder(recipe, trained.backbone, device), trained.head, training_source(recipe.data))
