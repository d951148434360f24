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

from hypersphere.data import ImageSource, Subset
from hypersphere.evaluation import embed
from hypersphere.geometry import class_margin, normalize, sample_margins
from hypersphere.heads import Head
from hypersphere.training import Recipe, run_embedder
from hypersphere_papers.engine.face_searches import HELD_OUT, LFW, SEARCHED

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
    "precisions": Metric("mAP", "%"),
    "rank-1": Metric("rank-1", "%"),
    "rank-10": Metric("rank-10", "%"),
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


def embedder(recipe: Recipe, network: nn.Module, device: str) -> Embed:
    """Images to embeddings on the CPU."""
    model = run_embedder(recipe, network, device)
    return lambda source: embed(model, source, batch_size=500)


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
    """Accuracy on new images of the classes trained on, and the margins of largest-margins eqs. 2.2 and 2.5.

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
        `logit spread`, the standard deviation of the logits without their biases; `norm`, the mean of ||x||; `train
        accuracy` in per cent; and `train similarity` and `train sample margin` as of `measure_classes`, with their
        histograms, in which every class counts alike.
    """
    few = np.linspace(0, len(train) - 1, min(5000, len(train))).astype(np.int64)
    raw, labels = embed_(Subset(train, few)), torch.from_numpy(np.asarray(train.labels)[few])
    weight = head.weight.detach().float().cpu()
    own, margins = _similarities(raw, weight, labels)
    shares = 1 / np.bincount(labels.numpy())[labels.numpy()]
    numbers: Numbers = {
        "logit spread": float((raw @ weight.T).std()),
        "norm": float(raw.norm(dim=1).mean()),
        "train accuracy": 100 * float((logits_of(head, raw).argmax(1) == labels).float().mean()),
        "train similarity": float(np.average(own, weights=shares)),
        "train sample margin": float(np.average(margins, weights=shares)),
    }
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
