"""`hypersphere export`: what it writes loads again with equal embeddings, and what it reports is true."""

import json
from pathlib import Path

import pytest
import torch

from hypersphere.backbones import create_backbone
from hypersphere.cli import main
from hypersphere.evaluation import embed
from hypersphere.models import Contract, load_model, save_model
from hypersphere.pocket import PocketFaces
from tests.evaluation.protocols.standins import write_faces, write_lfw_list
from tests.models.networks import randomize


@pytest.fixture
def model(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    backbone = {"name": "cnn4", "dim": 8}
    network = randomize(create_backbone("cnn4", dim=8, input_size=(16, 16)))
    save_model(tmp_path / "m.safetensors", network, Contract(input_size=(16, 16), flip="sum"), backbone)
    return tmp_path / "m.safetensors"


def test_equal_embeddings_and_a_report(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "m.onnx"
    assert main(["export", str(model), str(out), "--preprocess", "--count", "20"]) == 0
    said = capsys.readouterr().out
    assert "m.onnx: cnn4, opset 17, float32, any batch\n" in said
    assert "cosine    mean 1.0000000, least 1.0000000 over 20 painted faces\n" in said
    faces = PocketFaces(4, 1, 16)
    torch.testing.assert_close(embed(load_model(out), faces), embed(load_model(model), faces), rtol=1e-4, atol=1e-5)
    assert main(["export", str(model), str(out)]) == 2
    assert "m.onnx exists already" in capsys.readouterr().err
    assert sorted(path.name for path in out.parent.iterdir()) == ["m.contract.json", "m.onnx"]


def test_8_bit_integers_with_pairs(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images, pairs = write_faces(tmp_path / "faces", size=20), write_lfw_list(tmp_path / "pairs.txt")
    words = ["export", str(model), str(tmp_path / "m.onnx"), "--int8", "--pairs", str(pairs), "--images", str(images)]
    assert main(words) == 2
    assert "--resize" in capsys.readouterr().err
    assert main([*words, "--resize", "--count", "40", "--json"]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert (found["precision"], found["calibration_images"], found["parity"]["images"]) == ("int8", 20, 80)
    assert 0.98 < found["parity"]["least_cosine"] < found["parity"]["mean_cosine"] < 1
    assert found["bytes"] < found["float32_bytes"]
    gain = found["pairs"]["after"]["value"] - found["pairs"]["before"]["value"]
    assert found["pairs"]["difference"]["estimate"]["value"] == pytest.approx(gain)
    assert "points (McNemar's p = " in captured.err


def test_what_cannot_be_exported(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "m.onnx")
    for words, message in (
        ([str(model), out, "--normalize"], "merges mirror images (flip=sum)"),
        ([str(model), str(tmp_path / "m.pt")], "ends in .onnx"),
        ([str(model), out, "--pairs", str(write_lfw_list(tmp_path / "pairs.txt"))], "--pairs needs --images"),
        ([str(model), out, "--count", "1"], "--count 1 must be at least 2"),
        ([str(tmp_path / "gone.safetensors"), out], "gone.safetensors is missing"),
    ):
        assert main(["export", *words]) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "m.onnx").exists()
