"""Exported networks: the embeddings of the model that they were made from, by onnxruntime and by torch."""

import dataclasses
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn

from hypersphere.backbones import create_backbone
from hypersphere.core import Failure
from hypersphere.geometry import normalize
from hypersphere.models import Contract, Embedder, check_conformance, export_onnx, golden_of, load_model
from tests.models.networks import randomize

NETWORKS = {
    "cnn4": {"input_size": (16, 16), "channels": 1, "bnneck": True},
    "sfnet4": {"input_size": (16, 16), "batch_norm": True, "last_relu": True},
    "sfnet10": {"input_size": (36, 20), "patch": (4, 36, 2, 18)},
    "iresnet18": {"input_size": (32, 32)},
    "mobilefacenet": {"input_size": (32, 32)},
    "lightcnn9": {"input_size": (33, 32), "channels": 1},
    "resnet50": {"input_size": (32, 32), "bnneck": True},
    "resnet28": {"input_size": (48, 48)},
}
ONLY_ONNXRUNTIME = ("lightcnn9",)
"""Operators that the reader of graphs does not know."""


def model_of(name: str, **changes: object) -> Embedder:
    options = NETWORKS[name]
    torch.manual_seed(0)
    network = randomize(create_backbone(name, dim=8, **options)).eval()  # type: ignore[arg-type]
    colour = "grey" if network.channels == 1 else "bgr"
    contract = Contract(input_size=network.input_size, colour=colour, mean=(120.0,), std=(128.0,), dim=8)
    return Embedder(dataclasses.replace(contract, **changes), network, name=name)  # type: ignore[arg-type]


def images_for(model: Embedder, count: int = 5) -> Tensor:
    shape = (count, model.contract.channels, *model.contract.input_size)
    return torch.from_numpy(np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8))


def raw(model: Embedder, images: Tensor) -> Tensor:
    with torch.no_grad():
        return model.network(model.prepare(images))


SLOW = ("mobilefacenet", "resnet28", "resnet50", "sfnet10")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in NETWORKS]
)
def test_every_backbone_comes_back_equal(tmp_path: Path, name: str) -> None:
    model, path = model_of(name), tmp_path / "net.onnx"
    contract = export_onnx(model, path)
    assert contract == load_model(path).contract
    for count in (1, 5):
        images = images_for(model, count)
        torch.testing.assert_close(raw(load_model(path), images), raw(model, images), rtol=1e-4, atol=1e-5)
        if name not in ONLY_ONNXRUNTIME:
            torch.testing.assert_close(
                raw(load_model(path, runtime="torch"), images), raw(model, images), rtol=1e-4, atol=1e-5
            )


@pytest.mark.parametrize("name", ["cnn4", "sfnet4"])
def test_preprocessing_and_normalisation_inside(tmp_path: Path, name: str) -> None:
    model, path = model_of(name), tmp_path / "net.onnx"
    contract = export_onnx(model, path, normalize=True, preprocess=True)
    assert (contract.mean, contract.std, contract.colour) == ((0.0,), (1.0,), "grey" if name == "cnn4" else "rgb")
    images = images_for(model)
    found = raw(load_model(path), images)
    torch.testing.assert_close(found, normalize(raw(model, images)), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(found.norm(dim=1), torch.ones(5))


def test_the_file_says_what_it_is(tmp_path: Path) -> None:
    export_onnx(model_of("sfnet4", backbone="sfnet4"), tmp_path / "net.onnx")
    file = onnx.load(tmp_path / "net.onnx")
    assert [(each.domain, each.version) for each in file.opset_import] == [("", 17)]
    assert (file.producer_name, file.graph.name) == ("hypersphere", "sfnet4")
    batch, *rest = file.graph.input[0].type.tensor_type.shape.dim
    assert (batch.dim_param, [each.dim_value for each in rest]) == ("batch", [3, 16, 16])
    assert {"body.0.0.weight", "fc.bias"} < {each.name for each in file.graph.initializer}


def test_mirror_images_stay_outside(tmp_path: Path) -> None:
    model = model_of("cnn4", flip="concat")
    with pytest.raises(ValueError, match=r"normalize=True: the contract merges mirror images \(flip=concat\)"):
        export_onnx(model, tmp_path / "net.onnx", normalize=True)
    assert export_onnx(model, tmp_path / "net.onnx").flip == "concat"
    assert load_model(tmp_path / "net.onnx").contract.width == 16


def test_both_files_or_neither(tmp_path: Path) -> None:
    model, path = model_of("cnn4"), tmp_path / "net.onnx"
    with pytest.raises(ValueError, match=r"ends in \.onnx"):
        export_onnx(model, tmp_path / "net.pt")
    (tmp_path / "net.contract.json").write_text("{}")
    with pytest.raises(ValueError, match=r"net\.contract\.json exists already"):
        export_onnx(model, path)
    assert not path.exists()
    export_onnx(model, path, replace=True)
    other = model_of("cnn4")
    nn.init.zeros_(other.network.fc.weight)  # type: ignore[attr-defined]
    export_onnx(other, tmp_path / "other.onnx")
    path.write_bytes((tmp_path / "other.onnx").read_bytes())
    with pytest.raises(ValueError, match="weights have digest .* but the contract says"):
        load_model(path)
    with pytest.raises(ValueError, match=r"other\.onnx is an ONNX file already"):
        export_onnx(load_model(tmp_path / "other.onnx"), tmp_path / "again.onnx")


class Odd(nn.Module):
    """A network with an operator that no backbone has, or whose numbers no other runtime can repeat."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.fc, self.kind = nn.Linear(16 * 16, 8), kind

    def forward(self, images: Tensor) -> Tensor:
        y: Tensor = self.fc(images.flatten(1))
        if self.kind == "operator":
            return y.sin()
        return y if torch.compiler.is_exporting() else -y


def test_what_cannot_be_exported_leaves_nothing(tmp_path: Path) -> None:
    contract = Contract(input_size=(16, 16), colour="grey", dim=8)
    with pytest.raises(ValueError, match=r"operator aten\.sin\.default cannot be written .* known are conv2d"):
        export_onnx(Embedder(contract, Odd("operator").eval()), tmp_path / "net.onnx")
    with pytest.raises(Failure, match="onnxruntime computes other embeddings than torch"):
        export_onnx(Embedder(contract, Odd("other").eval()), tmp_path / "net.onnx")
    assert list(tmp_path.iterdir()) == []


def test_8_bit_integers(tmp_path: Path) -> None:
    model = model_of("sfnet4")
    images = images_for(model, 24)
    export_onnx(model, tmp_path / "full.onnx")
    contract = export_onnx(model, tmp_path / "small.onnx", calibration=images[:20], preprocess=True)
    assert (tmp_path / "small.onnx").stat().st_size < 0.3 * (tmp_path / "full.onnx").stat().st_size
    small = load_model(tmp_path / "small.onnx")
    assert small.contract == contract
    cosines = (normalize(raw(small, images)) * normalize(raw(model, images))).sum(1)
    assert cosines.min() > 0.98
    assert cosines.max() < 1 - 1e-7, "quantised numbers are not the same"


def test_a_network_in_another_layout(tmp_path: Path) -> None:
    model = model_of("sfnet4")
    images = images_for(model)
    wanted = raw(model, images)
    model.network.to(memory_format=torch.channels_last)  # type: ignore[attr-defined]
    export_onnx(model, tmp_path / "net.onnx")
    torch.testing.assert_close(raw(load_model(tmp_path / "net.onnx"), images), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "tolerance"),
    [
        ({"batch": 1}, 1e-5),
        ({"half": True}, 1e-2),
        ({"input_type": "uint8", "preprocess": True}, 1e-5),
        ({"opset": 18}, 1e-5),
        ({"batch": 2, "half": True, "input_type": "uint8", "preprocess": True, "normalize": True}, 1e-2),
    ],
)
@pytest.mark.parametrize("suffix", [".onnx", ".xml"])
def test_files_for_other_runtimes(tmp_path: Path, options: dict[str, object], tolerance: float, suffix: str) -> None:
    if suffix == ".xml":
        pytest.importorskip("openvino")
    model, path = model_of("sfnet4", backbone="sfnet4"), tmp_path / f"net{suffix}"
    export_onnx(model, path, **options)  # type: ignore[arg-type]
    images = images_for(model)
    found, wanted = normalize(raw(load_model(path), images)), normalize(raw(model, images))
    torch.testing.assert_close(found, wanted, rtol=0, atol=tolerance)
    golden = golden_of(path)
    assert golden is not None
    assert check_conformance(load_model(path), golden).passed


def test_what_the_options_write(tmp_path: Path) -> None:
    model = model_of("sfnet4")
    contract = export_onnx(
        model, tmp_path / "a.onnx", batch=4, half=True, input_type="uint8", preprocess=True, opset=18, normalize=True
    )
    assert contract.inside == ("input", "output")
    file = onnx.load(tmp_path / "a.onnx")
    assert file.opset_import[0].version == 18
    (taken,) = file.graph.input
    assert taken.type.tensor_type.elem_type == onnx.TensorProto.UINT8
    assert taken.type.tensor_type.shape.dim[0].dim_value == 4
    halves = [each for each in file.graph.initializer if each.data_type == onnx.TensorProto.FLOAT16]
    assert len(halves) > 4
    with pytest.raises(ValueError, match="input_type='uint8' needs preprocess=True"):
        export_onnx(model, tmp_path / "b.onnx", input_type="uint8")
    with pytest.raises(ValueError, match="opset=3: this network cannot be written in it"):
        export_onnx(model, tmp_path / "b.onnx", opset=3)
    with pytest.raises(ValueError, match="8-bit integers go with no fixed batch"):
        export_onnx(model, tmp_path / "b.onnx", half=True, calibration=images_for(model))
    nn.init.constant_(model.network.fc.bias, 1e6)  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"half=True: fc\.bias has numbers beyond 65504"):
        export_onnx(model, tmp_path / "b.onnx", half=True)
    nn.init.constant_(model.network.fc.bias, 6e4)  # type: ignore[attr-defined]
    nn.init.constant_(model.network.fc.weight, 6e4)  # type: ignore[attr-defined]
    with pytest.raises(Failure, match="half precision overflows in a layer"):
        export_onnx(model, tmp_path / "b.onnx", half=True)
    assert not list(tmp_path.glob("b.*"))
