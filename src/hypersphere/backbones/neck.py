"""BNNeck: BatchNorm between the features that a triplet loss compares and the embeddings that an ID loss takes."""

from __future__ import annotations

from typing import Literal, overload

from torch import Tensor, nn

from hypersphere.backbones.base import Backbone


class Necked(Backbone):
    """A net that may end with a neck, and then gives the features before it too.

    References:
        Luo et al., Bag of Tricks and A Strong Baseline for Deep Person Re-identification, 2019, sec. 3.6.
    """

    bnneck: nn.Module

    def add_neck(self, bnneck: bool) -> None:
        """BatchNorm without bias as the last layer, or nothing."""
        self.bnneck = nn.BatchNorm1d(self.dim) if bnneck else nn.Identity()
        if isinstance(self.bnneck, nn.BatchNorm1d):
            self.bnneck.bias.requires_grad_(False)

    def features(self, x: Tensor) -> Tensor:
        """The last map to what the neck takes."""
        raise TypeError(f"{type(self).__name__} does not say what its neck takes")

    def embed(self, x: Tensor) -> Tensor:
        return self.finish(self.features(x), self.bnneck)

    @overload
    def forward(self, images: Tensor, *, before_neck: Literal[False] = False) -> Tensor: ...
    @overload
    def forward(self, images: Tensor, *, before_neck: Literal[True]) -> tuple[Tensor, Tensor]: ...
    def forward(self, images: Tensor, *, before_neck: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """The embeddings; with `before_neck`, these and the features (N, dim) that the neck takes."""
        if not before_neck:
            return super().forward(images)
        if isinstance(self.bnneck, nn.Identity):
            raise ValueError(f"before_neck=True needs a neck: make this {self.name} with bnneck=True")
        features = self.features(self.last_map(images))
        embeddings = self.finish(features, self.bnneck)
        return embeddings.relu() if self.last_relu else embeddings, features
