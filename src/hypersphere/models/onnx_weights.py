"""What an ONNX file states of its numbers, looked at before a runtime takes memory for them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hypersphere.core import import_extra

LARGEST_VALUE = 2**28
"""Numbers that one value of a graph may have: a gibibyte of float32."""
_FACTORS = ("BatchNormalization", "Conv", "Gemm", "MatMul", "PRelu")
"""Operators that no infinite number is meant for; others take one, such as the bound of a Clip."""


def check_onnx_weights(path: Path) -> None:
    """Raise ValueError for weights that are sparse, outside the file, or not finite, and for values beyond the limit.

    A graph states how large its values are, and onnxruntime computes those that hang on no image while it opens a
    file: some bytes of it can ask for any memory.
    """
    onnx = import_extra("onnx", "checking an ONNX file")
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:  # protobuf raises classes of its own for damaged files
        raise ValueError(f"{path}: not an ONNX file ({error})") from None
    graph = model.graph
    if graph.sparse_initializer:
        raise ValueError(f"{path}: {graph.sparse_initializer[0].values.name!r} is sparse; expected dense weights")
    factors = {name for node in graph.node if node.op_type in _FACTORS for name in node.input}
    for name, tensor in _tensors(graph):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise ValueError(f"{path}: the weights {name!r} lie in another file; save the model as one file")
        _check_size(name, tensor.dims, path)
        try:
            value = onnx.numpy_helper.to_array(tensor)
        except Exception as error:
            raise ValueError(f"{path}: the weights {name!r} are damaged ({error})") from None
        if value.dtype.kind == "f" and not bool((np.isfinite if name in factors else _is_number)(value).all()):
            raise ValueError(f"{path}: {name!r} has numbers that are NaN or infinite")
    try:
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except Exception as error:
        raise ValueError(f"{path}: its graph is damaged ({error})") from None
    for each in (*inferred.input, *inferred.value_info, *inferred.output):
        _check_size(each.name, [side.dim_value for side in each.type.tensor_type.shape.dim], path)


def _tensors(graph: Any) -> Iterator[tuple[str, Any]]:
    """The numbers of a graph by name: those beside the nodes, and those of nodes that are constants."""
    yield from ((tensor.name, tensor) for tensor in graph.initializer)
    for node in graph.node:
        yield from (
            (node.output[0], each.t) for each in node.attribute if node.op_type == "Constant" and each.HasField("t")
        )


def _is_number(value: Any) -> Any:
    return ~np.isnan(value)


def _check_size(name: str, sides: Any, path: Path) -> None:
    """A free side counts as one."""
    if math.prod(max(1, side) for side in sides) > LARGEST_VALUE:
        raise ValueError(f"{path}: {name!r} is {tuple(sides)}, more than the {LARGEST_VALUE:,} numbers allowed")
