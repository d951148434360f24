"""Models as folders in the layout of the Hub: saved, loaded, fetched by a stand-in of the client."""

import dataclasses
import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch

import hypersphere as hs
from hypersphere.data import ArraySource, encode
from hypersphere.models import Contract, Embedder, ModelCard, save_folder
from tests.models.networks import linear_onnx

BACKBONE = {"name": "cnn4", "dim": 4}
CONTRACT = Contract(input_size=(16, 16), flip="sum", alignment="pocket")
PIXELS = np.random.default_rng(0).integers(0, 256, (5, 16, 16, 3), dtype=np.uint8)
IMAGES = torch.from_numpy(PIXELS).permute(0, 3, 1, 2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    network = hs.create_backbone("cnn4", dim=4, input_size=(16, 16)).eval()
    save_folder(tmp_path / "faces", network, CONTRACT, BACKBONE, ModelCard(title="faces").text())
    return tmp_path / "faces"


def test_images_of_every_kind_give_the_same_unit_vectors(folder: Path, tmp_path: Path) -> None:
    model = hs.load_model(folder)
    raw = model.raw(IMAGES).double()
    wanted = (raw / raw.norm(dim=1, keepdim=True)).float()
    paths = [tmp_path / f"{place}.png" for place in range(5)]
    for path, image in zip(paths, PIXELS, strict=True):
        path.write_bytes(encode(image))
    for images in (IMAGES, PIXELS, ArraySource(PIXELS), paths, [str(path) for path in paths]):
        for batch_size in (1, 2, 128):
            torch.testing.assert_close(model(images, batch_size=batch_size), wanted, rtol=1e-5, atol=1e-6)
    done: list[tuple[int, int]] = []
    model(paths, batch_size=2, progress=lambda *each: done.append(each))
    assert done == [(2, 5), (4, 5), (5, 5)]


def test_images_that_do_not_fit_are_refused_by_name(folder: Path, tmp_path: Path) -> None:
    model = hs.load_model(folder)
    large = tmp_path / "large.png"
    large.write_bytes(encode(np.zeros((20, 20, 3), np.uint8)))
    with pytest.raises(ValueError, match=r"large\.png is 20x20 .*resize=True"):
        model([large])
    assert model([large], resize=True).shape == (1, 4)
    with pytest.raises(ValueError, match="images is empty"):
        model([])
    with pytest.raises(ValueError, match="is one path: give a list"):
        model(str(large))
    with pytest.raises(ValueError, match=r"images are torch.uint8 \(5, 3, 8, 16\); faces takes \(3, 16, 16\)"):
        model(IMAGES[:, :, :8])
    contract = dataclasses.replace(CONTRACT, dim=4)
    broken = Embedder(contract, lambda x: x.flatten(1)[:, :4] / 0 * 0, name="broken")
    with pytest.raises(ValueError, match="broken makes an embedding of images: image 0 that is not finite"):
        broken(PIXELS)


def test_a_saved_folder_comes_back(folder: Path, tmp_path: Path) -> None:
    model = hs.load_model(folder)
    model.save_pretrained(tmp_path / "copy")
    again = hs.Embedder.from_pretrained(tmp_path / "copy")
    assert again.contract == model.contract
    assert again.card == model.card
    assert torch.equal(again(PIXELS), model(PIXELS))
    assert {path.name for path in (tmp_path / "copy").iterdir()} == {"model.safetensors", "config.json", "README.md"}
    config = json.loads((tmp_path / "copy" / "config.json").read_text())
    assert config["contract"]["digest"] == model.contract.digest
    assert config["backbone"]["name"] == "cnn4"
    with pytest.raises(ValueError, match="exists already"):
        model.save_pretrained(tmp_path / "copy")
    model.with_flip("none").save_pretrained(tmp_path / "plain", card="# other")
    assert hs.load_model(tmp_path / "plain").contract.flip == "none"
    assert hs.load_model(tmp_path / "plain").card == "# other"


def test_half_precision_keeps_the_digest_of_its_numbers(folder: Path, tmp_path: Path) -> None:
    model = hs.load_model(folder)
    model.save_pretrained(tmp_path / "half", half=True)
    half = hs.load_model(tmp_path / "half")
    sizes = [(path / "model.safetensors").stat().st_size for path in (folder, tmp_path / "half")]
    assert sizes[1] < 0.6 * sizes[0]
    assert half.contract.digest != model.contract.digest
    assert next(half.network.parameters()).dtype == torch.float32  # type: ignore[attr-defined]
    torch.testing.assert_close(half(PIXELS), model(PIXELS), rtol=0, atol=1e-2)
    half.save_pretrained(tmp_path / "single")
    assert hs.load_model(tmp_path / "single").contract == half.contract
    with torch.no_grad():
        next(model.network.parameters()).flatten()[0] = 1e6  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="beyond 65504"):
        save_folder(tmp_path / "no", model.network, CONTRACT, BACKBONE, "", half=True)  # type: ignore[arg-type]
    assert not (tmp_path / "no").exists()


def test_a_config_of_another_model_is_refused(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["contract"]["colour"] = "bgr"
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"config\.json: states another contract than model\.safetensors"):
        hs.load_model(folder)
    (folder / "config.json").write_text('{"library_name": "other"}')
    assert hs.load_model(folder).contract.dim == 4


def test_an_onnx_network_stays_in_its_file(tmp_path: Path) -> None:
    linear_onnx(tmp_path / "net.onnx")
    with pytest.raises(ValueError, match=r"net\.onnx is no backbone of this library.*contract\.json"):
        hs.load_model(tmp_path / "net.onnx", Contract(input_size=(8, 8))).save_pretrained(tmp_path / "no")
    assert not (tmp_path / "no").exists()


def test_a_model_of_the_hub_is_fetched_by_its_client(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def snapshot_download(source: str, **options: object) -> str:
        asked.append((source, options["revision"]))
        if source != "somebody/faces":
            raise OSError("no route to host\nmore lines")
        return str(folder)

    client = types.ModuleType("huggingface_hub")
    client.snapshot_download = snapshot_download  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", client)
    assert hs.Embedder.from_pretrained("somebody/faces", revision="v1").contract.dim == 4
    assert asked == [("somebody/faces", "v1")]
    with pytest.raises(ValueError, match=r"some/body was not fetched .*OSError: no route to host\).*give its path"):
        hs.Embedder.from_pretrained("some/body")
    with pytest.raises(ValueError, match="nowhere is missing: expected a folder .* or an id"):
        hs.Embedder.from_pretrained("nowhere")
    with pytest.raises(ValueError, match="revision='v1' is for models of the Hub"):
        hs.Embedder.from_pretrained(folder, revision="v1")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ModuleNotFoundError, match=r"somebody/faces is no folder here.*needs huggingface_hub: .*pip"):
        hs.Embedder.from_pretrained("somebody/faces")
