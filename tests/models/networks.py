"""Small networks as files, made on the spot."""

from pathlib import Path
from typing import TypeVar

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

Network = TypeVar("Network", bound=nn.Module)


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


def randomize(network: Network) -> Network:
    """The network with other numbers in every parameter and statistic, so that a mix-up of two shows."""
    for name, value in network.state_dict().items():
        if name.endswith("running_var"):
            value.uniform_(0.5, 1.5)
        elif value.is_floating_point() and value.ndim == 1:
            value.add_(0.1 * torch.randn_like(value))
    return network
