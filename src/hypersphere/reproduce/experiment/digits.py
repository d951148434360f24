"""MNIST for the `real` items: reading it, and one small training loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hypersphere.backbones import create_backbone
from hypersphere.core import Reporter, check_integer
from hypersphere.core.read_arrays import read_npz
from hypersphere.data import open_mnist
from hypersphere.heads import Head, create_head

_SIZE = (28, 28)
_PIECE = 2000


@dataclass(frozen=True, eq=False)
class Digits:
    """Images (N, 28, 28) of bytes, and labels (N,) of 0 to 9."""

    images: Tensor = field(repr=False)
    labels: Tensor = field(repr=False)

    def pixels(self, chosen: Tensor | slice) -> Tensor:
        """(n, 1, 28, 28) in [-1, 1]."""
        return self.images[chosen][:, None].float() / 127.5 - 1

    def some(self, count: int) -> Digits:
        """So many of them at random, always the same: a file may be sorted by class."""
        chosen = torch.randperm(len(self.labels), generator=torch.Generator().manual_seed(0))[:count]
        return Digits(self.images[chosen], self.labels[chosen])

    def to(self, device: str) -> Digits:
        """The same, elsewhere."""
        return Digits(self.images.to(device), self.labels.to(device))


def open_digits(path: Path | None) -> tuple[Digits, Digits]:
    """MNIST's training and test images.

    Args:
        path: a folder of idx files, plain or gzipped, or an `.npz` file with `train_images`, `train_labels`,
            `test_images` and `test_labels`.
    """
    if path is None:
        raise ValueError("this item needs MNIST: give its path with --data")
    if path.is_dir():
        sources = [open_mnist(path, split) for split in ("train", "test")]
        arrays = [np.stack([source.read(i) for i in range(len(source))])[..., 0] for source in sources]
        return _digits(arrays[0], sources[0].labels), _digits(arrays[1], sources[1].labels)
    names = [f"{split}_{what}" for split in ("train", "test") for what in ("images", "labels")]
    try:
        found = read_npz(path)
    except ValueError as error:
        raise ValueError(f"{error}; expected that, or a folder of idx files") from None
    missing = [name for name in names if name not in found]
    if missing:
        raise ValueError(f"{path}: no {', '.join(missing)}; expected {', '.join(names)}")
    train_images, train_labels, test_images, test_labels = (found[name] for name in names)
    return _digits(train_images, train_labels), _digits(test_images, test_labels)


def _digits(images: Any, labels: Any) -> Digits:
    if images.dtype != np.uint8 or images.shape[1:] != _SIZE or labels.shape != images.shape[:1]:
        raise ValueError(f"MNIST has bytes (N, 28, 28) and labels (N,), not {images.shape} and {labels.shape}")
    return Digits(torch.from_numpy(np.ascontiguousarray(images)), torch.from_numpy(labels.astype(np.int64)))


class DeeperLeNet(nn.Sequential):
    """LeNet with two 3 x 3 convolutions a stage, of width 16, 32 and 64, with PReLU.

    NormFace's toy has "a deeper LeNet" that it does not print. It learns 2-D features of digits where the 4-layer CNN
    of Largest Margins does not.

    Args:
        dim: width of the features.
        last_relu: a ReLU on them; they then start above zero, for a feature below it would never learn.
    """

    def __init__(self, dim: int, *, last_relu: bool = False) -> None:
        stages = [layer for sizes in ((1, 16), (16, 32), (32, 64)) for layer in _stage(*sizes)]
        last = nn.Linear(64 * 3 * 3, dim)
        super().__init__(*stages, nn.Flatten(), last, *([nn.ReLU()] if last_relu else []))
        if last_relu:
            nn.init.normal_(last.weight, std=0.05)
            nn.init.constant_(last.bias, 2.0)


def _stage(inputs: int, outputs: int) -> list[nn.Module]:
    first, second = nn.Conv2d(inputs, outputs, 3, padding=1), nn.Conv2d(outputs, outputs, 3, padding=1)
    for layer in (first, second):
        nn.init.kaiming_normal_(layer.weight)
    return [first, nn.PReLU(outputs), second, nn.PReLU(outputs), nn.MaxPool2d(2)]


def small_network(dim: int) -> nn.Module:
    """The 4-layer CNN of Largest Margins."""
    return create_backbone("cnn4", dim=dim, input_size=_SIZE, channels=1)


@dataclass(frozen=True)
class TrainedDigits:
    """A network in eval mode and its head, on the CPU."""

    network: nn.Module
    head: Head

    def bias(self) -> Tensor:
        """(10,) biases of the last layer; zeros where it has none."""
        found = getattr(self.head.objective, "bias", None)
        return found.detach() if isinstance(found, Tensor) else torch.zeros(10)

    @torch.no_grad()
    def features(self, digits: Digits) -> Tensor:
        """(N, dim) embeddings."""
        starts = range(0, len(digits.labels), _PIECE)
        return torch.cat([self.network(digits.pixels(slice(at, at + _PIECE))) for at in starts])


_WARMUP, _MEASURED = 2, 8


def seconds_a_step(digits: Digits, loss: str, *, batch_size: int, **settings: Any) -> float:
    """Return how long a step of `train_digits` takes, from a few that are thrown away.

    Args:
        digits, loss, batch_size, settings: as there, without `epochs`.
    """
    times = [time.monotonic()]

    def note(done: int, total: int) -> None:
        times.append(time.monotonic())

    few = digits.some(batch_size * (_WARMUP + _MEASURED))
    train_digits(few, loss, epochs=1, batch_size=batch_size, progress=note, **settings)
    first = min(_WARMUP, len(times) - 2)
    return (times[-1] - times[first]) / (len(times) - 1 - first)


def train_digits(
    digits: Digits,
    loss: str,
    *,
    epochs: int,
    dim: int,
    network: Callable[[int], nn.Module] = small_network,
    options: Mapping[str, Any] | None = None,
    rate: float = 0.01,
    decay: float = 1e-4,
    batch_size: int = 256,
    seed: int = 0,
    progress: Reporter | None = None,
    watch: Callable[[int, Head], None] | None = None,
) -> TrainedDigits:
    """SGD with momentum 0.9 and cosine annealing (Largest Margins App. C.2); on a GPU where there is one.

    No augmentation. Prototypes that the loss normalises start as torch's linear layer does: for them a shorter start
    would be a larger rate.

    Args:
        digits: to train on.
        loss: of `create_head`.
        epochs: times that every image is seen.
        dim: width of the features.
        network: made with the width.
        options: of the loss.
        rate, decay, batch_size: of SGD.
        seed: of start and order.
        progress: called with steps.
        watch: called with the step and the head after every one.
    """
    check_integer("epochs", epochs, 1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    here = digits.to(device)
    torch.manual_seed(seed)
    net = network(dim).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    head = create_head(loss, dim=dim, num_classes=10, engine="dense", validate=False, **(options or {}))
    if head.objective.normalizes_prototypes:
        nn.init.uniform_(head.weight, -(dim**-0.5), dim**-0.5)
    net.to(device)
    head.to(device)
    optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=rate, momentum=0.9, weight_decay=decay)
    each = len(digits.labels) // batch_size
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * each)
    order = torch.Generator().manual_seed(seed)
    for epoch in range(epochs):
        shuffled = torch.randperm(len(digits.labels), generator=order).to(device)
        for number in range(each):
            chosen = shuffled[number * batch_size : (number + 1) * batch_size]
            optimizer.zero_grad()
            head(net(here.pixels(chosen)), here.labels[chosen]).backward()
            optimizer.step()
            head.advance()
            schedule.step()
            step = epoch * each + number + 1
            if progress is not None:
                progress(step, epochs * each)
            if watch is not None:
                watch(step, head)
    if not bool(head.weight.isfinite().all()):
        raise ValueError(f"{loss} diverged with seed {seed} at rate {rate:g}")
    return TrainedDigits(net.eval().cpu(), head.eval().cpu())
