"""ONNX files as torch modules: the graph of a face recogniser, computed by torch on any device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from hypersphere.core import file_digest, import_extra
from hypersphere.models.contract import Contract, matched
from hypersphere.models.embedder import Embedder

Attributes = Mapping[str, Any]
Operator = Callable[[Sequence[Tensor], Attributes], Tensor]
Node = tuple[str, Operator, list[str], str, Attributes]


class UnsupportedOperator(ValueError):
    """The graph has an operator, or an attribute of one, that this reader does not know."""


def load_onnx_graph(path: str | Path, contract: Contract, *, device: str = "cpu") -> Embedder:
    """An ONNX network with one image input and one output, computed by torch.

    It needs the package onnx and no onnxruntime, and runs on a GPU with whatever torch is installed. A batch of any
    size is taken, whatever the file states.

    Args:
        path: the file.
        contract: how images are prepared.
        device: to compute on.

    Raises:
        UnsupportedOperator: the graph has an operator that is not among `OPERATORS`; the message names it.
    """
    path = Path(path)
    graph = OnnxGraph(path).to(device)
    shape = (2, contract.channels, *contract.input_size)
    try:
        with torch.no_grad():
            probe = graph(torch.zeros(shape, device=device))
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        # A damaged graph hands operators inputs and attributes of any kind and number.
        raise ValueError(f"{path}: cannot be run on images {shape[1:]} ({error})") from None
    if not isinstance(probe, Tensor) or probe.ndim != 2 or len(probe) != 2:
        raise ValueError(f"{path}: returns {tuple(probe.shape)} for two images; expected (2, dim)")
    complete = matched(contract, dim=probe.shape[1], digest=file_digest(path)[:16], where=str(path))
    return Embedder(complete, graph, device, path.name)


class OnnxGraph(nn.Module):
    """The graph of an ONNX file, for inference: its weights are buffers, and it has no parameters.

    Args:
        path: of a file with one input besides its weights, and one output.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        onnx = import_extra("onnx", "reading the graph of an ONNX file")
        if not path.is_file():
            raise ValueError(f"{path} is missing, or not a file")
        try:
            graph = onnx.load(path, load_external_data=False).graph
        except Exception as error:  # protobuf raises classes of its own for damaged files
            raise ValueError(f"{path}: not an ONNX file ({error})") from None
        self.names: dict[str, str] = {}
        for number, tensor in enumerate(graph.initializer):
            self._keep(number, tensor.name, tensor, onnx, path)
        self.nodes = [self._fixed_shape(_read(node, onnx, path), path) for node in graph.node]
        inputs = [each.name for each in graph.input if each.name not in self.names]
        outputs = [each.name for each in graph.output]
        if len(inputs) != 1 or len(outputs) != 1:
            raise ValueError(
                f"{path}: {len(inputs)} inputs and {len(outputs)} outputs ({', '.join(outputs)}); expected one of each"
            )
        self.input, self.output = inputs[0], outputs[0]
        made = {self.input, *self.names}
        for operator, _, sources, target, _ in self.nodes:
            missing = [name for name in sources if name not in made]
            if missing:
                raise ValueError(f"{path}: {operator} takes {missing[0]!r}, which nothing before it makes")
            made.add(target)
        if self.output not in made:
            raise ValueError(f"{path}: its output {self.output!r} is made by no node")
        self.last_use = {name: place for place, node in enumerate(self.nodes) for name in node[2]}

    def _keep(self, number: int, name: str, tensor: Any, onnx: Any, path: Path) -> None:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise ValueError(f"{path}: the weights {name!r} lie in another file; save the model as one file")
        try:
            value = torch.from_numpy(onnx.numpy_helper.to_array(tensor).copy())
        except Exception as error:
            raise ValueError(f"{path}: the weights {name!r} are damaged ({error})") from None
        self.names[name] = f"weight{number}"
        self.register_buffer(self.names[name], value)

    def _fixed_shape(self, node: Node, path: Path) -> Node:
        """A Reshape or Slice with its numbers as attributes: no device is asked for them at every call."""
        operator, compute, sources, target, attributes = node
        known = _FROM_INPUTS.get(operator)
        if known is None:
            return node
        if len(sources) != 1 + len(known) or any(name not in self.names for name in sources[1:]):
            raise UnsupportedOperator(f"{path}: {operator} without {', '.join(known)} in the file is unknown here")
        numbers = [getattr(self, self.names[name]).tolist() for name in sources[1:]]
        return operator, compute, sources[:1], target, {**attributes, **dict(zip(known, numbers, strict=True))}

    def forward(self, images: Tensor) -> Tensor:
        values = {self.input: images}
        for place, (_, compute, sources, target, attributes) in enumerate(self.nodes):
            arguments = [values[name] if name in values else getattr(self, self.names[name]) for name in sources]
            values[target] = compute(arguments, attributes)
            for name in sources:
                if self.last_use[name] == place and name != self.output:
                    values.pop(name, None)
        return values[self.output]


def _read(node: Any, onnx: Any, path: Path) -> Node:
    """An operator with its function, the names of its inputs and of its first output, and its attributes."""
    name, known = node.op_type, OPERATORS.get(node.op_type)
    if known is None or node.domain not in ("", "ai.onnx"):
        raise UnsupportedOperator(f"{path}: the operator {name} is unknown here; known are {', '.join(OPERATORS)}")
    compute, defaults = known
    given = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    for key, value in given.items():
        if key in _IGNORED.get(name, ()):
            continue
        if key not in defaults or (key in _FIXED and value != _FIXED[key]):
            raise UnsupportedOperator(f"{path}: {name} with {key}={value!r} is unknown here")
    sources = list(node.input)
    if name == "Dropout":
        sources = sources[:1]
    if not sources or not all(sources) or not node.output:
        raise UnsupportedOperator(f"{path}: {name} with an input or its output left out is unknown here")
    return name, compute, sources, node.output[0], {**defaults, **given}


def _conv(x: Sequence[Tensor], a: Attributes) -> Tensor:
    dims = x[1].ndim - 2
    pads = a["pads"] or [0] * (2 * dims)
    image = x[0]
    if pads[:dims] != pads[dims:]:
        both = zip(pads[:dims], pads[dims:], strict=True)
        image, pads = functional.pad(image, [each for pair in reversed(list(both)) for each in pair]), [0] * dims
    bias = x[2] if len(x) > 2 else None
    convolve = {1: functional.conv1d, 2: functional.conv2d}[dims]
    ones = [1] * dims
    return convolve(image, x[1], bias, a["strides"] or ones, pads[:dims], a["dilations"] or ones, a["group"])


def _batch_norm(x: Sequence[Tensor], a: Attributes) -> Tensor:
    return functional.batch_norm(x[0], x[3], x[4], x[1], x[2], training=False, eps=a["epsilon"])


def _prelu(x: Sequence[Tensor], _: Attributes) -> Tensor:
    images, slope = x
    if slope.numel() == 1 or (slope.ndim == images.ndim - 1 and slope.shape[0] == slope.numel()):
        return functional.prelu(images, slope.flatten().to(images.dtype))
    return torch.where(images > 0, images, slope.to(images.dtype) * images)


def _gemm(x: Sequence[Tensor], a: Attributes) -> Tensor:
    left, right = x[0].T if a["transA"] else x[0], x[1].T if a["transB"] else x[1]
    product = left @ right
    product = product if a["alpha"] == 1 else a["alpha"] * product
    return product if len(x) < 3 else product + (x[2] if a["beta"] == 1 else a["beta"] * x[2])


def _pool(x: Sequence[Tensor], a: Attributes, function: Callable[..., Tensor], **options: Any) -> Tensor:
    dims = x[0].ndim - 2
    pads = a["pads"] or [0] * (2 * dims)
    if dims != 2 or pads[:2] != pads[2:]:
        raise ValueError(f"pooling with pads={pads} of {x[0].ndim}-dimensional values is unknown here")
    return function(x[0], a["kernel_shape"], a["strides"] or [1, 1], pads[:2], **options)


def _average_pool(x: Sequence[Tensor], a: Attributes) -> Tensor:
    return _pool(x, a, functional.avg_pool2d, count_include_pad=bool(a["count_include_pad"]))


def _flatten(x: Sequence[Tensor], a: Attributes) -> Tensor:
    if a["axis"] != 1:
        raise ValueError(f"Flatten with axis={a['axis']} is unknown here: a row for each image is axis=1")
    return x[0].flatten(1)


def _reshape(x: Sequence[Tensor], a: Attributes) -> Tensor:
    """The first number is the batch: a file fixed to one image says 1 there."""
    sizes = [x[0].shape[place] if size == 0 else size for place, size in enumerate(a["shape"])]
    return x[0].reshape(len(x[0]), *sizes[1:])


def _slice(x: Sequence[Tensor], a: Attributes) -> Tensor:
    part = x[0]
    for start, end, axis in zip(a["starts"], a["ends"], a["axes"], strict=True):
        length = part.shape[axis]
        low, high = (min(max(at + length if at < 0 else at, 0), length) for at in (start, end))
        part = part.narrow(axis, low, max(high - low, 0))
    return part


_FROM_INPUTS = {"Reshape": ("shape",), "Slice": ("starts", "ends", "axes")}
"""Operators whose further inputs must be numbers of the file; a Slice of steps other than 1 has one more."""
_WINDOW: dict[str, Any] = {"pads": None, "strides": None, "kernel_shape": None, "auto_pad": b"NOTSET"}
_FIXED = {"allowzero": 0, "auto_pad": b"NOTSET", "ceil_mode": 0, "storage_order": 0, "training_mode": 0}
"""Attributes that are known with one value alone."""
_IGNORED = {"BatchNormalization": ("momentum", "spatial"), "Dropout": ("ratio", "seed", "is_test")}
"""Attributes that say nothing about inference."""
OPERATORS: dict[str, tuple[Operator, dict[str, Any]]] = {
    "Conv": (_conv, {**_WINDOW, "dilations": None, "group": 1}),
    "BatchNormalization": (_batch_norm, {"epsilon": 1e-5, "training_mode": 0}),
    "PRelu": (_prelu, {}),
    "Relu": (lambda x, _: x[0].relu(), {}),
    "Sigmoid": (lambda x, _: x[0].sigmoid(), {}),
    "Add": (lambda x, _: x[0] + x[1], {}),
    "Sub": (lambda x, _: x[0] - x[1], {}),
    "Mul": (lambda x, _: x[0] * x[1], {}),
    "Div": (lambda x, _: x[0] / x[1], {}),
    "Gemm": (_gemm, {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}),
    "MatMul": (lambda x, _: x[0] @ x[1], {}),
    "MaxPool": (lambda x, a: _pool(x, a, functional.max_pool2d), {**_WINDOW, "ceil_mode": 0, "storage_order": 0}),
    "AveragePool": (_average_pool, {**_WINDOW, "ceil_mode": 0, "count_include_pad": 0}),
    "GlobalAveragePool": (lambda x, _: x[0].mean((2, 3), keepdim=True), {}),
    "Flatten": (_flatten, {"axis": 1}),
    "Reshape": (_reshape, {"allowzero": 0}),
    "Slice": (_slice, {}),
    "Identity": (lambda x, _: x[0], {}),
    "Dropout": (lambda x, _: x[0], {}),
}
"""What the reader knows: the operators of SFace, of IResNets and MobileFaceNets, with their attributes' defaults."""
