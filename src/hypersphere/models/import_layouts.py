"""How others name the weights of networks that are backbones here: by their keys, with what must be filled in.

Every layout takes a state dict to the options of `create_backbone` and the weights under its names. What a layout does
not know stays in the state dict, for the error that names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hypersphere.backbones import BACKBONES

State = dict[str, Tensor]
_EPS = 1e-5
"""Of BatchNorm, in all of these networks."""
_WIDTHS = (64, 128, 256, 512)


@dataclass
class Mapped:
    """A network under its names here.

    Args:
        backbone: options of `create_backbone`, but for the sizes.
        state: weights by their names here.
        sources: the name in the file of each name here.
    """

    backbone: dict[str, Any]
    state: State = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)

    def take(self, given: State, old: str, new: str) -> None:
        """Move the parameters and statistics of one layer."""
        for suffix in ("weight", "bias", "running_mean", "running_var"):
            value = given.pop(f"{old}.{suffix}", None)
            if value is not None:
                self.state[f"{new}.{suffix}"] = value
                self.sources[f"{new}.{suffix}"] = f"{old}.{suffix}"


def map_arcface_torch(given: State) -> Mapped:
    """InsightFace's arcface_torch, and OpenSphere's IResNets: the names that are used here."""
    counts = tuple(_count(given, rf"layer{stage}\.(\d+)\.") for stage in range(1, 5))
    mapped = Mapped({"name": _named("iresnet", "blocks", counts), "bias": "fc.bias" in given})
    for name in list(given):
        if re.fullmatch(r"(layer[1-4]\.\d+\.)?(bn\d|conv\d|prelu|downsample\.\d|fc|features)\.\w+", name):
            mapped.state[name] = given.pop(name)
            mapped.sources[name] = name
    return mapped


def map_ir(given: State) -> Mapped:
    """AdaFace's and CVLface's `ir_18` to `ir_101`.

    They differ from IResNet in two places. The shortcut of the very first block takes every second pixel; here it is a
    1x1 convolution with BatchNorm, which are set to the identity. And the last BatchNorm has neither scale nor bias.
    """
    widths = [int(given[name].shape[0]) for name in _numbered(given, r"body\.(\d+)\.res_layer\.1\.weight")]
    counts = tuple(widths.count(width) for width in _WIDTHS)
    mapped = Mapped({"name": _named("iresnet", "blocks", counts), "bias": "output_layer.3.bias" in given})
    for place, new in enumerate(("conv1", "bn1", "prelu")):
        mapped.take(given, f"input_layer.{place}", new)
    number = 0
    for stage, count in enumerate(counts, start=1):
        for block in range(count):
            old, new = f"body.{number}", f"layer{stage}.{block}"
            for place, layer in enumerate(("bn1", "conv1", "bn2", "prelu", "conv2", "bn3")):
                mapped.take(given, f"{old}.res_layer.{place}", f"{new}.{layer}")
            for place in range(2):
                mapped.take(given, f"{old}.shortcut_layer.{place}", f"{new}.downsample.{place}")
            number += 1
    mapped.state.setdefault("layer1.0.downsample.0.weight", torch.eye(64)[:, :, None, None])
    for name, value in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1 - _EPS)):
        mapped.state.setdefault(f"layer1.0.downsample.1.{name}", torch.full((64,), value))
    mapped.take(given, "output_layer.0", "bn2")
    mapped.take(given, "output_layer.3", "fc")
    mapped.take(given, "output_layer.4", "features")
    mean = mapped.state.get("features.running_mean", torch.zeros(0))
    mapped.state.setdefault("features.weight", torch.ones_like(mean))
    mapped.state.setdefault("features.bias", torch.zeros_like(mean))
    return mapped


def map_sphereface_pytorch(given: State) -> Mapped:
    """clcarwin's `sphere20a`: SFNet with biases in its residual units, too."""
    layers = [_count(given, rf"conv{stage}_(\d+)\.") - 1 for stage in range(1, 5)]
    mapped = Mapped({"name": _named("sfnet", "units", tuple((count - 1) // 2 for count in layers)), "unit_bias": True})
    for stage, count in enumerate(layers):
        for layer in range(count):
            unit, second = divmod(layer - 1, 2)
            first = f"body.{stage}." if layer == 0 else f"body.{stage}.{2 + unit}.body."
            place = 2 * second if layer else 0
            mapped.take(given, f"conv{stage + 1}_{layer + 1}", f"{first}{place}")
            mapped.take(given, f"relu{stage + 1}_{layer + 1}", f"{first}{place + 1}")
    mapped.take(given, "fc5", "fc")
    return mapped


def map_opensphere(given: State) -> Mapped:
    """OpenSphere's SFNets: ReLU for PReLU, that of a residual unit after the sum; BatchNorm or not.

    A last BatchNorm is multiplied into the linear layer before it. The older form (`sfnet20_deprecated`), whose plain
    layers are called `conv`, has its ReLUs before the sum.
    """
    older, norm = "layer1.0.conv.weight" in given, "layer1.0.bn1.weight" in given
    counts = tuple(_count(given, rf"layer{stage}\.(\d+)\.") - 1 for stage in range(1, 5))
    backbone = {"batch_norm": norm, "unit_bias": not norm, "prelu_after_sum": not older}
    mapped = Mapped({"name": _named("sfnet", "units", counts), **backbone})
    width = 3 if norm else 2
    for stage, (count, channels) in enumerate(zip(counts, _WIDTHS, strict=True)):

        def slope(name: str, channels: int = channels) -> None:
            mapped.state[f"{name}.weight"] = torch.zeros(channels)

        old, new = f"layer{stage + 1}.0", f"body.{stage}"
        mapped.take(given, f"{old}.{'conv' if older else 'conv1'}", f"{new}.0")
        mapped.take(given, f"{old}.bn1", f"{new}.1")
        slope(f"{new}.{width - 1}")
        for unit in range(count):
            old, new = f"layer{stage + 1}.{unit + 1}", f"body.{stage}.{width + unit}"
            for layer in range(2):
                mapped.take(given, f"{old}.conv{layer + 1}", f"{new}.body.{width * layer}")
                mapped.take(given, f"{old}.bn{layer + 1}", f"{new}.body.{width * layer + 1}")
            slope(f"{new}.body.{width - 1}")
            slope(f"{new}.last" if not older else f"{new}.body.{2 * width - 1}")
    mapped.take(given, "fc", "fc")
    if "features.running_var" in given:
        _merge_last_norm(given, mapped)
    return mapped


def _merge_last_norm(given: State, mapped: Mapped) -> None:
    """g (W x + b - mean) / sqrt(var + eps) + beta as one linear layer, computed in double precision."""
    names = ("weight", "bias", "running_mean", "running_var")
    if any(f"features.{name}" not in given for name in names) or "fc.bias" not in mapped.state:
        return
    scale, shift, mean, variance = (given.pop(f"features.{name}").double() for name in names)
    factor = scale / (variance + _EPS).sqrt()
    weight, bias = mapped.state["fc.weight"].double(), mapped.state["fc.bias"].double()
    mapped.state["fc.weight"] = (factor[:, None] * weight).float()
    mapped.state["fc.bias"] = (factor * (bias - mean) + shift).float()


LAYOUTS: dict[str, tuple[str, Callable[[State], Mapped]]] = {
    "input_layer.0.weight": ("AdaFace or CVLface", map_ir),
    "conv1_1.weight": ("sphereface_pytorch", map_sphereface_pytorch),
    "layer1.0.downsample.0.weight": ("arcface_torch or OpenSphere (IResNet)", map_arcface_torch),
    "layer1.0.conv1.weight": ("OpenSphere (SFNet)", map_opensphere),
    "layer1.0.conv.weight": ("OpenSphere (older SFNet)", map_opensphere),
}
"""By a key that only its files have: whose layout it is, and its mapping; the first that is there counts."""


def _numbered(given: State, pattern: str) -> list[str]:
    """The names that match, by their number."""
    found = [(int(match[1]), name) for name in given if (match := re.match(pattern, name))]
    return [name for _, name in sorted(found)]


def _count(given: State, pattern: str) -> int:
    """One more than the largest number in names that match."""
    return 1 + max((int(match[1]) for name in given if (match := re.match(pattern, name))), default=-1)


def _named(family: str, attribute: str, counts: tuple[int, ...]) -> str:
    """The backbone of a family with so many blocks in its stages."""
    known = {name: getattr(BACKBONES[name], attribute) for name in BACKBONES.names(f"{family}*")}
    for name, own in known.items():
        if own == counts:
            return name
    listed = ", ".join(f"{name} {own}" for name, own in known.items())
    raise ValueError(f"its four stages have {counts} {attribute}; known are {listed}")
