"""Files of others by every runtime: OpenVINO's two files, fixed batches, pooled axes, providers that are not there."""

import dataclasses
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

from hypersphere.models import Contract, import_model, load_model
from tests.models.networks import linear_onnx

openvino = pytest.importorskip("openvino")
CONTRACT = Contract(input_size=(8, 8), mean=(0.0,), std=(1.0,))
IMAGES = torch.from_numpy(np.random.default_rng(2).integers(0, 256, (5, 3, 8, 8), dtype=np.uint8))


def pooled_onnx(path: Path, batch: int | str = 1) -> Path:
    """A network that returns (N, 6, 1, 1), as those of OpenVINO's zoo do."""
    weights = np.random.default_rng(1).normal(size=(6, 3, 8, 8)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["images", "w"], ["y"])],
        "pooled",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [batch, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 6, 1, 1])],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def as_ir(source: Path, out: Path) -> Path:
    openvino.save_model(openvino.Core().read_model(source), out, compress_to_fp16=False)
    return out


def test_openvino_files_give_what_onnxruntime_gives(tmp_path: Path) -> None:
    source = pooled_onnx(tmp_path / "net.onnx")
    wanted = load_model(source, CONTRACT).raw(IMAGES)
    assert wanted.shape == (5, 6)
    model = load_model(as_ir(source, tmp_path / "net.xml"), CONTRACT)
    torch.testing.assert_close(model.raw(IMAGES), wanted, rtol=1e-5, atol=1e-3)
    torch.testing.assert_close(
        model.with_flip("sum").raw(IMAGES), wanted + model.raw(IMAGES.flip(-1)), rtol=1e-5, atol=1e-3
    )
    by_package = load_model(source, CONTRACT, runtime="openvino")
    torch.testing.assert_close(by_package.raw(IMAGES), wanted, rtol=1e-5, atol=1e-3)
    assert by_package.contract == load_model(source, CONTRACT, runtime="cpu").contract


def test_the_digest_is_of_the_weights(tmp_path: Path) -> None:
    xml = as_ir(pooled_onnx(tmp_path / "net.onnx"), tmp_path / "net.xml")
    before = load_model(xml, CONTRACT).contract.digest
    xml.write_text(xml.read_text().replace('name="pooled"', 'name="another"'))
    assert load_model(xml, CONTRACT).contract.digest == before


def test_importing_takes_both_files(tmp_path: Path) -> None:
    xml = as_ir(pooled_onnx(tmp_path / "net.onnx"), tmp_path / "net.xml")
    stated = dataclasses.replace(CONTRACT, licence="Apache-2.0", inside=("input",))
    imported = import_model(xml, tmp_path / "out.xml", stated)
    assert imported.layout == "OpenVINO"
    again = load_model(tmp_path / "out.xml")
    assert (again.contract.licence, again.contract.dim) == ("Apache-2.0", 6)
    torch.testing.assert_close(again.raw(IMAGES), load_model(xml, CONTRACT).raw(IMAGES))
    with pytest.raises(ValueError, match=r"out\.onnx: an OpenVINO file is imported as one; name OUT\.xml"):
        import_model(xml, tmp_path / "out.onnx", stated)
    with pytest.raises(ValueError, match="exists already"):
        import_model(xml, tmp_path / "out.xml", stated)


def test_bad_files_are_named(tmp_path: Path) -> None:
    xml = as_ir(pooled_onnx(tmp_path / "net.onnx"), tmp_path / "net.xml")
    (tmp_path / "net.bin").rename(tmp_path / "kept")
    with pytest.raises(ValueError, match=r"net\.bin is missing: an OpenVINO model is two files"):
        load_model(xml, CONTRACT)
    (tmp_path / "net.bin").write_bytes((tmp_path / "kept").read_bytes()[:100])
    with pytest.raises(ValueError, match=r"net\.xml: not a network that OpenVINO can run"):
        load_model(xml, CONTRACT)
    (tmp_path / "kept").rename(tmp_path / "net.bin")
    with pytest.raises(ValueError, match=r"computed by the package openvino alone, not by 'torch'"):
        load_model(xml, CONTRACT, runtime="torch")
    with pytest.raises(ValueError, match=r"its images are \(3, 8, 8\) .* the contract says \(3, 9, 9\)"):
        load_model(xml, dataclasses.replace(CONTRACT, input_size=(9, 9)))
    xml.write_text("<net>")
    with pytest.raises(ValueError, match=r"net\.xml: not a network that OpenVINO can run"):
        load_model(xml, CONTRACT)


def test_a_contract_that_contradicts_the_file(tmp_path: Path) -> None:
    linear_onnx(tmp_path / "net.onnx")
    stated = dataclasses.replace(CONTRACT, inside=("output",))
    with pytest.raises(ValueError, match=r"contract says that the network returns unit vectors .* has length"):
        load_model(tmp_path / "net.onnx", stated)


def test_providers_that_are_not_there(tmp_path: Path) -> None:
    linear_onnx(tmp_path / "net.onnx")
    with pytest.raises(ValueError, match="this onnxruntime has no CoreMLExecutionProvider; it has cpu"):
        load_model(tmp_path / "net.onnx", CONTRACT, runtime="coreml")
    with pytest.raises(ValueError, match="runtime='opencl' is unknown"):
        load_model(tmp_path / "net.onnx", CONTRACT, runtime="opencl")
