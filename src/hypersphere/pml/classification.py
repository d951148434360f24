"""pytorch-metric-learning's classification losses; docs/from-pytorch-metric-learning.md lists where values differ."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from hypersphere.core import check_integer, check_positive
from hypersphere.heads import create_head

_INSTEAD = {
    "distance": "the losses here always compare by the cosine",
    "reducer": "give reduction='none' for a loss of every sample and reduce it yourself",
    "weight_regularizer": "add=, for example add={'zero_centroid': {'weight': 5}}",
    "weight_reg_weight": "add=, whose entries have a weight each",
    "embedding_regularizer": "add a term of your own to the loss",
    "embedding_reg_weight": "add a term of your own to the loss",
    "weight_init_func": "initialise `loss.head.weight` yourself, or give prototype_norm",
    "collect_stats": "loss.head.nearest(embeddings, labels) has the cosines",
}
"""Keywords of theirs that are not taken, and what to do instead."""

_OWN_START = ("prototypes", "prototype_norm", "shard")


class ClassificationLoss(nn.Module):
    """A head behind the constructor and the call of pytorch-metric-learning.

    Prototypes are drawn as theirs, from N(0, 1) in the order of a (embedding_size, num_classes) matrix: the same seed
    gives the same ones. With `prototypes`, `prototype_norm` or `shard` they are those of `create_head`.
    A state dict of theirs, with `W`, can be loaded.

    Args:
        name: the loss, one of `list_heads()`.
        num_classes: number of prototypes, at least 2.
        embedding_size: width of the embeddings.
        length: what the embeddings are multiplied by, for losses that see their lengths.
        options: keywords of `create_head`: the loss's own, and `engine`, `shard`, `sample`, `reduction` ...

    Inputs:
        embeddings (N, embedding_size) and integer labels (N,), which are moved to the embeddings' device.
    """

    def __init__(
        self, name: str, num_classes: int, embedding_size: int, *, length: float = 1.0, **options: Any
    ) -> None:
        super().__init__()
        for key in options.keys() & _INSTEAD.keys():
            raise ValueError(f"{key} of pytorch-metric-learning is not taken here; instead: {_INSTEAD[key]}")
        check_integer("embedding_size", embedding_size, 1)
        self.length = check_positive("scale", length)
        if options.keys() & set(_OWN_START):
            self.head = create_head(name, dim=embedding_size, num_classes=num_classes, **options)
            return
        with torch.random.fork_rng(devices=[]):
            self.head = create_head(name, dim=embedding_size, num_classes=num_classes, **options)
        with torch.no_grad():
            self.head.weight.copy_(torch.randn(embedding_size, num_classes).T)

    @property
    def W(self) -> Tensor:  # noqa: N802
        """(embedding_size, num_classes): the prototypes as columns, a view of `head.weight`."""
        return self.head.weight.T

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        indices_tuple: None = None,
        ref_emb: None = None,
        ref_labels: None = None,
    ) -> Tensor:
        """Return the loss of a batch, the mean over its rows."""
        for name, value in (("indices_tuple", indices_tuple), ("ref_emb", ref_emb), ("ref_labels", ref_labels)):
            if value is not None:
                raise ValueError(f"{name} must be None: this loss compares embeddings with prototypes, without a miner")
        if isinstance(labels, Tensor) and isinstance(embeddings, Tensor):
            labels = labels.to(embeddings.device)
        loss: Tensor = self.head(self._scaled(embeddings), labels)
        return loss

    def get_logits(self, embeddings: Tensor) -> Tensor:
        """Return (N, num_classes): what the loss compares before its margin; without a gradient."""
        return self.head.logits(self._scaled(embeddings))

    def _scaled(self, embeddings: Tensor) -> Tensor:
        return embeddings if self.length == 1 else embeddings * self.length

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Take up a state of ours, or one of theirs, which has the transposed prototypes as `W`."""
        theirs = state_dict.pop(f"{prefix}W", None)
        if theirs is not None:
            for key, value in self.state_dict(prefix=prefix).items():
                state_dict.setdefault(key, value)
            state_dict[f"{prefix}head.weight"] = theirs.T
        super()._load_from_state_dict(state_dict, prefix, *rest)


class ArcFaceLoss(ClassificationLoss):
    """`arcface` with its margin in degrees.

    Args:
        num_classes, embedding_size: of the prototypes.
        margin: in degrees, 0 to 90.
        scale: s.
        options: keywords of `create_head`.

    Example:
        >>> loss = ArcFaceLoss(num_classes=10_572, embedding_size=512)(embeddings, labels)
    """

    def __init__(
        self, num_classes: int, embedding_size: int, margin: float = 28.6, scale: float = 64, **options: Any
    ) -> None:
        if not 0 <= margin <= 90:
            raise ValueError(f"margin={margin!r} must lie between 0 and 90: it is in degrees")
        super().__init__("arcface", num_classes, embedding_size, margin=math.radians(margin), scale=scale, **options)


class CosFaceLoss(ClassificationLoss):
    """`cosface`.

    Args:
        num_classes, embedding_size: of the prototypes.
        margin: m, 0 to 2.
        scale: s.
        options: keywords of `create_head`.

    Example:
        >>> loss = CosFaceLoss(num_classes=10_572, embedding_size=512)(embeddings, labels)
    """

    def __init__(
        self, num_classes: int, embedding_size: int, margin: float = 0.35, scale: float = 64, **options: Any
    ) -> None:
        super().__init__("cosface", num_classes, embedding_size, margin=margin, scale=scale, **options)


class NormalizedSoftmaxLoss(ClassificationLoss):
    """`normface` with a fixed scale of 1 / temperature.

    Args:
        num_classes, embedding_size: of the prototypes.
        temperature: 1 / s.
        options: keywords of `create_head`.

    Example:
        >>> loss = NormalizedSoftmaxLoss(num_classes=10_572, embedding_size=512)(embeddings, labels)
    """

    def __init__(self, num_classes: int, embedding_size: int, temperature: float = 0.05, **options: Any) -> None:
        scale = 1 / check_positive("temperature", temperature)
        super().__init__("normface", num_classes, embedding_size, scale=scale, learnable_scale=False, **options)


class LargeMarginSoftmaxLoss(ClassificationLoss):
    """`l_softmax` without annealing: logits scale ||w|| ||x|| psi(theta_y) and scale ||w|| ||x|| cos_j.

    Args:
        num_classes, embedding_size: of the prototypes.
        margin: m, one of 1, 2, 3, 4.
        scale: multiplies the length of the embeddings.
        options: keywords of `create_head`.

    Example:
        >>> loss = LargeMarginSoftmaxLoss(num_classes=10_572, embedding_size=512)(embeddings, labels)
    """

    loss = "l_softmax"

    def __init__(
        self, num_classes: int, embedding_size: int, margin: int = 4, scale: float = 1, **options: Any
    ) -> None:
        options = {"anneal": None, **options}
        super().__init__(self.loss, num_classes, embedding_size, margin=margin, length=scale, **options)


class SphereFaceLoss(LargeMarginSoftmaxLoss):
    """`sphereface` without annealing: logits scale ||x|| psi(theta_y) and scale ||x|| cos_j.

    It takes the arguments of `LargeMarginSoftmaxLoss`.

    Example:
        >>> loss = SphereFaceLoss(num_classes=10_572, embedding_size=512)(embeddings, labels)
    """

    loss = "sphereface"
