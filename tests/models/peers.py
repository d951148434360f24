"""Stand-ins of others' weight files: the names and shapes of their keys, and what their networks compute from them.

Each network is stated twice, as a table of keys and as a plain computation on these keys, in double precision; neither
knows anything of this library's backbones.
"""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor
from torch.nn import functional

State = dict[str, Tensor]
Shapes = Iterator[tuple[str, tuple[int, ...]]]

BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 14, 3), 100: (3, 13, 30, 3), 200: (3, 26, 60, 3)}
UNITS = {4: (0, 0, 0, 0), 10: (0, 1, 2, 0), 20: (1, 2, 4, 1), 36: (2, 4, 8, 2), 64: (3, 8, 16, 3)}
WIDTHS = (64, 128, 256, 512)


def filled(shapes: Iterable[tuple[str, tuple[int, ...]]], seed: int = 0) -> State:
    """A state dict with numbers that keep signals of about their size through a deep network."""
    generator = torch.Generator().manual_seed(seed)
    state: State = {}
    for name, shape in shapes:
        if name.endswith("num_batches_tracked"):
            state[name] = torch.tensor(7)
        elif name.endswith("running_var"):
            state[name] = 0.5 + torch.rand(shape, generator=generator)
        elif len(shape) > 1:
            fan_in = torch.tensor(shape[1:]).prod()
            state[name] = torch.randn(shape, generator=generator) / fan_in.sqrt()
        else:
            start = 0.25 if "relu" in name else 0.0 if name.endswith(("bias", "running_mean")) else 1.0
            state[name] = start + 0.1 * torch.randn(shape, generator=generator)
    return state


def norm(name: str, width: int, affine: bool = True) -> Shapes:
    for suffix in ("weight", "bias") if affine else ():
        yield f"{name}.{suffix}", (width,)
    for suffix in ("running_mean", "running_var"):
        yield f"{name}.{suffix}", (width,)
    yield f"{name}.num_batches_tracked", ()


def normed(state: State, name: str, x: Tensor) -> Tensor:
    weight, bias = state.get(f"{name}.weight"), state.get(f"{name}.bias")
    return functional.batch_norm(
        x, state[f"{name}.running_mean"], state[f"{name}.running_var"], weight, bias, training=False, eps=1e-5
    )


def convolved(state: State, name: str, x: Tensor, stride: int = 1) -> Tensor:
    weight = state[f"{name}.weight"]
    return functional.conv2d(x, weight, state.get(f"{name}.bias"), stride, weight.shape[-1] // 2)


def activated(state: State, name: str, x: Tensor) -> Tensor:
    return functional.prelu(x, state[f"{name}.weight"])


def iresnet(depth: int, dim: int = 512) -> Shapes:
    """arcface_torch's and OpenSphere's `iresnet*`."""
    yield "conv1.weight", (64, 3, 3, 3)
    yield from norm("bn1", 64)
    yield "prelu.weight", (64,)
    inputs = 64
    for stage, (count, width) in enumerate(zip(BLOCKS[depth], WIDTHS, strict=True), start=1):
        for block in range(count):
            name = f"layer{stage}.{block}"
            yield from norm(f"{name}.bn1", inputs)
            yield f"{name}.conv1.weight", (width, inputs, 3, 3)
            yield from norm(f"{name}.bn2", width)
            yield f"{name}.prelu.weight", (width,)
            yield f"{name}.conv2.weight", (width, width, 3, 3)
            yield from norm(f"{name}.bn3", width)
            if block == 0:
                yield f"{name}.downsample.0.weight", (width, inputs, 1, 1)
                yield from norm(f"{name}.downsample.1", width)
            inputs = width
    yield from norm("bn2", 512)
    yield "fc.weight", (dim, 512 * 7 * 7)
    yield "fc.bias", (dim,)
    yield from norm("features", dim)


def run_iresnet(state: State, x: Tensor) -> Tensor:
    x = activated(state, "prelu", normed(state, "bn1", convolved(state, "conv1", x)))
    for stage in range(1, 5):
        block = 0
        while f"layer{stage}.{block}.conv1.weight" in state:
            name, stride = f"layer{stage}.{block}", 1 if block else 2
            y = convolved(state, f"{name}.conv1", normed(state, f"{name}.bn1", x))
            y = activated(state, f"{name}.prelu", normed(state, f"{name}.bn2", y))
            y = normed(state, f"{name}.bn3", convolved(state, f"{name}.conv2", y, stride))
            short = x if block else convolved(state, f"{name}.downsample.0", x, 2)
            x = y + (x if block else normed(state, f"{name}.downsample.1", short))
            block += 1
    flat = normed(state, "bn2", x).flatten(1)
    return normed(state, "features", flat @ state["fc.weight"].T + state["fc.bias"])


def ir(depth: int, dim: int = 512) -> Shapes:
    """AdaFace's and CVLface's `ir_*`; the one of 101 layers has the blocks of 100."""
    yield "input_layer.0.weight", (64, 3, 3, 3)
    yield from norm("input_layer.1", 64)
    yield "input_layer.2.weight", (64,)
    yield from norm("output_layer.0", 512)
    yield "output_layer.3.weight", (dim, 512 * 7 * 7)
    yield "output_layer.3.bias", (dim,)
    yield from norm("output_layer.4", dim, affine=False)
    inputs, number = 64, 0
    for count, width in zip(BLOCKS[depth], WIDTHS, strict=True):
        for _ in range(count):
            name = f"body.{number}"
            if inputs != width:
                yield f"{name}.shortcut_layer.0.weight", (width, inputs, 1, 1)
                yield from norm(f"{name}.shortcut_layer.1", width)
            yield from norm(f"{name}.res_layer.0", inputs)
            yield f"{name}.res_layer.1.weight", (width, inputs, 3, 3)
            yield from norm(f"{name}.res_layer.2", width)
            yield f"{name}.res_layer.3.weight", (width,)
            yield f"{name}.res_layer.4.weight", (width, width, 3, 3)
            yield from norm(f"{name}.res_layer.5", width)
            inputs, number = width, number + 1


def run_ir(state: State, x: Tensor) -> Tensor:
    x = activated(state, "input_layer.2", normed(state, "input_layer.1", convolved(state, "input_layer.0", x)))
    number, width = 0, 0
    while f"body.{number}.res_layer.1.weight" in state:
        name = f"body.{number}.res_layer"
        outputs = len(state[f"{name}.1.weight"])
        stride = 1 if outputs == width else 2
        y = convolved(state, f"{name}.1", normed(state, f"{name}.0", x))
        y = activated(state, f"{name}.3", normed(state, f"{name}.2", y))
        y = normed(state, f"{name}.5", convolved(state, f"{name}.4", y, stride))
        short = f"body.{number}.shortcut_layer"
        if f"{short}.0.weight" in state:
            x = y + normed(state, f"{short}.1", convolved(state, f"{short}.0", x, stride))
        else:
            x = y + x[:, :, ::stride, ::stride]
        number, width = number + 1, outputs
    flat = normed(state, "output_layer.0", x).flatten(1)
    return normed(state, "output_layer.4", flat @ state["output_layer.3.weight"].T + state["output_layer.3.bias"])


def sphere20a(dim: int = 512, classes: int = 10) -> Shapes:
    """clcarwin's network, with its classifier; every convolution has a bias."""
    inputs = 3
    for stage, (count, width) in enumerate(zip(UNITS[20], WIDTHS, strict=True), start=1):
        for layer in range(1, 2 + 2 * count):
            yield f"conv{stage}_{layer}.weight", (width, inputs, 3, 3)
            yield f"conv{stage}_{layer}.bias", (width,)
            yield f"relu{stage}_{layer}.weight", (width,)
            inputs = width
    yield "fc5.weight", (dim, 512 * 7 * 6)
    yield "fc5.bias", (dim,)
    yield "fc6.weight", (dim, classes)


def run_sphere20a(state: State, x: Tensor) -> Tensor:
    def layer(name: str, x: Tensor, stride: int = 1) -> Tensor:
        return activated(state, f"relu{name}", convolved(state, f"conv{name}", x, stride))

    for stage, count in enumerate(UNITS[20], start=1):
        x = layer(f"{stage}_1", x, 2)
        for unit in range(count):
            x = x + layer(f"{stage}_{2 * unit + 3}", layer(f"{stage}_{2 * unit + 2}", x))
    return x.flatten(1) @ state["fc5.weight"].T + state["fc5.bias"]


def sfnet(depth: int, batch_norm: bool, older: bool = False, dim: int = 512) -> Shapes:
    """OpenSphere's `sfnet*`; the older ones, `sfnet*_deprecated`, have no BatchNorm."""
    inputs = 3
    for stage, (count, width) in enumerate(zip(UNITS[depth], WIDTHS, strict=True), start=1):
        plain = [f"layer{stage}.0.{'conv' if older else 'conv1'}"]
        units = [f"layer{stage}.{unit + 1}.conv{layer}" for unit in range(count) for layer in (1, 2)]
        for name in plain + units:
            yield f"{name}.weight", (width, inputs, 3, 3)
            if batch_norm:
                yield from norm(name.replace("conv", "bn"), width)
            else:
                yield f"{name}.bias", (width,)
            inputs = width
    yield "fc.weight", (dim, 512 * 7 * 7)
    yield "fc.bias", (dim,)
    if batch_norm:
        yield from norm("features", dim)


def run_sfnet(state: State, x: Tensor) -> Tensor:
    older = "layer1.0.conv.weight" in state

    def layer(name: str, x: Tensor, stride: int = 1) -> Tensor:
        y, after = convolved(state, name, x, stride), name.replace("conv", "bn")
        return normed(state, after, y) if f"{after}.weight" in state else y

    for stage in range(1, 5):
        x = layer(f"layer{stage}.0.{'conv' if older else 'conv1'}", x, 2).relu()
        unit = 1
        while f"layer{stage}.{unit}.conv1.weight" in state:
            y = layer(f"layer{stage}.{unit}.conv2", layer(f"layer{stage}.{unit}.conv1", x).relu())
            x = x + y.relu() if older else (x + y).relu()
            unit += 1
    y = x.flatten(1) @ state["fc.weight"].T + state["fc.bias"]
    return normed(state, "features", y) if "features.weight" in state else y
