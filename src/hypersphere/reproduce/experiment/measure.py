"""What is measured of a trained network."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from hypersphere.data import Image, ImageSource, Indices, Subset
from hypersphere.evaluation import angular_fisher_score, embed, retrieve, verify_pairs
from hypersphere.geometry import class_margin, normalize, sample_margins
from hypersphere.heads import Head
from hypersphere.losses.pairs import Contrastive, Triplet
from hypersphere.pocket import verification_pairs
from hypersphere.reproduce.experiment.face_searches import HELD_OUT, LFW, SEARCHED
from hypersphere.reproduce.experiment.painted import IMAGES, UNSEEN, unseen_labels
from hypersphere.training import Recipe, TrainingStopped, run_embedder

PAIRS = 12_000
_SHOWN = 4000
"""Images of a kind of which a record keeps the features."""
BINS = np.linspace(-1, 1, 81)
MARGIN_BINS = np.linspace(-2, 2, 81)


@dataclass(frozen=True)
class Metric:
    """A number of a record, as tables show it.

    Args:
        label: what it is.
        unit: `%`, `degrees`, or none.
        digits: behind the point.
    """

    label: str
    unit: str = ""
    digits: int = 2

    @property
    def title(self) -> str:
        """`accuracy, %`."""
        return f"{self.label}, {self.unit}" if self.unit else self.label

    @property
    def bounds(self) -> tuple[float, float]:
        """What it can be."""
        return (0.0, 100.0) if self.unit == "%" else (-math.inf, math.inf)


_SEPARATION = Metric("distance of the two means over the deviation", digits=3)
_RANGE = Metric("range of 98 % of the cosines", digits=3)
METRICS: Mapping[str, Metric] = {
    "pairs": Metric("accuracy", "%"),
    "lfw": Metric("accuracy on LFW", "%"),
    "lfw inner": Metric("accuracy on LFW", "%"),
    "lfw euclidean": Metric("accuracy on LFW", "%"),
    "pairs inner": Metric("accuracy", "%"),
    "pairs euclidean": Metric("accuracy", "%"),
    "pairs mirror": Metric("accuracy with mirror images", "%"),
    "probes": Metric("rank-1", "%"),
    "precisions": Metric("mAP", "%"),
    "rank-1": Metric("rank-1", "%"),
    "rank-10": Metric("rank-10", "%"),
    "fisher": Metric("angular Fisher score", digits=4),
    **{f"separation, {people}": _SEPARATION for people in (HELD_OUT, LFW)},
    **{f"range, {people}": _RANGE for people in (HELD_OUT, LFW)},
    "accuracy": Metric("accuracy", "%"),
    "similarity": Metric("mean similarity", digits=3),
    "sample margin": Metric("mean sample margin", digits=3),
    "train similarity": Metric("mean similarity of training images", digits=3),
    "train sample margin": Metric("mean sample margin of training images", digits=3),
    "class margin": Metric("class margin", "degrees"),
    **{f"{name}, {people}": Metric(name, "%") for name in SEARCHED for people in (HELD_OUT, LFW)},
}
"""The numbers that items show, by their names in a record."""
Arrays = dict[str, npt.NDArray[Any]]
Numbers = dict[str, float]
Embed = Callable[[ImageSource], Tensor]


class _Labelled:
    """Labels without images, for choosing pairs."""

    labels = unseen_labels()


def unseen_pairs() -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The 12,000 pairs of unseen images: left, right, whether of one person."""
    return verification_pairs(_Labelled(), PAIRS, seed=0)  # type: ignore[arg-type]


def probes() -> npt.NDArray[np.int64]:
    """The images searched for: all but the first of every person, which is enrolled."""
    return np.flatnonzero(np.arange(UNSEEN * IMAGES) % IMAGES > 0)


def embedder(recipe: Recipe, network: nn.Module, device: str) -> Embed:
    """Images to embeddings on the CPU."""
    model = run_embedder(recipe, network, device)
    return lambda source: embed(model, source, batch_size=500)


def measure_people(embed_: Embed, unseen: ImageSource) -> tuple[Numbers, Arrays]:
    """Verification, identification and ranking of people never seen.

    Args:
        embed_: images to embeddings.
        unseen: 400 people with 10 images.

    Returns:
        Numbers in per cent where they are shares; `zero` is that of embeddings that are zero (after a last ReLU), which
        the angular Fisher score leaves out. Decisions: `pairs` at cosines, `pairs mirror` with the features of the
        flipped image added (NormFace Table 4), `probes` found first among 400, `precisions` of queries.
    """
    raw = embed_(unseen)
    directed = (raw != 0).any(1).numpy()
    unit = normalize(raw)
    left, right, same = unseen_pairs()
    merged = normalize(raw + embed_(Mirrored(unseen)))
    scores = {
        "pairs": (unit[left] * unit[right]).sum(1),
        "pairs mirror": (merged[left] * merged[right]).sum(1),
    }
    arrays: Arrays = {}
    numbers: Numbers = {}
    for name, values in scores.items():
        result = verify_pairs(values.numpy(), same)
        arrays[name] = result.right
        numbers[name] = 100 * float(result.right.mean())
        if name == "pairs":
            numbers["auc"] = 100 * result.roc.auc()
    labels = unseen_labels()
    try:
        with np.errstate(invalid="ignore"):
            numbers["fisher"] = angular_fisher_score(raw.numpy()[directed], labels[directed], replicates=1).value
    except ValueError as error:
        raise TrainingStopped(f"the network collapsed, so that its angular Fisher score is 0/0 ({error})") from None
    numbers["zero"] = 100 * float((~directed).mean())
    first = np.arange(UNSEEN) * IMAGES
    chosen = probes()
    found = (unit[chosen] @ unit[first].T).argmax(1).numpy() == labels[chosen]
    arrays["probes"], numbers["probes"] = found, 100 * float(found.mean())
    ranked = retrieve(
        unit[first].numpy(),
        unit[chosen].numpy(),
        labels[first],
        labels[chosen],
        np.zeros(len(first), np.int64),
        np.ones(len(chosen), np.int64),
    )
    arrays["precisions"] = ranked.average_precisions.astype(np.float32)
    numbers["precisions"] = 100 * ranked.mean_ap.value
    for rank, estimate in ranked.cmc.items():
        numbers[f"rank-{rank}"] = 100 * estimate.value
    return numbers, arrays


def measure_head(head: Head) -> tuple[Numbers, Arrays]:
    """Prototypes and biases."""
    weight = head.weight.detach().float().cpu()
    numbers: Numbers = {"class margin": math.degrees(float(class_margin(weight)))}
    bias = getattr(head.objective, "bias", None)
    arrays: Arrays = {}
    if isinstance(bias, Tensor):
        arrays["bias"] = np.atleast_1d(bias.detach().float().cpu().numpy())
    return numbers, arrays


def logits_of(head: Head, raw: Tensor) -> Tensor:
    """What the head's loss compares: inner products and biases, scaled where it learns a scale for every class, or
    cosines where it normalises prototypes.
    """
    weight = head.weight.detach().float().cpu()
    if head.objective.normalizes_prototypes:
        weight = normalize(weight)
    bias = getattr(head.objective, "bias", None)
    per_class = isinstance(bias, Tensor) and bias.dim() == 1 and not head.objective.normalizes_prototypes
    logits = raw @ weight.T + (bias.detach().float().cpu() if per_class else 0.0)  # type: ignore[union-attr]
    scale = getattr(head.objective, "class_scale", None)
    return logits if scale is None else logits * scale.detach().float().cpu()


def measure_classes(embed_: Embed, head: Head, new: ImageSource) -> tuple[Numbers, Arrays]:
    """Accuracy on new images of the people trained on, and the margins of largest-margins eqs. 2.2 and 2.5.

    Returns:
        `accuracy` in per cent, `similarity` to the own prototype and `sample margin`, both means of cosines, and the
        class margin in degrees. Decisions: `samples`; histograms of similarities and sample margins.
    """
    raw, labels = embed_(new), torch.from_numpy(np.asarray(new.labels))
    right = (logits_of(head, raw).argmax(1) == labels).numpy()
    own, margins = _similarities(raw, head.weight.detach().float().cpu(), labels)
    numbers, arrays = measure_head(head)
    numbers |= {
        "accuracy": 100 * float(right.mean()),
        "similarity": float(own.mean()),
        "sample margin": float(margins.mean()),
    }
    arrays |= {
        "samples": right,
        "histogram similarity": np.histogram(own, BINS)[0],
        "histogram margin": np.histogram(margins, MARGIN_BINS)[0],
    }
    return numbers, arrays


def measure_features(embed_: Embed, head: Head, train: ImageSource, new: ImageSource) -> Arrays:
    """Features of training and of new images, their labels, and the prototypes.

    Of more than 4,000 images that many are drawn by lot, and their features kept in half precision.
    """
    arrays: Arrays = {"prototypes": head.weight.detach().float().cpu().numpy()}
    for name, source in (("", train), ("new ", new)):
        many = len(source) > _SHOWN
        shown = Subset(source, drawn(len(source))) if many else source
        features = embed_(shown).numpy().astype(np.float32)
        arrays[f"{name}features"] = halved(features) if many else features
        arrays[f"{name}labels"] = np.asarray(shown.labels).astype(np.int16)
    return arrays


def drawn(count: int) -> npt.NDArray[np.int64]:
    """Which of so many images a record keeps the features of."""
    return np.random.default_rng(0).permutation(count)[:_SHOWN]


def halved(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same numbers in half precision; as they are where one is too large for it."""
    with np.errstate(over="ignore"):
        half = array.astype(np.float16)
    return half if np.isfinite(half).all() else array


def measure_fit(embed_: Embed, head: Head, train: ImageSource) -> tuple[Numbers, Arrays]:
    """How well a classifier fits, over at most 5,000 training images.

    Returns:
        `logit spread`, the standard deviation of the logits without their biases; `norm`, the mean of ||x||; and, but
        of losses of pairs, which train no prototypes, `train accuracy` in per cent and `train similarity` and `train
        sample margin` as of `measure_classes`, with their histograms, in which every class counts alike.
    """
    few = np.linspace(0, len(train) - 1, min(5000, len(train))).astype(np.int64)
    raw, labels = embed_(Subset(train, few)), torch.from_numpy(np.asarray(train.labels)[few])
    weight = head.weight.detach().float().cpu()
    numbers: Numbers = {"logit spread": float((raw @ weight.T).std()), "norm": float(raw.norm(dim=1).mean())}
    if isinstance(head.objective, Contrastive | Triplet):
        return numbers, {}
    numbers["train accuracy"] = 100 * float((logits_of(head, raw).argmax(1) == labels).float().mean())
    own, margins = _similarities(raw, weight, labels)
    shares = 1 / np.bincount(labels.numpy())[labels.numpy()]
    numbers["train similarity"] = float(np.average(own, weights=shares))
    numbers["train sample margin"] = float(np.average(margins, weights=shares))
    return numbers, {
        "train histogram similarity": np.histogram(own, BINS, weights=shares)[0],
        "train histogram margin": np.histogram(margins, MARGIN_BINS, weights=shares)[0],
    }


def _similarities(
    raw: Tensor, weight: Tensor, labels: Tensor
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Of every embedding the cosine to the prototype of its class, and its sample margin."""
    own = (normalize(raw) * normalize(weight)[labels]).sum(1)
    return own.numpy(), sample_margins(raw, weight, labels).float().numpy()


class Mirrored:
    """The images of a source, flipped left to right."""

    def __init__(self, source: ImageSource) -> None:
        self.source, self.labels, self.num_classes = source, source.labels, source.num_classes

    def __len__(self) -> int:
        return len(self.source)

    def read(self, index: int) -> Image:
        """One image, flipped."""
        return np.ascontiguousarray(self.source.read(index)[:, ::-1])

    def describe(self, index: int) -> str:
        """Which image this is, for messages."""
        return f"{self.source.describe(index)}, mirrored"

    def batch(self, indices: Indices) -> Tensor:
        """Images as a uint8 (B, C, H, W) tensor."""
        return self.source.batch(indices).flip(-1)
