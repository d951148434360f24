"""`hypersphere import`: a model file with the contract that was asked for, and sentences where something is missing."""

import json
from pathlib import Path

import pytest
import torch

from hypersphere.cli import import_model, main
from hypersphere.models import load_model, load_prototypes
from hypersphere.models.contract import COLOURS
from tests.models import peers
from tests.models.networks import linear_onnx


def test_a_preset_with_an_option_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = {f"model.{name}": value for name, value in peers.filled(peers.ir(18, 8)).items()}
    torch.save({"epoch": 1, "state_dict": {**state, "head.kernel": torch.ones(8, 3)}}, tmp_path / "a.ckpt")
    words = ["import", str(tmp_path / "a.ckpt"), str(tmp_path / "a.safetensors")]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "give --contract (such as arcface-torch, or a file), or --input-size, --colour, --mean, --std" in said
    assert main([*words, "--contract", "adaface", "--flip", "none"]) == 0
    said = capsys.readouterr().out
    assert "a.safetensors: iresnet18, 8 numbers, from AdaFace or CVLface\n" in said
    assert "images    112x112 bgr, mean 127.5, std 127.5, mirror images: none\n" in said
    assert "left out  epoch, head.kernel: not of the network\n" in said
    assert load_model(tmp_path / "a.safetensors").contract.flip == "none"
    assert main([*words, "--contract", "adaface"]) == 2
    assert "a.safetensors exists already" in capsys.readouterr().err


def test_every_value_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    linear_onnx(tmp_path / "net.onnx")
    words = ["import", str(tmp_path / "net.onnx"), str(tmp_path / "new.onnx"), "--input-size", "8", "8"]
    words += ["--colour", "rgb", "--mean", "1", "2", "3", "--std", "5", "--alignment", "own", "--json"]
    assert main(words) == 0
    contract = json.loads(capsys.readouterr().out)["contract"]
    assert (contract["mean"], contract["std"], contract["alignment"]) == ([1, 2, 3], [5], "own")
    assert load_model(tmp_path / "new.onnx").contract.dim == 4


def test_prototypes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save(torch.ones(3, 4), tmp_path / "rank_0_softmax_weight.pt")
    torch.save(torch.ones(2, 4), tmp_path / "rank_1_softmax_weight.pt")
    out = tmp_path / "prototypes.safetensors"
    assert main(["import", str(tmp_path / "rank_0_softmax_weight.pt"), str(out)]) == 0
    assert "the prototypes of 5 classes, from 2 files" in capsys.readouterr().out
    assert load_prototypes(out).shape == (5, 4)
    both = {
        "state_dict_backbone": peers.filled(peers.iresnet(18, 8)),
        "state_dict_softmax_fc": {"weight": torch.ones(6, 8)},
    }
    torch.save(both, tmp_path / "checkpoint_gpu_0.pt")
    words = ["import", str(tmp_path / "checkpoint_gpu_0.pt")]
    assert main([*words, str(out), "--prototypes", "--replace"]) == 0
    assert main([*words, str(tmp_path / "m.safetensors"), "--contract", "arcface-torch"]) == 0
    assert (load_prototypes(out).shape, load_model(tmp_path / "m.safetensors").contract.backbone) == (
        (6, 8),
        "iresnet18",
    )


def test_what_the_declaration_copies_is_what_the_room_says() -> None:
    assert import_model.COLOURS == COLOURS
