"""Semi-siamese training (Du et al., ECCV 2020): prototypes for identities of two images, where learned ones fail.

The prototype of an identity is no parameter. It is the embedding of its latest *gallery* image by a second network, the
moving average of the one that is trained; the *probe* is another image of it. With the images (a, b) of each identity y
of the batch, f the trained network and g the average, the loss is

    L = 1/2 mean_y [ l(f(a); W with row y = g(b)) + l(f(b); W with row y = g(a)) ],

l any loss of the library on the prototypes W. The rows of all identities of the batch are exchanged likewise; the other
rows are what g said of these identities when they came last. No gradient goes into W. The negatives are the identities
seen last, as many as the queue is long, each once, so that nobody is a negative of himself. (The released code queues
images instead, and draws no identity that is in the queue.)

With a decay d the average is 1 / (1 - d) steps behind. The published 0.999 goes with 71,000 steps; `train.gallery_ema`
gives g a decay of its own, apart from that of the average that is saved. `train.gallery_view = "plain"` shows g the
images as they are, so that a prototype is not that of an augmented image.

The scale s decides whether it learns at all. Cosines of variance v that know nothing of identities cost about
log C + s m + s^2 v / 2, and all embeddings in one point log C + s m: until cos_y is on average s v / 2 above the other
cosines, collapse is downhill, and these prototypes follow, which learned ones do not. A small s (8 to 16) gets past it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from hypersphere.core import check_range
from hypersphere.distributed import Group, World
from hypersphere.geometry import normalize
from hypersphere.heads import Head
from hypersphere.losses import Batch
from hypersphere.losses.sampled import Sample

VIEWS = 2
"""Images of every identity in a batch."""


class SemiSiamese:
    """The loss of probes against the moving average's embeddings.

    Args:
        head: with `starting_prototypes` and a buffer `seen`, of `remember`.
        gallery: the moving average. Its BatchNorm layers take the statistics of the batch, as in the released code,
            and its running statistics follow its own batches.
        queue: of how many identities the prototypes are negatives; all where there are not so many.
        world: the processes that train together: each sees the prototypes of all.
    """

    def __init__(self, head: Head, gallery: nn.Module, queue: int, world: World) -> None:
        self.head, self.gallery, self.queue = head, gallery, queue
        self.group = Group(torch.distributed.group.WORLD) if world.size > 1 else None  # type: ignore[arg-type]

    def loss(self, embeddings: Tensor, images: Tensor, labels: Tensor, autocast: AbstractContextManager[Any]) -> Tensor:
        """Return the loss of a batch, and move the prototypes on.

        Args:
            embeddings: of the trained network, (2 n, dim), the two of an identity side by side.
            images: of the same, what the gallery network sees.
            labels: (2 n,).
            autocast: the precision of the network.
        """
        head, own = self.head, labels[::VIEWS].contiguous()
        views = self._embedded(images, autocast)
        identities = own if self.group is None else self.group.all_gather(own).flatten()
        with torch.no_grad():
            of_first, of_second = (head.weight.index_copy(0, identities, view) for view in views)
            seen = head.get_buffer("seen")
            seen[identities] = seen.max() + 1 + torch.arange(len(identities), device=seen.device)
        if self.queue < head.num_classes:
            head.sampler = self.latest  # type: ignore[assignment]
        try:
            head.weight = of_first
            loss: Tensor = head(embeddings[1::VIEWS], own)
            head.weight = of_second
            loss = loss + head(embeddings[::VIEWS], own)
        finally:
            head.sampler = None
        return loss / VIEWS

    def latest(self, batch: Batch, weight: Tensor) -> Batch:
        """Return the batch with the prototypes of the identities seen last."""
        seen = self.head.get_buffer("seen")
        sample = Sample(seen.topk(self.queue).indices.sort().values, len(seen))
        return batch.sampled(sample, sample.rows(weight))

    @torch.no_grad()
    def _embedded(self, images: Tensor, autocast: AbstractContextManager[Any]) -> tuple[Tensor, Tensor]:
        """Return the unit embeddings of first and of second images by the average, of all processes."""
        layers = [layer for layer in self.gallery.modules() if isinstance(layer, _BatchNorm)]
        for layer in layers:
            layer.train()
        with autocast:
            embedded = self.gallery(images)
        for layer in layers:
            layer.eval()
        unit = normalize(embedded.to(self.head.weight.dtype))
        views = unit.view(len(unit) // VIEWS, VIEWS, -1)
        if self.group is not None:
            views = self.group.all_gather(views).flatten(0, 1)
        return views[:, 0], views[:, 1]


def starting_prototypes(identities: int, dim: int) -> Tensor:
    """Random unit vectors, for identities that have not come yet."""
    return normalize(torch.randn(identities, dim))


def remember(head: Head) -> None:
    """Give a head the place of every identity in the queue: the greater `seen`, the later it came."""
    head.register_buffer("seen", torch.arange(-head.num_classes, 0))


def check_semi_siamese(train: Any, head: Mapping[str, Any]) -> None:
    """Raise ValueError where the settings of a run cannot be had together.

    Args:
        train: `TrainSettings`.
        head: the recipe's table of the head.
    """
    queue, key = train.semi_siamese, "train.semi_siamese"
    if queue is None:
        if train.gallery_ema is not None or train.gallery_view != "augmented":
            raise ValueError(f"train.gallery_ema and train.gallery_view belong to {key}, the length of its queue")
        return
    check_range(key, queue, 2)
    if train.sampler != "identity" or train.images_per_identity != VIEWS:
        raise ValueError(f"{key} needs two images of each identity: train.sampler=identity, images_per_identity=2")
    if train.ema is None:
        raise ValueError(f"{key} needs the moving average whose embeddings are the prototypes: train.ema=0.999")
    if queue < train.batch_size // VIEWS:
        raise ValueError(f"{key}={queue} must be at least the {train.batch_size // VIEWS} identities of a batch")
    if train.mixup or train.cutmix or train.freeze_backbone:
        raise ValueError(f"{key} goes without train.mixup, train.cutmix and train.freeze_backbone")
    for name in ("sharded", "sample", "subcenters", "prototypes", "renormalize", "unit_gradients"):
        if head.get(name):
            raise ValueError(f"head.{name} is about learned prototypes: {key} has none")
