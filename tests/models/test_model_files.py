"""Model files: the contract travels with the weights, and is checked against them."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import safetensors.torch
import torch

from hypersphere.backbones import create_backbone
from hypersphere.models import Contract, load_model, save_model
from tests.models.networks import linear_onnx
from tests.mutate import attempt, mutations

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
        torch.testing.assert_close(model.raw(IMAGES), network(x) + network(x.flip(-1)))


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
        ({"input_size": [32, 16]}, r"contract's images are \(1, 32, 16\), those of its backbone \(1, 16, 16\)"),
        ({"colour": "blue"}, "m.safetensors: colour='blue' is unknown"),
    ]:
        contract = {**load_model(path).contract.table(), **change}  # type: ignore[dict-item]
        bad = tmp_path / "bad" / "m.safetensors"
        bad.parent.mkdir(exist_ok=True)
        bad.write_bytes(path.read_bytes())
        with pytest.raises(ValueError, match=message):
            load_model(rewritten(bad, format="hypersphere model 1", contract=json.dumps(contract)))
    with pytest.raises(ValueError, match=r"m\.safetensors: has the format 'hypersphere model 3'.*install"):
        load_model(rewritten(path, format="hypersphere model 3"))
    with pytest.raises(ValueError, match="no embedding contract in its metadata"):
        load_model(rewritten(path, format="other"))
    rewritten(path, format="hypersphere model 1", backbone='{"name": "cnn4", "dim": 4, "channels": 3}')
    with pytest.raises(ValueError, match="the weights do not fit the backbone"):
        load_model(path)
    for content in (b"nonsense", path.read_bytes()[:-5], path.read_bytes()[:100], b""):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"m\.safetensors: not a readable .*cut short or damaged"):
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
    np.testing.assert_allclose(model.raw(images).numpy(), wanted, rtol=1e-4, atol=1e-2)


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
    with pytest.raises(ValueError, match=r"a\.pt: a model is a \.safetensors, an \.onnx or"):
        load_model(tmp_path / "a.pt")
    with pytest.raises(ValueError, match="nowhere is missing"):
        load_model(tmp_path / "nowhere")
    saved(tmp_path / "m.safetensors")
    with pytest.raises(ValueError, match="carries its own contract"):
        load_model(tmp_path / "m.safetensors", "insightface")


def test_the_contract_is_sealed(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    saved(path)
    good = path.read_bytes()
    for old, new in ((b"127.5", b"327.5"), (b"cnn4", b"cnn5"), (b"rgb", b"bgr"), (b"pocket", b"rocket")):
        if old in good:
            path.write_bytes(good.replace(old, new, 1))
            with pytest.raises(ValueError, match=r"m\.safetensors: damaged"):
                load_model(path)


def test_files_of_an_earlier_day_are_still_read(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    saved(path)
    wanted = load_model(path).contract
    assert load_model(rewritten(path, format="hypersphere model 1", seal="")).contract == wanted


def test_mutated_models_are_the_same_or_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    saved(path)
    wanted = load_model(path)
    embeddings = wanted.raw(IMAGES)
    good = path.read_bytes()
    length = int.from_bytes(good[:8], "little") + 8
    for number, data in enumerate(mutations(good[:length], 300, seed=11)):
        path.write_bytes(data + good[length:])
        found = attempt(load_model, path)
        if found is not None:
            assert found.contract == wanted.contract, number
            torch.testing.assert_close(found.raw(IMAGES), embeddings, rtol=0, atol=0)
    for data in mutations(good, 100, seed=12):
        path.write_bytes(data)
        found = attempt(load_model, path)
        assert found is None or found.contract == wanted.contract


def test_a_backbone_larger_than_its_weights_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    saved(path)
    for options in ({"dim": 4_000_000_000}, {"dim": -4}, {"dim": 2**63 - 1}, {"dim": 1.5}, {"channels": 10**12}):
        bad = json.dumps({"name": "cnn4", "dim": 4, "input_size": [16, 16], "channels": 1, **options})
        with pytest.raises(ValueError, match=r"m\.safetensors: .*backbone"):
            load_model(rewritten(path, format="hypersphere model 1", backbone=bad))


def test_onnx_files_that_cannot_be_used_say_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    contract = Contract(input_size=(8, 8))
    linear_onnx(path, batch=2**31 - 1)
    with pytest.raises(ValueError, match=r"m\.onnx: its batch is fixed to 2,147,483,647 .*dynamic_axes"):
        load_model(path, contract)
    linear_onnx(path)
    network = onnx.load(path)
    network.graph.output.append(onnx.helper.make_tensor_value_info("flat", onnx.TensorProto.FLOAT, ["N", 192]))
    onnx.save(network, path)
    with pytest.raises(ValueError, match=r"m\.onnx: 1 inputs and 2 outputs \(embedding, flat\).*only output"):
        load_model(path, contract)


def test_mutated_onnx_files_are_run_or_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    linear_onnx(path)
    for data in mutations(path.read_bytes(), 150, seed=13):
        path.write_bytes(data)
        attempt(lambda each: load_model(each, Contract(input_size=(8, 8))), path)


def fixed_inside(path: Path, shape: list[int]) -> None:
    """A network whose batch is declared free, and which reshapes its images as if there were one."""
    linear_onnx(path)
    network = onnx.load(path)
    network.graph.initializer.append(onnx.numpy_helper.from_array(np.array(shape, np.int64), "shape"))
    network.graph.node[0].CopyFrom(onnx.helper.make_node("Reshape", ["images", "shape"], ["flat"]))
    onnx.save(network, path)


@pytest.mark.parametrize("shape", [[1, 192], [1, -1]])
def test_a_batch_declared_free_but_fixed_inside_is_run_image_by_image(tmp_path: Path, shape: list[int]) -> None:
    contract = Contract(input_size=(8, 8))
    linear_onnx(tmp_path / "free.onnx")
    fixed_inside(tmp_path / "fixed.onnx", shape)
    with pytest.warns(
        RuntimeWarning, match=r"fixed\.onnx declares a free batch, but is made for single images .*export"
    ):
        fixed = load_model(tmp_path / "fixed.onnx", contract)
    images = torch.from_numpy(np.random.default_rng(1).integers(0, 256, (5, 3, 8, 8), dtype=np.uint8))
    torch.testing.assert_close(fixed.raw(images), load_model(tmp_path / "free.onnx", contract).raw(images))


def test_a_network_that_mixes_its_images_is_run_image_by_image(tmp_path: Path) -> None:
    path = tmp_path / "mixing.onnx"
    linear_onnx(path)
    network = onnx.load(path)
    network.graph.node[1].output[0] = "apart"
    network.graph.node.append(onnx.helper.make_node("ReduceMean", ["apart"], ["mean"], axes=[0], keepdims=1))
    network.graph.node.append(onnx.helper.make_node("Add", ["apart", "mean"], ["embedding"]))
    onnx.save(network, path)
    with pytest.warns(RuntimeWarning, match="two together give other embeddings than one by one"):
        model = load_model(path, Contract(input_size=(8, 8)))
    images = torch.from_numpy(np.random.default_rng(1).integers(0, 256, (2, 3, 8, 8), dtype=np.uint8))
    torch.testing.assert_close(model.raw(images)[1:], model.raw(images[1:]))


def test_loading_imports_no_compiler_and_draws_nothing() -> None:
    code = """
import sys, torch, hypersphere as hs
before = torch.get_rng_state()
hs.models.load_model(hs.__path__[0] + "/starter")
print("torch._dynamo" in sys.modules, torch.equal(before, torch.get_rng_state()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
