"""SFNet: the plain and residual nets of SphereFace Table 2, and the 28-layer net of center loss they come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Unpack

from torch import Tensor, nn

from hypersphere.backbones.base import BACKBONES, Backbone, Sizes, halved, xavier_
from hypersphere.backbones.neck import Necked
from hypersphere.core import check_range


def conv_prelu(inputs: int, outputs: int, *, stride: int = 1, padding: int = 1, norm: bool = False) -> list[nn.Module]:
    """A plain 3x3 layer: xavier, a bias unless BatchNorm follows, PReLU."""
    conv = nn.Conv2d(inputs, outputs, 3, stride, padding, bias=not norm)
    xavier_(conv)
    return [conv, *([nn.BatchNorm2d(outputs)] if norm else []), nn.PReLU(outputs)]


class Unit(nn.Module):
    """A residual unit: two 3x3 layers, each with its PReLU, added to the input; nothing after the sum.

    The released nets hold the biases of these layers at zero; here they are absent unless `bias`. With
    `prelu_after_sum` the second PReLU stands after the sum.
    """

    def __init__(self, width: int, norm: bool = False, *, bias: bool = False, prelu_after_sum: bool = False) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for _ in range(2):
            conv = nn.Conv2d(width, width, 3, padding=1, bias=bias and not norm)
            nn.init.normal_(conv.weight, std=0.01)
            if conv.bias is not None:
                nn.init.zeros_(conv.bias)
            layers += [conv, *([nn.BatchNorm2d(width)] if norm else []), nn.PReLU(width)]
        self.last = layers.pop() if prelu_after_sum else nn.Identity()
        self.body = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x)
        total: Tensor = self.last(y.add_(x))
        return total


class SFNet(Necked):
    """SphereFace Table 2: four stages, each a 3x3 layer of stride 2 and residual units, then FC1.

    PReLU; plain layers start by xavier, those in residual units from N(0, 0.01), as in the released models.

    Args:
        batch_norm: BatchNorm after every convolution, whose bias it replaces; the papers' nets have none.
        bias: the bias of FC1. The biases that SphereFace Table 6 removes are those of the classifier, which is in the
            head: `softmax` with `bias=False`.
        unit_bias: biases in residual units too, as the PyTorch versions of others have them; none beside BatchNorm.
        prelu_after_sum: the second PReLU of a residual unit stands after the sum, as in OpenSphere, whose own are ReLU:
            a slope of zero.
        bnneck: BatchNorm without bias as the last layer, as of `resnet50`.
        sizes: as `Backbone`.

    References:
        Liu et al., SphereFace, CVPR 2017, Table 2.
    """

    units: ClassVar[tuple[int, int, int, int]]
    """Residual units of the four stages."""

    def __init__(
        self,
        *,
        batch_norm: bool = False,
        bias: bool = True,
        unit_bias: bool = False,
        prelu_after_sum: bool = False,
        bnneck: bool = False,
        **sizes: Unpack[Sizes],
    ) -> None:
        super().__init__(**sizes)
        widths = (self.channels, 64, 128, 256, 512)
        self.body = nn.ModuleList(
            nn.Sequential(
                *conv_prelu(inputs, outputs, stride=2, norm=batch_norm),
                *(Unit(outputs, batch_norm, bias=unit_bias, prelu_after_sum=prelu_after_sum) for _ in range(count)),
            )
            for inputs, outputs, count in zip(widths, widths[1:], self.units, strict=False)
        )
        height, width = halved(self.seen_size, 4)
        self.fc = nn.Linear(512 * height * width, self.dim, bias=bias)
        xavier_(self.fc)
        self.add_neck(bnneck)

    def stages(self) -> Sequence[Sequence[nn.Module]]:
        return [[stage] for stage in self.body]

    def features(self, x: Tensor) -> Tensor:
        return self.finish(x, self.fc)


@BACKBONES.register("sfnet4")
class SFNet4(SFNet):
    """SFNet with 4 convolutions and no residual unit."""

    units = (0, 0, 0, 0)


@BACKBONES.register("sfnet10")
class SFNet10(SFNet):
    """SFNet with 10 convolutions."""

    units = (0, 1, 2, 0)


@BACKBONES.register("sfnet20")
class SFNet20(SFNet):
    """SFNet with 20 convolutions."""

    units = (1, 2, 4, 1)


@BACKBONES.register("sfnet36")
class SFNet36(SFNet):
    """SFNet with 36 convolutions."""

    units = (2, 4, 8, 2)


@BACKBONES.register("sfnet64")
class SFNet64(SFNet):
    """SFNet with 64 convolutions."""

    units = (3, 8, 16, 3)


@BACKBONES.register("resnet28")
class ResNet28(Backbone):
    """The net of center loss ("Wen's model" of NormFace sec. 5.1): 27 convolutions and FC.

    Two 3x3 layers without padding, then 1, 2, 5, 3 residual units of width 64, 128, 256, 512; before each but the first
    stage a 3x3 layer without padding, before every stage a 2x2 maximum. Starts as `SFNet`.

    Args:
        dropout: share of the embedding that is dropped in training ("softmax + dropout" of NormFace Table 2).
        bias: the bias of the last layer.
        sizes: as `Backbone`.

    References:
        Wen et al., A Discriminative Feature Learning Approach for Deep Face Recognition, ECCV 2016 (the released net).
    """

    least_size = 48

    def __init__(self, *, dropout: float = 0.0, bias: bool = True, **sizes: Unpack[Sizes]) -> None:
        super().__init__(**sizes)
        stem = conv_prelu(self.channels, 32, padding=0)
        self.body = nn.ModuleList(
            nn.Sequential(
                *(stem if inputs == 32 else []),
                *conv_prelu(inputs, outputs, padding=0),
                nn.MaxPool2d(2),
                *(Unit(outputs) for _ in range(count)),
            )
            for inputs, outputs, count in ((32, 64, 1), (64, 128, 2), (128, 256, 5), (256, 512, 3))
        )
        height, width = map(self.last_length, self.seen_size)
        self.fc = nn.Linear(512 * height * width, self.dim, bias=bias)
        xavier_(self.fc)
        self.dropout = nn.Dropout(check_range("dropout", dropout, 0, 1))

    @staticmethod
    def last_length(length: int) -> int:
        """Height or width of the last map."""
        for lost in (4, 2, 2, 2):
            length = (length - lost) // 2
        return length

    def stages(self) -> Sequence[Sequence[nn.Module]]:
        return [[stage] for stage in self.body]

    def embed(self, x: Tensor) -> Tensor:
        return self.finish(x, self.fc, self.dropout)
