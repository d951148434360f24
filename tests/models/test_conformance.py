"""The conformance kit: right runtimes pass, and every planted mistake is called by its name."""

import dataclasses
import json
import re
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from hypersphere.backbones import create_backbone
from hypersphere.core import as_table
from hypersphere.models import (
    Contract,
    Embedder,
    check_conformance,
    export_onnx,
    golden_of,
    load_model,
    paint_golden,
    read_golden,
    save_model,
)
from hypersphere.models.golden import SUFFIX
from tests.models.networks import randomize

CONTRACT = Contract(input_size=(112, 112), alignment="insightface-112", dim=16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small network as model file and ONNX file, and what it makes of the golden pictures."""
    here = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    network = randomize(create_backbone("cnn4", dim=16, input_size=(112, 112))).eval()
    save_model(here / "net.safetensors", network, CONTRACT, {"name": "cnn4", "dim": 16})
    model = load_model(here / "net.safetensors")
    export_onnx(model, here / "net.onnx")
    export_onnx(model, here / "inside.onnx", preprocess=True)
    (here / f"net{SUFFIX}").write_bytes(paint_golden(model).to_bytes())
    return here


def judged(folder: Path, name: str = "net.onnx", runtime: str = "onnxruntime", **changes: object) -> str:
    """The mistake that is found where the contract is wrong in something."""
    stated = load_model(folder / "net.onnx").contract
    contract = dataclasses.replace(stated, digest="", **changes)  # type: ignore[arg-type]
    golden = read_golden((folder / f"net{SUFFIX}").read_bytes(), "golden")
    return check_conformance(load_model(folder / name, contract, runtime=runtime), golden).mistake


@pytest.mark.parametrize("runtime", ["onnxruntime", "cpu", "torch", "openvino"])
def test_right_runtimes_pass(folder: Path, runtime: str) -> None:
    if runtime == "openvino":
        pytest.importorskip("openvino")
    golden = golden_of(folder / "net.onnx")
    assert golden is not None
    result = check_conformance(load_model(folder / "net.onnx", runtime=runtime), golden)
    assert result.passed, result.probes
    assert min(result.cosines) > 0.9999
    model = load_model(folder / "net.safetensors")
    assert check_conformance(model, golden).passed


def test_openvino_files_pass(folder: Path, tmp_path: Path) -> None:
    openvino = pytest.importorskip("openvino")
    openvino.save_model(openvino.Core().read_model(folder / "net.onnx"), tmp_path / "net.xml")
    (tmp_path / f"net{SUFFIX}").write_bytes((folder / f"net{SUFFIX}").read_bytes())
    golden = golden_of(tmp_path / "net.xml")
    assert golden is not None
    assert check_conformance(load_model(tmp_path / "net.xml", dataclasses.replace(CONTRACT)), golden).passed


def test_channels_swapped(folder: Path) -> None:
    assert judged(folder, colour="bgr") == "colour"


def test_normalised_twice(folder: Path) -> None:
    assert judged(folder, "inside.onnx") == "normalisation"


def test_not_normalised_at_all(folder: Path) -> None:
    assert judged(folder, mean=(0.0,), std=(1.0,)) == "normalisation"


def test_normalised_otherwise(folder: Path) -> None:
    assert judged(folder, mean=(0.0,), std=(255.0,)) == "normalisation"


def test_another_alignment(folder: Path) -> None:
    points = np.asarray(load_model(folder / "net.onnx").contract.target.points)
    shifted = tuple((float(x) * 0.8 + 10, float(y) * 0.8 + 16) for x, y in points)
    assert judged(folder, alignment="", points=shifted) == "alignment"


def test_mirror_images_merged_otherwise(folder: Path) -> None:
    assert judged(folder, flip="sum") == "flip"


def variant(folder: Path, tmp_path: Path, nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray]) -> Path:
    """The network with nodes after its end, which take `found` and give `embeddings`."""
    model = onnx.load(folder / "net.onnx")
    for node in model.graph.node:
        node.output[:] = ["found" if name == "embeddings" else name for name in node.output]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in weights.items())
    path = tmp_path / "net.onnx"
    onnx.save(model, path)
    (tmp_path / "net.contract.json").write_text(json.dumps(as_table(CONTRACT)))
    (tmp_path / f"net{SUFFIX}").write_bytes((folder / f"net{SUFFIX}").read_bytes())
    return path


def probed(path: Path) -> dict[str, str]:
    """What failed, by name."""
    golden = golden_of(path)
    assert golden is not None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = load_model(path)
    result = check_conformance(model, golden, single_images="; ".join(str(each.message) for each in caught))
    return {probe.name: probe.found for probe in result.probes if not probe.passed}


def test_half_precision_that_overflows(folder: Path, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["found", "large"], ["larger"]),
        helper.make_node("Cast", ["larger"], ["half"], to=TensorProto.FLOAT16),
        helper.make_node("Cast", ["half"], ["embeddings"], to=TensorProto.FLOAT),
    ]
    failed = probed(variant(folder, tmp_path, nodes, {"large": np.array(1e6, np.float32)}))
    assert list(failed) == ["numbers"]
    assert "half precision ends at 65504" in failed["numbers"]


def test_a_batch_that_is_mixed_up(folder: Path, tmp_path: Path) -> None:
    """Backwards: of a pair, onnxruntime's probe of the file notices it; of single images nobody would."""
    nodes = [helper.make_node("Slice", ["found", "starts", "ends", "axes", "steps"], ["embeddings"])]
    numbers = {"starts": [-1], "ends": [-(2**31)], "axes": [0], "steps": [-1]}
    failed = probed(variant(folder, tmp_path, nodes, {name: np.array(value) for name, value in numbers.items()}))
    assert list(failed) == ["batch"]
    assert "two together give other embeddings than one by one" in failed["batch"]


def test_a_batch_that_a_runtime_mixes_up(folder: Path) -> None:
    model = load_model(folder / "net.onnx")
    golden = golden_of(folder / "net.onnx")
    assert golden is not None
    mixed = Embedder(model.contract, lambda x: model.network(x).roll(1, 0), name="mixed")
    result = check_conformance(mixed, golden)
    assert result.mistake == "batch"
    found = next(probe.found for probe in result.probes if probe.name == "batch")
    assert re.search(r"picture (\d) got that of \d", found)


def test_one_embedding_for_all(folder: Path, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["found", "nothing"], ["zero"]),
        helper.make_node("Add", ["zero", "same"], ["embeddings"]),
    ]
    same = np.arange(1, 17, dtype=np.float32)
    failed = probed(variant(folder, tmp_path, nodes, {"nothing": np.array(0, np.float32), "same": same}))
    assert set(failed) == {"persons", "cosine"}
    assert "one embedding for all" in failed["persons"]


def test_other_numbers_have_no_other_name(folder: Path, tmp_path: Path) -> None:
    noise = np.random.default_rng(0).normal(size=16).astype(np.float32)
    nodes = [helper.make_node("Mul", ["found", "noise"], ["embeddings"])]
    failed = probed(variant(folder, tmp_path, nodes, {"noise": noise}))
    assert set(failed) == {"cosine", "other"}
    assert "none of the usual mistakes" in failed["other"]


def test_golden_pictures_that_do_not_belong_here(folder: Path, tmp_path: Path) -> None:
    golden = golden_of(folder / "net.onnx")
    assert golden is not None
    model = load_model(folder / "net.onnx")
    narrow = dataclasses.replace(golden, unit=golden.unit[:, :4])
    with pytest.raises(ValueError, match=r"net\.onnx: its embeddings have 16 numbers, those of the golden pictures 4"):
        check_conformance(model, narrow)
    unknown = dataclasses.replace(model, contract=dataclasses.replace(model.contract, alignment="mine"))
    with pytest.raises(ValueError, match="the contract names no alignment target that is known"):
        check_conformance(unknown, golden)
    with pytest.raises(ValueError, match=r"x: not golden pictures"):
        read_golden(b"nonsense", "x")
    with pytest.raises(ValueError, match=r"x: golden pictures of shapes that do not fit"):
        read_golden(dataclasses.replace(golden, unit=golden.unit[:2]).to_bytes(), "x")
    other = dataclasses.replace(CONTRACT, input_size=(16, 16), alignment="pocket", dim=3)
    flat = Embedder(other, lambda x: x.flatten(1)[:, :3] + 1, name="flat")
    assert check_conformance(flat, paint_golden(flat)).passed, "crops without landmarks, of a model for crops"
