"""ONNX graphs computed by torch, against onnxruntime."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from hypersphere.models import Contract, UnsupportedOperator, load_model, load_network_file, load_onnx_graph
from tests.models.networks import linear_onnx

RNG = np.random.default_rng(0)
CONTRACT = Contract(input_size=(12, 10), mean=(0.0,), std=(1.0,))


def save(path: Path, nodes: list[Any], weights: dict[str, np.ndarray], batch: int | str = 1) -> None:
    """A graph from `images` (batch, 3, 12, 10) to `embedding`, its weights listed among the inputs as old files do."""
    tensors = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    inputs = [helper.make_tensor_value_info("images", TensorProto.FLOAT, [batch, 3, 12, 10])]
    inputs += [helper.make_tensor_value_info(each.name, each.data_type, list(each.dims)) for each in tensors]
    output = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "face", inputs, [output], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6), path)


def normal(*shape: int, low: float = -np.inf) -> np.ndarray:
    return np.maximum(RNG.normal(size=shape), low).astype(np.float32)


def recogniser(path: Path) -> None:
    """Every operator of SFace, and those of other recognisers: grouped, strided and one-sided convolutions, pooling."""
    node = helper.make_node
    weights = {
        "mean": np.array([127.5], np.float32),
        "factor": np.array([1 / 128], np.float32),
        "conv1": normal(8, 3, 3, 3) / 5,
        "slope1": normal(8, 1, 1),
        "conv2": normal(8, 1, 3, 3) / 3,
        "bias2": normal(8),
        "slope2": normal(8, 1, 1),
        "conv3": normal(8, 8, 2, 2) / 5,
        **{f"{name}{at}": normal(8, low=0.1) for at in (1, 2) for name in ("gamma", "beta", "mean", "var")},
        "shape": np.array([1, -1, 6, 5], np.int64),
        "fc": normal(5, 8 * 30) / 15,
        "fc_bias": normal(5),
        **{f"{name}3": normal(5, low=0.1) for name in ("gamma", "beta", "mean", "var")},
    }
    window: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        node("Sub", ["images", "mean"], ["centred"]),
        node("Mul", ["centred", "factor"], ["scaled"]),
        node("Conv", ["scaled", "conv1"], ["c1"], strides=[2, 2], dilations=[1, 1], group=1, **window),
        node("BatchNormalization", ["c1", "gamma1", "beta1", "mean1", "var1"], ["b1"], epsilon=1e-3, momentum=0.9),
        node("PRelu", ["b1", "slope1"], ["p1"]),
        node("Conv", ["p1", "conv2", "bias2"], ["c2"], strides=[1, 1], group=8, **window),
        node("BatchNormalization", ["c2", "gamma2", "beta2", "mean2", "var2"], ["b2"]),
        node("PRelu", ["b2", "slope2"], ["p2"]),
        node("Add", ["p1", "p2"], ["sum"]),
        node("Conv", ["sum", "conv3"], ["c3"], kernel_shape=[2, 2], pads=[1, 0, 0, 1]),
        node("Relu", ["c3"], ["r3"]),
        node("GlobalAveragePool", ["r3"], ["pooled"]),
        node("Sigmoid", ["pooled"], ["gate"]),
        node("Mul", ["r3", "gate"], ["gated"]),
        node("MaxPool", ["gated"], ["greatest"], strides=[1, 1], **window),
        node("AveragePool", ["greatest"], ["average"], strides=[1, 1], **window),
        node("Reshape", ["average", "shape"], ["shaped"]),
        node("Dropout", ["shaped"], ["kept"], ratio=0.4),
        node("Flatten", ["kept"], ["flat"]),
        node("Gemm", ["flat", "fc", "fc_bias"], ["full"], alpha=0.5, beta=2.0, transB=1),
        node("BatchNormalization", ["full", "gamma3", "beta3", "mean3", "var3"], ["normed"], epsilon=2e-5),
        node("Identity", ["normed"], ["embedding"]),
    ]
    save(path, nodes, weights)  # type: ignore[arg-type]


def test_a_recogniser_gives_what_onnxruntime_gives(tmp_path: Path) -> None:
    path = tmp_path / "face.onnx"
    recogniser(path)
    images = torch.from_numpy(RNG.integers(0, 256, (7, 3, 12, 10), dtype=np.uint8))
    wanted, found = load_network_file(path, CONTRACT), load_onnx_graph(path, CONTRACT)
    assert found.contract == wanted.contract
    assert found.contract.dim == 5
    torch.testing.assert_close(found.raw(images), wanted.raw(images), rtol=1e-5, atol=1e-5)
    flipped = load_model(path, CONTRACT, runtime="torch").with_flip("sum")
    torch.testing.assert_close(flipped.raw(images), wanted.with_flip("sum").raw(images), rtol=1e-5, atol=1e-5)


def test_a_matrix_is_a_matrix(tmp_path: Path) -> None:
    weights = linear_onnx(tmp_path / "net.onnx")
    images = torch.from_numpy(RNG.integers(0, 256, (3, 3, 8, 8), dtype=np.uint8))
    model = load_onnx_graph(tmp_path / "net.onnx", Contract(input_size=(8, 8)))
    plain = (images.numpy().reshape(3, -1).astype(np.float64) - 127.5) / 127.5 @ weights
    np.testing.assert_allclose(model.raw(images).numpy(), plain, rtol=1e-5, atol=1e-5)
    assert not list(model.network.parameters())  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (("Erf", {}), r"net\.onnx: the operator Erf is unknown here; known are Conv, "),
        (("Softmax", {"axis": 1}), r"the operator Softmax is unknown"),
        (("MaxPool", {"kernel_shape": [2, 2], "ceil_mode": 1}), r"MaxPool with ceil_mode=1 is unknown here"),
        (("MaxPool", {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"}), r"MaxPool with auto_pad=b'SAME_UPPER'"),
    ],
)
def test_what_is_not_known_is_named(tmp_path: Path, node: tuple[str, dict[str, Any]], message: str) -> None:
    operator, attributes = node
    save(tmp_path / "net.onnx", [helper.make_node(operator, ["images"], ["embedding"], **attributes)], {})
    with pytest.raises(UnsupportedOperator, match=message):
        load_onnx_graph(tmp_path / "net.onnx", CONTRACT)


@pytest.mark.parametrize(
    ("nodes", "weights"),
    [
        ([helper.make_node("Conv", ["images"], ["embedding"])], {}),
        ([helper.make_node("Conv", ["images", "w"], ["embedding"])], {"w": normal(3)}),
        ([helper.make_node("Gemm", ["images"], ["embedding"])], {}),
        ([helper.make_node("Conv", ["images", "w"], ["embedding"], strides=[0, 0])], {"w": normal(2, 3, 3, 3)}),
        ([helper.make_node("MaxPool", ["images"], ["embedding"], kernel_shape=[2, 2], pads=[1])], {}),
        ([helper.make_node("Flatten", ["images"], [])], {}),
        ([helper.make_node("Concat", ["images", "images"], ["embedding"], axis=9)], {}),
        ([helper.make_node("Reshape", ["images", "s"], ["embedding"])], {"s": np.array([1, 0, 0, 0, 0, 0], np.int64)}),
    ],
)
def test_a_damaged_graph_is_named(tmp_path: Path, nodes: list[Any], weights: dict[str, np.ndarray]) -> None:
    """These ended in IndexError, KeyError and TypeError."""
    path = tmp_path / "damaged.onnx"
    save(path, nodes, weights)
    with pytest.raises(ValueError, match=r"damaged\.onnx"):
        load_onnx_graph(path, CONTRACT)


def test_files_that_are_no_recogniser(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    with pytest.raises(ValueError, match=r"net\.onnx is missing"):
        load_onnx_graph(path, CONTRACT)
    path.write_bytes(b"no model at all")
    with pytest.raises(ValueError, match=r"net\.onnx: not an ONNX file"):
        load_onnx_graph(path, CONTRACT)
    save(path, [helper.make_node("Relu", ["images"], ["embedding"])], {})
    with pytest.raises(ValueError, match=r"returns \(2, 3, 12, 10\) for two images; expected \(2, dim\)"):
        load_onnx_graph(path, CONTRACT)
    save(path, [helper.make_node("Add", ["images", "nowhere"], ["embedding"])], {})
    with pytest.raises(ValueError, match=r"Add takes 'nowhere', which nothing before it makes"):
        load_onnx_graph(path, CONTRACT)
    save(path, [helper.make_node("Add", ["images", "w"], ["embedding"])], {"w": np.zeros((1, 3, 5, 5), np.float32)})
    with pytest.raises(ValueError, match=r"net\.onnx: cannot be run on images \(3, 12, 10\)"):
        load_onnx_graph(path, CONTRACT)
    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, size_threshold=0, location="weights.bin")
    with pytest.raises(ValueError, match=r"the weights 'w' lie in another file"):
        load_onnx_graph(path, CONTRACT)


@pytest.mark.realdata
def test_sface_by_torch_is_sface() -> None:
    path = Path(os.environ.get("HYPERSPHERE_DATA", "nowhere")) / "models" / "face_recognition_sface_2021dec.onnx"
    if not path.exists():
        pytest.skip("no SFace where HYPERSPHERE_DATA says")
    images = torch.from_numpy(RNG.integers(0, 256, (4, 3, 112, 112), dtype=np.uint8))
    wanted = load_model(path, "opencv-sface").raw(images)
    found = load_model(path, "opencv-sface", runtime="torch").raw(images)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
