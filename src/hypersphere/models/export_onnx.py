"""Networks written as ONNX files: traced by `torch.export`, checked by onnxruntime, with their contract beside them.

The graph is written here, operator by operator, and not by `torch.onnx`: its exporter that needs no further package is
to be removed, and the other one wants onnxscript.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hypersphere.core import Failure, Staged, import_extra, refuse_existing
from hypersphere.geometry import EPS
from hypersphere.models.contract import Contract
from hypersphere.models.embedder import Embedder
from hypersphere.version import __version__

OPSET = 17
"""The version of ONNX's operators that is written; onnxruntime reads it since 1.13."""
_IR_VERSION = 8
_TOLERANCE = 1e-3
"""How far onnxruntime's numbers may be from torch's, as a part of the largest."""


def export_onnx(
    model: Embedder,
    path: str | Path,
    *,
    normalize: bool = False,
    preprocess: bool = False,
    calibration: Tensor | None = None,
    replace: bool = False,
) -> Contract:
    """Write a model as `X.onnx` with its contract in `X.contract.json` beside it; both or neither.

    `load_model(path)` gives a model with the same embeddings. The file takes float32 images (batch, channels, height,
    width), any number of them; mirror images are merged outside of it, as the contract says.

    Args:
        model: whose network is a torch module of this library's backbones.
        path: the new `.onnx`.
        normalize: the file returns unit vectors, x / sqrt(sum_i x_i^2 + eps); only where no mirror images are merged,
            which is done before normalisation.
        preprocess: the file takes RGB (or grey) images from 0 to 255, and orders and scales the channels itself.
        calibration: uint8 images as the model takes them. With these the file is quantised to 8-bit integers, whose
            ranges are those that the images show.
        replace: overwrite files that are there.

    Returns:
        the contract of the file.

    Example:
        >>> contract = export_onnx(hs.models.load_model("runs/faces"), "faces.onnx", preprocess=True)
        >>> (contract.mean, contract.std)
        ((0.0,), (1.0,))
    """
    path = Path(path)
    beside = path.with_suffix(".contract.json")
    if path.suffix != ".onnx":
        raise ValueError(f"{path}: an ONNX file ends in .onnx")
    if not isinstance(model.network, nn.Module):
        raise ValueError(f"{model.name or 'the model'} is an ONNX file already; export a network of torch")
    if normalize and model.contract.flip != "none":
        raise ValueError(
            f"normalize=True: the contract merges mirror images (flip={model.contract.flip}) before normalisation; "
            "choose flip='none', or leave normalisation outside"
        )
    for each in () if replace else (path, beside):
        refuse_existing(each)
    contract = _contract(model.contract, preprocess)
    data = _serialized(model, normalize, preprocess)
    _check(data, model, contract, normalize)
    if calibration is not None:
        from hypersphere.models.quantize import quantize_onnx

        data = quantize_onnx(data, Embedder(contract, model.network).prepare(calibration).numpy())
    contract = dataclasses.replace(contract, digest=hashlib.sha256(data).hexdigest()[:16])
    with Staged() as stage:
        stage.open(path, replace=replace).write(data)
        stage.open(beside, replace=replace).write(json.dumps(contract.table(), indent=1).encode())
    return contract


def _contract(contract: Contract, preprocess: bool) -> Contract:
    """What the file must be given."""
    if not preprocess:
        return contract
    colour = "grey" if contract.colour == "grey" else "rgb"
    return dataclasses.replace(contract, colour=colour, mean=(0.0,), std=(1.0,))


def _serialized(model: Embedder, normalize: bool, preprocess: bool) -> bytes:
    """The file's bytes."""
    onnx = import_extra("onnx", "writing an ONNX file")
    contract = model.contract
    shape = (contract.channels, *contract.input_size)
    network = copy.deepcopy(model.network)
    if not isinstance(network, nn.Module):
        raise TypeError("the network must be a torch module")
    program = _traced(network.cpu().float().eval(), torch.zeros(2, *shape))
    graph = _Graph(onnx)
    x = "images"
    if preprocess and contract.colour == "bgr":
        x = graph.add("Gather", x, graph.constant("colour_order", np.array([2, 1, 0])), axis=1)
    if preprocess:
        for operator, name in (("Sub", "mean"), ("Div", "std")):
            values = np.array(getattr(contract, name), np.float32).reshape(1, -1, 1, 1)
            x = graph.add(operator, x, graph.constant(name, values))
    x = graph.follow(program, x)
    if normalize:
        squares = graph.add("ReduceSumSquare", x, axes=[1], keepdims=1)
        norm = graph.add("Sqrt", graph.add("Add", squares, graph.constant("eps", np.float32(EPS))))
        x = graph.add("Div", x, norm)
    graph.add("Identity", x, output="embeddings")
    info, floats = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    made = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes,
            contract.backbone or "network",
            [info("images", floats, ["batch", *shape])],
            [info("embeddings", floats, ["batch", contract.dim])],
            graph.weights,
        ),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=_IR_VERSION,
        producer_name="hypersphere",
        producer_version=__version__,
    )
    onnx.checker.check_model(made, full_check=True)
    data: bytes = made.SerializeToString()
    return data


def _traced(network: nn.Module, images: Tensor) -> torch.export.ExportedProgram:
    """The network's operators, none of them in place, for any number of images."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch 2.13 warns of how it copies its own trees
        program = torch.export.export(network, (images,), dynamic_shapes=({0: torch.export.Dim.AUTO},))
        functional: torch.export.ExportedProgram = program.run_decompositions({})
    return functional


def _check(data: bytes, model: Embedder, contract: Contract, normalize: bool) -> None:
    """Failure unless onnxruntime computes what torch computes, for one image and for three."""
    runtime = import_extra("onnxruntime", "checking an ONNX file")
    session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    pixels = np.random.default_rng(0).integers(0, 256, (3, contract.channels, *contract.input_size), np.uint8)
    images = torch.from_numpy(pixels)
    given = Embedder(contract, model.network).prepare(images).numpy()
    with torch.no_grad():
        wanted = model.network(model.prepare(images.to(model.device))).float().cpu()
    if normalize:
        wanted = wanted / (wanted.square().sum(1, keepdim=True) + EPS).sqrt()
    for count in (1, 3):
        found = session.run(None, {"images": given[:count]})[0]
        if not np.allclose(found, wanted[:count].numpy(), rtol=0, atol=_TOLERANCE * float(wanted.abs().max())):
            raise Failure(f"{model.name}: onnxruntime computes other embeddings than torch; nothing is written")


class _Graph:
    """The nodes and weights of an ONNX graph in the making."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def add(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """A node; returns the name of its output."""
        name = output or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    def constant(self, name: str, value: Any) -> str:
        """A weight; returns its name."""
        self.weights.append(self.onnx.numpy_helper.from_array(np.asarray(value), name))
        return name

    def follow(self, program: torch.export.ExportedProgram, images: str) -> str:
        """Add the operators and weights of a traced network; returns the name of its output."""
        signature = program.graph_signature
        owners = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        shapes = {name: value.detach() for name, value in program.state_dict.items()}
        self.values: dict[torch.fx.Node, Any] = {}
        self.slopes = {
            node.args[1].name
            for node in program.graph.nodes
            if node.op == "call_function" and _base_name(node) == "prelu" and node.args[0].meta["val"].ndim == 4
        }
        for node in program.graph.nodes:
            if node.op == "placeholder" and node.name in owners:
                if node.users:
                    value = shapes[owners[node.name]].contiguous().numpy()
                    value = value.reshape(-1, 1, 1) if node.name in self.slopes else value
                    self.values[node] = self.constant(owners[node.name], value)
            elif node.op == "placeholder":
                self.values[node] = images
            elif node.op == "call_function":
                self.values[node] = self._call(node)
            elif node.op == "output":
                return str(self.values[node.args[0][0]])
        raise ValueError("the network returns nothing")

    def _call(self, node: torch.fx.Node) -> Any:
        name = _base_name(node)
        if name in ("sym_size", "_assert_tensor_metadata"):
            return None
        if name not in OPERATORS:
            raise ValueError(f"the operator {node.target} cannot be written as ONNX; known are {', '.join(OPERATORS)}")
        return OPERATORS[name](self, [self._value(each) for each in node.args])

    def _value(self, argument: Any) -> Any:
        return self.values[argument] if isinstance(argument, torch.fx.Node) else argument


def _base_name(node: torch.fx.Node) -> str:
    """`conv2d` of `aten.conv2d.default`."""
    name = str(node.target)
    return name.split(".")[1] if name.startswith("aten.") else getattr(node.target, "__name__", name)


def _at(arguments: Sequence[Any], place: int, default: Any) -> Any:
    return arguments[place] if len(arguments) > place else default


def _conv(graph: _Graph, a: Sequence[Any]) -> str:
    stride, padding, dilation = (_at(a, place, default) for place, default in ((3, [1, 1]), (4, [0, 0]), (5, [1, 1])))
    inputs = [a[0], a[1], *([] if _at(a, 2, None) is None else [a[2]])]
    return graph.add("Conv", *inputs, strides=stride, pads=[*padding] * 2, dilations=dilation, group=_at(a, 6, 1))


def _batch_norm(graph: _Graph, a: Sequence[Any]) -> list[str]:
    return [graph.add("BatchNormalization", a[0], *a[1:5], epsilon=a[6])]


def _max_pool(graph: _Graph, a: Sequence[Any]) -> str:
    stride, padding, dilation = (_at(a, place, default) for place, default in ((2, a[1]), (3, [0, 0]), (4, [1, 1])))
    if list(dilation) != [1, 1]:
        raise ValueError(f"a dilated maximum, {dilation}, cannot be written as ONNX")
    ceil = int(_at(a, 5, False))
    return graph.add("MaxPool", a[0], kernel_shape=a[1], strides=stride, pads=[*padding] * 2, ceil_mode=ceil)


def _average_pool(graph: _Graph, a: Sequence[Any]) -> str:
    if list(a[1]) != [1, 1]:
        raise ValueError(f"an average over parts of a map, {a[1]}, cannot be written as ONNX")
    return graph.add("GlobalAveragePool", a[0])


def _split(graph: _Graph, a: Sequence[Any]) -> list[str]:
    """Two halves, as Light CNN takes the larger of."""
    name = f"split_{len(graph.nodes)}"
    halves = [f"{name}_{half}" for half in range(2)]
    graph.nodes.append(graph.onnx.helper.make_node("Split", [a[0]], halves, name, axis=_at(a, 2, 0)))
    return halves


def _slice(graph: _Graph, a: Sequence[Any]) -> str:
    """Rows or columns of a map: `backbone.patch`."""
    name, parts = f"slice_{len(graph.nodes)}", (("starts", a[2]), ("ends", a[3]), ("axes", a[1]))
    return graph.add("Slice", a[0], *(graph.constant(f"{name}_{part}", np.array([value])) for part, value in parts))


def _view(graph: _Graph, a: Sequence[Any]) -> str:
    if len(a[1]) != 2:
        raise ValueError(f"a reshape to {len(a[1])} dimensions cannot be written as ONNX")
    return graph.add("Flatten", a[0], axis=1)


OPERATORS: dict[str, Callable[[_Graph, Sequence[Any]], Any]] = {
    "conv2d": _conv,
    "_native_batch_norm_legit_no_training": _batch_norm,
    "prelu": lambda graph, a: graph.add("PRelu", a[0], a[1]),
    "relu": lambda graph, a: graph.add("Relu", a[0]),
    "add": lambda graph, a: graph.add("Add", a[0], a[1]),
    "maximum": lambda graph, a: graph.add("Max", a[0], a[1]),
    "max_pool2d": _max_pool,
    "adaptive_avg_pool2d": _average_pool,
    "split": _split,
    "slice": _slice,
    "view": _view,
    "_unsafe_view": _view,
    "linear": lambda graph, a: graph.add("Gemm", *a, transB=1),
    "clone": lambda graph, a: a[0],
    "getitem": lambda graph, a: a[0][a[1]],
}
"""What can be written: the operators of this library's backbones, as `torch.export` names them."""
