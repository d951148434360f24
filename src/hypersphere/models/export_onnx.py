"""Networks written as ONNX files: traced by `torch.export`, checked by onnxruntime, with their contract beside them.

The graph is written here, operator by operator, and not by `torch.onnx`: its exporter that needs no further package is
to be removed, and the other one wants onnxscript.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hypersphere.core import Failure, Staged, check_choice, check_integer, import_extra, refuse_existing
from hypersphere.geometry import EPS
from hypersphere.models.contract import Contract
from hypersphere.models.embedder import Embedder
from hypersphere.models.golden import paint_golden, with_golden
from hypersphere.version import __version__

OPSET = 17
"""The version of ONNX's operators that is written; onnxruntime reads it since 1.13."""
_IR_VERSION = 8
INPUT_TYPES = ("float32", "uint8")
_HALF_TOLERANCE = 2e-2
_TOLERANCE = 1e-3
"""How far onnxruntime's numbers may be from torch's, as a part of the largest."""


def export_onnx(
    model: Embedder,
    path: str | Path,
    *,
    normalize: bool = False,
    preprocess: bool = False,
    calibration: Tensor | None = None,
    batch: int = 0,
    half: bool = False,
    input_type: str = "float32",
    opset: int = OPSET,
    replace: bool = False,
) -> Contract:
    """Write a model as `X.onnx`, or as OpenVINO's `X.xml` and `X.bin`, with `X.contract.json` beside it; all or none.

    `load_model(path)` gives a model with the same embeddings. The file takes float32 images (batch, channels, height,
    width), any number of them; mirror images are merged outside of it, as the contract says. An ONNX file carries
    golden pictures, an OpenVINO file has them in `X.golden.safetensors`: `check_conformance` compares with them.

    Args:
        model: whose network is a torch module of this library's backbones.
        path: the new `.onnx`, or an `.xml`, which needs the package openvino.
        normalize: the file returns unit vectors, x / sqrt(sum_i x_i^2 + eps); only where no mirror images are merged,
            which is done before normalisation.
        preprocess: the file takes RGB (or grey) images from 0 to 255, and orders and scales the channels itself.
        calibration: uint8 images as the model takes them. With these the file is quantised to 8-bit integers, whose
            ranges are those that the images show.
        batch: images that the file takes, no more and no fewer; any number by default.
        half: compute in half precision; the file takes and returns float32.
        input_type: `float32`, or `uint8` where the file scales the channels itself.
        opset: the version of ONNX's operators.
        replace: overwrite files that are there.

    Returns:
        the contract of the file.

    Example:
        >>> contract = export_onnx(hs.models.load_model("runs/faces"), "faces.onnx", preprocess=True)
        >>> (contract.mean, contract.std)
        ((0.0,), (1.0,))
    """
    path = Path(path)
    if path.suffix not in (".onnx", ".xml"):
        raise ValueError(f"{path}: an ONNX file ends in .onnx, one of OpenVINO in .xml")
    check_choice("input_type", input_type, INPUT_TYPES)
    check_integer("batch", batch, 0)
    if input_type == "uint8" and not preprocess:
        raise ValueError("input_type='uint8' needs preprocess=True: 8-bit numbers are scaled inside the file")
    if calibration is not None and (batch or half or input_type != "float32" or opset != OPSET):
        raise ValueError(
            "calibration: 8-bit integers go with no fixed batch, half precision, uint8 input or other opset"
        )
    if not isinstance(model.network, nn.Module):
        raise ValueError(f"{model.name or 'the model'} is an ONNX file already; export a network of torch")
    if normalize and model.contract.flip != "none":
        raise ValueError(
            f"normalize=True: the contract merges mirror images (flip={model.contract.flip}) before normalisation; "
            "choose flip='none', or leave normalisation outside"
        )
    suffixes = (".onnx",) if path.suffix == ".onnx" else (".xml", ".bin", ".golden.safetensors")
    for suffix in () if replace else (*suffixes, ".contract.json"):
        refuse_existing(path.with_suffix(suffix))
    contract = _contract(model.contract, preprocess, normalize)
    data = _serialized(model, normalize, preprocess, batch=batch, half=half, input_type=input_type, opset=opset)
    _check(data, model, contract, normalize, batch=batch, half=half)
    if calibration is not None:
        from hypersphere.models.quantize import quantize_onnx

        data = quantize_onnx(data, Embedder(contract, model.network).prepare(calibration).numpy())
    golden = paint_golden(model)
    if path.suffix == ".onnx":
        files = {".onnx": with_golden(data, golden)}
    else:
        files = {**_as_openvino(data, half), ".golden.safetensors": golden.to_bytes()}
    weights = files[".onnx" if path.suffix == ".onnx" else ".bin"]
    contract = dataclasses.replace(contract, digest=hashlib.sha256(weights).hexdigest()[:16])
    files[".contract.json"] = json.dumps(contract.table(), indent=1).encode()
    with Staged() as stage:
        for suffix, content in files.items():
            stage.open(path.with_suffix(suffix), replace=replace).write(content)
    return contract


def _as_openvino(data: bytes, half: bool) -> dict[str, bytes]:
    """The two files of OpenVINO for a network in ONNX."""
    openvino = import_extra("openvino", "writing an OpenVINO file")
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "net.xml"
        openvino.save_model(openvino.Core().read_model(data, b""), written, compress_to_fp16=half)
        return {suffix: written.with_suffix(suffix).read_bytes() for suffix in (".xml", ".bin")}


def _contract(contract: Contract, preprocess: bool, normalize: bool) -> Contract:
    """What the file must be given."""
    inside = {*contract.inside, *(["input"] if preprocess else []), *(["output"] if normalize else [])}
    contract = dataclasses.replace(contract, digest="")
    if not preprocess:
        return dataclasses.replace(contract, inside=tuple(sorted(inside)))
    colour = "grey" if contract.colour == "grey" else "rgb"
    return dataclasses.replace(contract, colour=colour, mean=(0.0,), std=(1.0,), inside=tuple(sorted(inside)))


def _serialized(
    model: Embedder, normalize: bool, preprocess: bool, *, batch: int, half: bool, input_type: str, opset: int
) -> bytes:
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
    if input_type == "uint8":
        x = graph.add("Cast", x, to=onnx.TensorProto.FLOAT)
    if preprocess and contract.colour == "bgr":
        x = graph.add("Gather", x, graph.constant("colour_order", np.array([2, 1, 0])), axis=1)
    if preprocess:
        for operator, name in (("Sub", "mean"), ("Div", "std")):
            values = np.array(getattr(contract, name), np.float32).reshape(1, -1, 1, 1)
            x = graph.add(operator, x, graph.constant(name, values))
    if half:
        x = graph.add("Cast", x, to=onnx.TensorProto.FLOAT16)
    first = len(graph.weights)
    x = graph.follow(program, x)
    if half:
        graph.weights[first:] = [_halved(onnx, weight) for weight in graph.weights[first:]]
        x = graph.add("Cast", x, to=onnx.TensorProto.FLOAT)
    if normalize:
        squares = graph.add("ReduceSumSquare", x, axes=[1], keepdims=1)
        norm = graph.add("Sqrt", graph.add("Add", squares, graph.constant("eps", np.float32(EPS))))
        x = graph.add("Div", x, norm)
    graph.add("Identity", x, output="embeddings")
    info, floats = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    taken = onnx.TensorProto.UINT8 if input_type == "uint8" else floats
    made = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes,
            contract.backbone or "network",
            [info("images", taken, [batch or "batch", *shape])],
            [info("embeddings", floats, [batch or "batch", contract.dim])],
            graph.weights,
        ),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=_IR_VERSION,
        producer_name="hypersphere",
        producer_version=__version__,
    )
    if opset != OPSET:
        made = _of_opset(onnx, made, opset)
    onnx.checker.check_model(made, full_check=True)
    data: bytes = made.SerializeToString()
    return data


def _finite_in_half(model: Embedder, images: Tensor) -> bool:
    """Whether every layer stays below 65504; onnxruntime's CPU cannot tell, for it computes such layers in float32."""
    network = copy.deepcopy(model.network)
    assert isinstance(network, nn.Module)
    with torch.no_grad():
        embeddings = network.cpu().half()(model.prepare(images).half())
    return bool(embeddings.isfinite().all())


def _halved(onnx: Any, weight: Any) -> Any:
    """A weight in half precision, where it is a number of single precision."""
    value = onnx.numpy_helper.to_array(weight)
    if value.dtype != np.float32:
        return weight
    if np.abs(value).max(initial=0) > np.finfo(np.float16).max:
        raise ValueError(f"half=True: {weight.name} has numbers beyond 65504, which half precision cannot hold")
    return onnx.numpy_helper.from_array(value.astype(np.float16), weight.name)


def _of_opset(onnx: Any, model: Any, opset: int) -> Any:
    """The same network in another version of the operators."""
    try:
        return onnx.version_converter.convert_version(model, opset)
    except Exception as error:  # onnx raises RuntimeError and classes of its own
        raise ValueError(
            f"opset={opset}: this network cannot be written in it ({error}); {OPSET} is written without conversion"
        ) from None


def _traced(network: nn.Module, images: Tensor) -> torch.export.ExportedProgram:
    """The network's operators, none of them in place, for any number of images."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch 2.13 warns of how it copies its own trees
        program = torch.export.export(network, (images,), dynamic_shapes=({0: torch.export.Dim.AUTO},))
        functional: torch.export.ExportedProgram = program.run_decompositions({})
    return functional


def _check(data: bytes, model: Embedder, contract: Contract, normalize: bool, *, batch: int, half: bool) -> None:
    """Failure unless onnxruntime computes what torch computes, for one image and for three, or for the fixed batch."""
    runtime = import_extra("onnxruntime", "checking an ONNX file")
    session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    counts = (batch,) if batch else (1, 3)
    pixels = np.random.default_rng(0).integers(0, 256, (counts[-1], contract.channels, *contract.input_size), np.uint8)
    images = torch.from_numpy(pixels)
    given = Embedder(contract, model.network).prepare(images).numpy()
    with torch.no_grad():
        wanted = model.network(model.prepare(images.to(model.device))).float().cpu()
    if normalize:
        wanted = wanted / (wanted.square().sum(1, keepdim=True) + EPS).sqrt()
    dtype = np.uint8 if session.get_inputs()[0].type == "tensor(uint8)" else np.float32
    if half and not _finite_in_half(model, images):
        raise Failure(f"{model.name}: half precision overflows in a layer; nothing is written")
    tolerance = (_HALF_TOLERANCE if half else _TOLERANCE) * float(wanted.abs().max())
    for count in counts:
        embeddings = session.run(None, {"images": given[:count].astype(dtype)})[0]
        if not np.allclose(embeddings, wanted[:count].numpy(), rtol=0, atol=tolerance):
            cause = "; half precision is too coarse for it" if half else ""
            raise Failure(f"{model.name}: onnxruntime computes other embeddings than torch; nothing is written{cause}")


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
