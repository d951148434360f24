"""Light CNN: nets whose activation is the larger of two feature maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Unpack

import torch
from torch import Tensor, nn

from hypersphere.backbones.base import BACKBONES, Backbone, Sizes, halved, xavier_
from hypersphere.core import check_range


class MaxFeatureMap(nn.Module):
    """max(first half, second half) of the channels (Light CNN eq. 2, MFM 2/1)."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.maximum(*x.chunk(2, dim=1))


def conv_mfm(inputs: int, outputs: int, kernel: int, xavier: bool = True) -> nn.Sequential:
    """A convolution to twice the outputs, and the larger of each two."""
    conv = nn.Conv2d(inputs, 2 * outputs, kernel, padding=kernel // 2)
    if xavier:
        xavier_(conv, bias=0.1)
    return nn.Sequential(conv, MaxFeatureMap())


class Unit(nn.Module):
    """A residual unit: two 3x3 layers with max-feature-map, added to the input.

    They start as torch's convolutions do, with a third of xavier's variance: under xavier itself, ten units grow a
    signal 300-fold.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*(conv_mfm(width, width, 3, xavier=False) for _ in range(2)))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x)
        return y.add_(x)


class LightCNN(Backbone):
    """Light CNN: a 5x5 layer, four groups of a 1x1 and a 3x3 layer, 2x2 maxima between, FC with max-feature-map.

    Made for 128x128 grey crops: `input_size=(128, 128), channels=1, dim=256`. Plain layers start by xavier with biases
    0.1, as the released training did.

    Args:
        dropout: share of the embedding that is dropped in training; the Caffe release has 0.7, the PyTorch one 0.5.
        bias: the bias of FC.
        sizes: as `Backbone`.

    References:
        Wu et al., A Light CNN for Deep Face Representation with Noisy Labels, TIFS 2018, Tables 2 and 3.
    """

    units: ClassVar[tuple[int, int, int, int]]
    """Residual units before the four groups."""

    def __init__(self, *, dropout: float = 0.0, bias: bool = True, **sizes: Unpack[Sizes]) -> None:
        super().__init__(**sizes)
        self.body = nn.ModuleList([nn.Sequential(conv_mfm(self.channels, 48, 5), _pool())])
        widths = (48, 96, 192, 128, 128)
        for number, count in enumerate(self.units):
            inputs, outputs = widths[number : number + 2]
            units = (Unit(inputs) for _ in range(count))
            group = (conv_mfm(inputs, inputs, 1), conv_mfm(inputs, outputs, 3))
            self.body.append(nn.Sequential(*units, *group, *([] if number == 2 else [_pool()])))
        height, width = halved(self.seen_size, 4)
        self.fc = nn.Linear(128 * height * width, 2 * self.dim, bias=bias)
        xavier_(self.fc, bias=0.1)
        self.mfm = MaxFeatureMap()
        self.dropout = nn.Dropout(check_range("dropout", dropout, 0, 1))

    def stages(self) -> Sequence[Sequence[nn.Module]]:
        return [[stage] for stage in self.body]

    def embed(self, x: Tensor) -> Tensor:
        return self.finish(x, self.fc, self.mfm, self.dropout)


def _pool() -> nn.MaxPool2d:
    return nn.MaxPool2d(2, ceil_mode=True)


@BACKBONES.register("lightcnn9")
class LightCNN9(LightCNN):
    """Light CNN with 9 convolutions ("Wu's model" of NormFace sec. 5.1, which counts FC too: 10)."""

    units = (0, 0, 0, 0)


@BACKBONES.register("lightcnn29")
class LightCNN29(LightCNN):
    """Light CNN with 29 convolutions."""

    units = (1, 2, 3, 4)
