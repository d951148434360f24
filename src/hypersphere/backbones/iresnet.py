"""IResNet: the improved residual nets of the ArcFace family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Unpack

from torch import Tensor, nn

from hypersphere.backbones.base import BACKBONES, Backbone, Sizes, halved
from hypersphere.core import check_range


class Block(nn.Module):
    """BN - conv - BN - PReLU - conv (of the stride) - BN, added to the input or to its 1x1 projection."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.prelu = nn.PReLU(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, stride, padding=1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = self.prelu(self.bn2(self.conv1(self.bn1(x))))
        y = self.bn3(self.conv2(y))
        total: Tensor = y.add_(self.downsample(x))
        return total


class IResNet(Backbone):
    """IResNet: the trunk keeps 112x112 in its stem and halves in all four stages; BN - dropout - FC - BN at the end.

    The scale of the last BatchNorm is held at 1: only the bias is learned. Convolutions start from N(0, 0.1).
    Parameters are named as in the weights that the field publishes.

    Args:
        dropout: share of the last map that is dropped in training.
        bias: the bias of FC (the BatchNorm after it has its own; published weights carry both).
        sizes: as `Backbone`.

    References:
        Deng et al., ArcFace, CVPR 2019, sec. 3.1; Duta et al., Improved Residual Networks, 2020.
    """

    blocks: ClassVar[tuple[int, int, int, int]]
    """Blocks of the four stages."""

    def __init__(self, *, dropout: float = 0.0, bias: bool = True, **sizes: Unpack[Sizes]) -> None:
        super().__init__(**sizes)
        self.conv1 = nn.Conv2d(self.channels, 64, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.prelu = nn.PReLU(64)
        self.layer1 = _layer(64, 64, self.blocks[0])
        self.layer2 = _layer(64, 128, self.blocks[1])
        self.layer3 = _layer(128, 256, self.blocks[2])
        self.layer4 = _layer(256, 512, self.blocks[3])
        self.bn2 = nn.BatchNorm2d(512)
        self.dropout = nn.Dropout(check_range("dropout", dropout, 0, 1))
        height, width = halved(self.seen_size, 4)
        self.fc = nn.Linear(512 * height * width, self.dim, bias=bias)
        self.features = nn.BatchNorm1d(self.dim)
        self.features.weight.requires_grad_(False)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.normal_(module.weight, std=0.1)

    def stages(self) -> Sequence[Sequence[nn.Module]]:
        return [
            [self.conv1, self.bn1, self.prelu, self.layer1],
            [self.layer2],
            [self.layer3],
            [self.layer4, self.bn2],
        ]

    def embed(self, x: Tensor) -> Tensor:
        return self.finish(self.dropout(x), self.fc, self.features)


def _layer(inputs: int, outputs: int, count: int) -> nn.Sequential:
    return nn.Sequential(Block(inputs, outputs, 2), *(Block(outputs, outputs, 1) for _ in range(count - 1)))


@BACKBONES.register("iresnet18")
class IResNet18(IResNet):
    """IResNet of 18 layers."""

    blocks = (2, 2, 2, 2)


@BACKBONES.register("iresnet34")
class IResNet34(IResNet):
    """IResNet of 34 layers."""

    blocks = (3, 4, 6, 3)


@BACKBONES.register("iresnet50")
class IResNet50(IResNet):
    """IResNet of 50 layers: two convolutions in a block, not three."""

    blocks = (3, 4, 14, 3)


@BACKBONES.register("iresnet100")
class IResNet100(IResNet):
    """IResNet of 100 layers."""

    blocks = (3, 13, 30, 3)
