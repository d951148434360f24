"""ResNet: those of CIFAR (3x3 stem) and ResNet-50 for re-identification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Unpack

from torch import Tensor, nn

from hypersphere.backbones.base import BACKBONES, Backbone, Sizes
from hypersphere.backbones.neck import Necked


class BasicBlock(nn.Module):
    """Two 3x3 layers with BatchNorm, added to the input or to its 1x1 projection; a ReLU after the sum."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(inputs, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y)).add_(self.downsample(x))
        out: Tensor = self.relu(y)
        return out


class Bottleneck(nn.Module):
    """1x1, 3x3 (of the stride) and 1x1 layers, the last four times as wide; otherwise as `BasicBlock`."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(inputs, 4 * width, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y)).add_(self.downsample(x))
        out: Tensor = self.relu(y)
        return out


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Module:
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


class ResNet(Backbone):
    """He et al.'s residual net up to its pooled features, which are not negative: their last layer is a ReLU.

    Parameters are named as in torchvision, whose ImageNet weights of ResNet-50 load with `strict=False`.

    Args:
        block: what the stages are made of.
        blocks: how many of them, for four stages.
        width: of the first stage; each of the others is twice as wide as the one before.
        small_images: a 3x3 stem that keeps the size; otherwise 7x7 and a maximum, both of stride 2.
        last_stride: of the fourth stage.
        projection: a linear layer without bias after pooling, so that embeddings may be negative. None: where `dim` is
            not the width of the pooled features.
        sizes: as `Backbone`.
    """

    def __init__(
        self,
        block: type[BasicBlock | Bottleneck],
        blocks: tuple[int, int, int, int],
        *,
        width: int = 64,
        small_images: bool,
        last_stride: int = 2,
        projection: bool | None = None,
        **sizes: Unpack[Sizes],
    ) -> None:
        super().__init__(**sizes)
        kernel, stride = (3, 1) if small_images else (7, 2)
        self.conv1 = nn.Conv2d(self.channels, width, kernel, stride, padding=kernel // 2, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.Identity() if small_images else nn.MaxPool2d(3, 2, padding=1)
        self.layer1 = _layer(block, width, width, blocks[0], 1)
        self.layer2 = _layer(block, width * block.expansion, 2 * width, blocks[1], 2)
        self.layer3 = _layer(block, 2 * width * block.expansion, 4 * width, blocks[2], 2)
        self.layer4 = _layer(block, 4 * width * block.expansion, 8 * width, blocks[3], last_stride)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        pooled = 8 * width * block.expansion
        if projection is False and self.dim != pooled:
            raise ValueError(f"dim={self.dim} needs a projection: the pooled features of {self.name} are {pooled} wide")
        projected = projection or self.dim != pooled
        self.projection = nn.Linear(pooled, self.dim, bias=False) if projected else nn.Identity()

    def stages(self) -> Sequence[Sequence[nn.Module]]:
        return [
            [self.conv1, self.bn1, self.relu, self.maxpool, self.layer1],
            [self.layer2],
            [self.layer3],
            [self.layer4, self.avgpool],
        ]

    def embed(self, x: Tensor) -> Tensor:
        return self.finish(x, self.projection)


def _layer(block: type[BasicBlock | Bottleneck], inputs: int, width: int, count: int, stride: int) -> nn.Sequential:
    rest = (block(width * block.expansion, width, 1) for _ in range(count - 1))
    return nn.Sequential(block(inputs, width, stride), *rest)


@BACKBONES.register("resnet18_cifar")
class ResNet18CIFAR(ResNet):
    """ResNet-18 for small images: a 3x3 stem without pooling (LM-Softmax App. C, CIFAR-10).

    Its pooled features are 512 wide: `dim=512` is the net of the paper, any other `dim` adds a linear layer.

    Args:
        projection: the linear layer even at `dim=512`, so that embeddings may be negative.
        sizes: as `Backbone`.

    References:
        He et al., Deep Residual Learning for Image Recognition, CVPR 2016.
    """

    least_size = 8
    blocks: ClassVar[tuple[int, int, int, int]] = (2, 2, 2, 2)
    width: ClassVar[int] = 64

    def __init__(self, *, projection: bool | None = None, **sizes: Unpack[Sizes]) -> None:
        super().__init__(BasicBlock, self.blocks, width=self.width, small_images=True, projection=projection, **sizes)


@BACKBONES.register("resnet10_cifar")
class ResNet10CIFAR(ResNet18CIFAR):
    """ResNet-18 for small images with one block a stage and half its width: a ninth of the products.

    For many runs on one card, as `papers/recipes/cifar10.toml` has them; no paper's net. Its pooled features are 256
    wide: any other `dim` adds a linear layer.
    """

    blocks = (1, 1, 1, 1)
    width = 32


@BACKBONES.register("resnet34_cifar")
class ResNet34CIFAR(ResNet18CIFAR):
    """ResNet-34 for small images (LM-Softmax App. C, CIFAR-100); otherwise as `ResNet18CIFAR`."""

    blocks = (3, 4, 6, 3)


@BACKBONES.register("resnet50")
class ResNet50(Necked, ResNet):
    """ResNet-50 for re-identification, and for ImageNet-LT.

    Its pooled features are 2048 wide: `dim=2048` is the net of the papers, any other `dim` adds a linear layer. The
    re-identification baseline: `dim=2048, input_size=(256, 128), last_stride=1, bnneck=True`. It takes the ID loss
    after the neck and the triplet loss before it: `embeddings, features = net(images, before_neck=True)`.

    Args:
        last_stride: of the fourth stage; 1 keeps a map twice as large.
        bnneck: BatchNorm without bias as the last layer.
        projection: the linear layer even at `dim=2048`, so that embeddings may be negative without BNNeck.
        sizes: as `Backbone`.

    References:
        He et al., Deep Residual Learning for Image Recognition, CVPR 2016 (stride in the 3x3 layer, as torchvision);
        Luo et al., Bag of Tricks and A Strong Baseline for Deep Person Re-identification, 2019.
    """

    least_size = 32

    def __init__(
        self, *, last_stride: int = 2, bnneck: bool = False, projection: bool | None = None, **sizes: Unpack[Sizes]
    ) -> None:
        if last_stride not in (1, 2):
            raise ValueError(f"last_stride={last_stride!r} must be 1 or 2")
        super().__init__(
            Bottleneck, (3, 4, 6, 3), small_images=False, last_stride=last_stride, projection=projection, **sizes
        )
        self.add_neck(bnneck)

    def features(self, x: Tensor) -> Tensor:
        return self.finish(x, self.projection)
