"""MobileFaceNet: a million parameters for faces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from torch import Tensor, nn

from hypersphere.backbones.base import BACKBONES, Backbone, Sizes, halved
from hypersphere.core import check_positive


def conv_bn(
    inputs: int, outputs: int, kernel: int | tuple[int, int] = 1, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    """A convolution with BatchNorm: an odd kernel keeps the size, one as large as the map reduces it to a point."""
    padding = kernel // 2 if isinstance(kernel, int) else 0
    conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out")
    return [conv, nn.BatchNorm2d(outputs)]


class Bottleneck(nn.Module):
    """1x1 to a wider space, 3x3 on each channel, 1x1 back without activation; added to the input where sizes agree."""

    def __init__(self, inputs: int, outputs: int, expansion: int, stride: int) -> None:
        super().__init__()
        wide = expansion * inputs
        self.body = nn.Sequential(
            *conv_bn(inputs, wide),
            nn.PReLU(wide),
            *conv_bn(wide, wide, 3, stride, groups=wide),
            nn.PReLU(wide),
            *conv_bn(wide, outputs),
        )
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x)
        return y.add_(x) if self.residual else y


@BACKBONES.register("mobilefacenet")
class MobileFaceNet(Backbone):
    """MobileFaceNet: inverted bottlenecks with PReLU, and at the end one learned weight per place and channel.

    That last depthwise convolution is as large as the last map, 7x7 for 112x112 images. The paper's embedding has 128
    numbers: `dim=128`.

    Args:
        width: factor on the channels of every layer, each rounded to a multiple of 8; with 1.4 and `dim=128` the net
            stores 1.85 million numbers, 3.7 MB in half precision.
        sizes: as `Backbone`.

    References:
        Chen et al., MobileFaceNets, CCBR 2018, Table 1.
    """

    def __init__(self, *, width: float = 1.0, **sizes: Unpack[Sizes]) -> None:
        super().__init__(**sizes)
        if not 0.125 <= check_positive("width", width) <= 8:
            raise ValueError(f"width={width} must be between 0.125 and 8")
        few, some, many = (8 * round(width * channels / 8) for channels in (64, 128, 512))
        self.stem = nn.Sequential(
            *conv_bn(self.channels, few, 3, 2), nn.PReLU(few), *conv_bn(few, few, 3, groups=few), nn.PReLU(few)
        )
        self.layer1 = _layer(few, few, 2, 5, 2)
        self.layer2 = nn.Sequential(*_layer(few, some, 4, 1, 2), *_layer(some, some, 2, 6, 1))
        self.layer3 = nn.Sequential(*_layer(some, some, 4, 1, 2), *_layer(some, some, 2, 2, 1))
        self.conv = nn.Sequential(*conv_bn(some, many), nn.PReLU(many))
        self.gdconv = nn.Sequential(*conv_bn(many, many, halved(self.seen_size, 4), groups=many))
        self.fc = nn.Linear(many, self.dim, bias=False)
        self.features = nn.BatchNorm1d(self.dim)

    def stages(self) -> Sequence[Sequence[nn.Module]]:
        return [[self.stem, self.layer1], [self.layer2], [self.layer3, self.conv, self.gdconv]]

    def embed(self, x: Tensor) -> Tensor:
        return self.finish(x, self.fc, self.features)


def _layer(inputs: int, outputs: int, expansion: int, count: int, stride: int) -> nn.Sequential:
    rest = (Bottleneck(outputs, outputs, expansion, 1) for _ in range(count - 1))
    return nn.Sequential(Bottleneck(inputs, outputs, expansion, stride), *rest)
