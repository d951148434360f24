"""Small networks as files, made on the spot."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def linear_onnx(path: Path, size: int = 8, dim: int = 4, batch: int | str = "N", channels: int = 3) -> np.ndarray:
    """An ONNX network that multiplies the pixels by a matrix, which is returned: (channels * size * size, dim)."""
    weights = np.random.default_rng(0).normal(size=(channels * size * size, dim)).astype(np.float32)
    nodes = [
        helper.make_node("Flatten", ["images"], ["flat"], axis=1),
        helper.make_node("MatMul", ["flat", "weights"], ["embedding"]),
    ]
    graph = helper.make_graph(
        nodes,
        "linear",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [batch, channels, size, size])],
        [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, [batch, dim])],
        [numpy_helper.from_array(weights, "weights")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, path)
    return weights
