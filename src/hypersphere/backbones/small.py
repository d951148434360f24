"""The small net for digits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from torch import Tensor, nn

from hypersphere.backbones.base import BACKBONES, Sizes
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
        height, width = (((length - 2) // 2 - 2) // 2 for length in self.input_size)
        self.fc = nn.Linear(64 * height * width, self.dim, bias=bias)
        self.add_neck(bnneck)

    def stages(self) -> Sequence[Sequence[nn.Module]]:
        return [[stage] for stage in self.body]

    def features(self, x: Tensor) -> Tensor:
        return self.finish(x, self.fc)


def _layer(inputs: int, outputs: int) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, 3)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True), nn.MaxPool2d(2))
