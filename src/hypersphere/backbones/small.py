"""The small nets for digits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from torch import Tensor, nn

from hypersphere.backbones.base import BACKBONES, Backbone, Sizes
from hypersphere.backbones.neck import Necked


@BACKBONES.register("cnn4")
class CNN4(Necked):
    """The "4-layer CNN" of LM-Softmax for MNIST: two 3x3 layers of 32 and 64, each with BatchNorm, ReLU and a 2x2
    maximum, and a linear layer; the prototypes are the fourth.

    Made for 28x28 grey images: `input_size=(28, 28), channels=1`.

    Args:
        bnneck: BatchNorm without bias as the last layer, as of `resnet50`.
        bias: the bias of the linear layer.
        sizes: as `Backbone`.

    References:
        Zhou et al., Learning Towards the Largest Margins, ICLR 2022, App. C.
    """

    least_size = 10

    def __init__(self, *, bnneck: bool = False, bias: bool = True, **sizes: Unpack[Sizes]) -> None:
        super().__init__(**sizes)
        self.body = nn.ModuleList(_layer(inputs, outputs) for inputs, outputs in ((self.channels, 32), (32, 64)))
        height, width = (((length - 2) // 2 - 2) // 2 for length in self.seen_size)
        self.fc = nn.Linear(64 * height * width, self.dim, bias=bias)
        self.add_neck(bnneck)

    def stages(self) -> Sequence[Sequence[nn.Module]]:
        return [[stage] for stage in self.body]

    def features(self, x: Tensor) -> Tensor:
        return self.finish(x, self.fc)


def _layer(inputs: int, outputs: int) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, 3)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True), nn.MaxPool2d(2))


@BACKBONES.register("lenet")
class LeNet(Backbone):
    """A LeNet with two 3x3 layers a stage, of 16, 32 and 64, each with PReLU, a 2x2 maximum, and a linear layer.

    NormFace's toy has "a deeper LeNet" that it does not print. This one learns 2-D features of digits where `cnn4` does
    not.

    Args:
        first_bias: of the linear layer, whose weights then start small: features that start well above zero, for after
            a last ReLU one below it would never learn.
        sizes: as `Backbone`.
    """

    least_size = 8

    def __init__(self, *, first_bias: float | None = None, **sizes: Unpack[Sizes]) -> None:
        super().__init__(**sizes)
        widths = ((self.channels, 16), (16, 32), (32, 64))
        self.body = nn.ModuleList(_twice(inputs, outputs) for inputs, outputs in widths)
        height, width = (length // 8 for length in self.seen_size)
        self.fc = nn.Linear(64 * height * width, self.dim)
        if first_bias is not None:
            nn.init.normal_(self.fc.weight, std=0.05)
            nn.init.constant_(self.fc.bias, first_bias)

    def stages(self) -> Sequence[Sequence[nn.Module]]:
        return [[stage] for stage in self.body]

    def embed(self, x: Tensor) -> Tensor:
        return self.finish(x, self.fc)


def _twice(inputs: int, outputs: int) -> nn.Sequential:
    first, second = nn.Conv2d(inputs, outputs, 3, padding=1), nn.Conv2d(outputs, outputs, 3, padding=1)
    for layer in (first, second):
        nn.init.kaiming_normal_(layer.weight)
    return nn.Sequential(first, nn.PReLU(outputs), second, nn.PReLU(outputs), nn.MaxPool2d(2))
