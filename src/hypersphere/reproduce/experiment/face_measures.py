"""What pairs and rankings of people never seen say of a network on real faces; and features of a few people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from hypersphere.evaluation import retrieve
from hypersphere.geometry import normalize
from hypersphere.reproduce.experiment.face_searches import HELD_OUT, PEOPLE_OF_SETS
from hypersphere.reproduce.experiment.measure import embedder, measure_head, separation_and_range
from hypersphere.training import Trained, UnseenPairs
from hypersphere.training.training_data import training_source

Measured = dict[str, Any]
SIMILARITY_BINS = np.linspace(-1, 1, 201)
RANKED = ("precisions", "rank-1", "rank-10")
"""The measures of a ranking, which have a number of every person."""


def measure_rankings(trained: Trained, sets: Sequence[UnseenPairs], device: str) -> Mapping[str, Any]:
    """Measure the pairs of two validation sets, and rank the people held out; a `Measure` of `run_tasks`.

    Returns:
        by name and set, as `measure_similarities` has them; of the people held out, what `measure_ranking` returns.
    """
    found: Measured = {}
    for each in sets:
        unit = normalize(each.embeddings(trained.backbone, device))
        cosines = (unit[torch.from_numpy(each.left)] * unit[torch.from_numpy(each.right)]).sum(1).numpy()
        people = PEOPLE_OF_SETS[each.title]
        found |= {f"{name}, {people}": value for name, value in measure_similarities(cosines, each.same).items()}
        if people == HELD_OUT:
            found |= measure_ranking(unit.numpy(), each.people_on_images)
    return found


def measure_similarities(cosines: npt.NDArray[np.float32], same: npt.NDArray[np.bool_]) -> Measured:
    """Return `separation_and_range` of the similarities of pairs, and the two histograms."""
    return {
        **separation_and_range(cosines, same),
        "histogram same": np.histogram(cosines[same], SIMILARITY_BINS)[0].astype(np.int16),
        "histogram other": np.histogram(cosines[~same], SIMILARITY_BINS)[0].astype(np.int16),
    }


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
