"""Model files: the contract travels with the weights, and is checked against them."""

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from hypersphere.backbones import create_backbone
from hypersphere.models import Contract, load_model, save_model
from tests.models.networks import linear_onnx

BACKBONE = {"name": "cnn4", "dim": 4}
CONTRACT = Contract(input_size=(16, 16), colour="grey", flip="sum", alignment="pocket")
IMAGES = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (3, 1, 16, 16), dtype=np.uint8))


def saved(path: Path) -> torch.nn.Module:
    torch.manual_seed(0)
    network = create_backbone(**BACKBONE, input_size=(16, 16), channels=1).eval()  # type: ignore[arg-type]
    save_model(path, network, CONTRACT, BACKBONE)
    return network


def test_a_saved_model_comes_back_with_its_contract(tmp_path: Path) -> None:
    network = saved(tmp_path / "m.safetensors")
    model = load_model(tmp_path / "m.safetensors")
    assert (model.contract.backbone, model.contract.dim, model.contract.alignment) == ("cnn4", 4, "pocket")
    assert len(model.contract.digest) == 16
    x = (IMAGES.float() - 127.5) / 127.5
    with torch.no_grad():
        torch.testing.assert_close(model(IMAGES), network(x) + network(x.flip(-1)))


def test_digest_follows_the_weights(tmp_path: Path) -> None:
    network = saved(tmp_path / "a.safetensors")
    with torch.no_grad():
        next(network.parameters()).flatten()[0] += 1
    contract = save_model(tmp_path / "b.safetensors", network, CONTRACT, BACKBONE)
    assert contract.digest != load_model(tmp_path / "a.safetensors").contract.digest
    assert contract == load_model(tmp_path / "b.safetensors").contract
    with pytest.raises(ValueError, match="exists already"):
        save_model(tmp_path / "b.safetensors", network, CONTRACT, BACKBONE)


def rewritten(path: Path, **changes: str) -> Path:
    """The file with other metadata."""
    with safetensors.safe_open(path, framework="pt") as file:
        metadata, state = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    safetensors.torch.save_file(state, path, {**metadata, **changes})
    return path


def test_what_contradicts_the_contract_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    network = saved(path)
    for change, message in [
        ({"digest": "0" * 16}, "weights have digest .* but the contract says 0000"),
        ({"dim": 5}, "network returns 4 numbers, but the contract says dim=5"),
        ({"colour": "blue"}, "m.safetensors: colour='blue' is unknown"),
    ]:
        contract = {**load_model(path).contract.table(), **change}
        bad = tmp_path / "bad" / "m.safetensors"
        bad.parent.mkdir(exist_ok=True)
        bad.write_bytes(path.read_bytes())
        with pytest.raises(ValueError, match=message):
            load_model(rewritten(bad, contract=json.dumps(contract)))
    with pytest.raises(ValueError, match="no embedding contract in its metadata"):
        load_model(rewritten(path, format="other"))
    rewritten(path, format="hypersphere model 1", backbone='{"name": "cnn4", "dim": 4, "channels": 3}')
    with pytest.raises(ValueError, match="the weights do not fit the backbone"):
        load_model(path)
    path.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"m\.safetensors: not a readable"):
        load_model(path)
    other = Contract(input_size=(16, 16), colour="grey", dim=7)
    with pytest.raises(ValueError, match="the contract says dim=7"):
        save_model(tmp_path / "x.safetensors", network, other, BACKBONE)
    assert not (tmp_path / "x.safetensors").exists()


@pytest.mark.parametrize("batch", ["N", 1, 2])
def test_onnx_with_any_batch_is_the_matrix_it_holds(tmp_path: Path, batch: int | str) -> None:
    weights = linear_onnx(tmp_path / "net.onnx", batch=batch)
    contract = Contract(input_size=(8, 8), colour="bgr", mean=(0.0,), std=(1.0,))
    images = torch.from_numpy(np.random.default_rng(1).integers(0, 256, (5, 3, 8, 8), dtype=np.uint8))
    model = load_model(tmp_path / "net.onnx", contract)
    assert (model.contract.dim, model.name) == (4, "net.onnx")
    wanted = images.numpy()[:, ::-1].reshape(5, -1).astype(np.float64) @ weights
    np.testing.assert_allclose(model(images).numpy(), wanted, rtol=1e-4, atol=1e-2)


def test_an_onnx_file_needs_a_contract_that_fits(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    linear_onnx(path)
    with pytest.raises(ValueError, match=r"net\.onnx: an ONNX file does not say .* net\.contract\.toml beside it"):
        load_model(path)
    with pytest.raises(ValueError, match=r"its images are \(3, 8, 8\) .* the contract says \(3, 112, 112\)"):
        load_model(path, "insightface")
    (tmp_path / "net.contract.json").write_text('{"input_size": [8, 8], "dim": 5}')
    with pytest.raises(ValueError, match="returns 4 numbers, but the contract says dim=5"):
        load_model(path)
    (tmp_path / "net.contract.json").write_text('{"input_size": [8, 8]}')
    assert load_model(path).contract.dim == 4
    with pytest.raises(ValueError, match="device='cuda'"):
        load_model(path, device="cuda")
    path.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="not an ONNX network"):
        load_model(path)


def test_other_files(tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"a\.pt: a model is a \.safetensors or an \.onnx file"):
        load_model(tmp_path / "a.pt")
    with pytest.raises(ValueError, match="nowhere is missing"):
        load_model(tmp_path / "nowhere")
    saved(tmp_path / "m.safetensors")
    with pytest.raises(ValueError, match="carries its own contract"):
        load_model(tmp_path / "m.safetensors", "insightface")
