"""Options of commands about models that no story of the other tests needs: each has an effect."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import hypersphere as hs
from hypersphere.backbones import create_backbone
from hypersphere.cli import main
from hypersphere.data import write_source
from hypersphere.data.formats import ListSource
from hypersphere.evaluation.embed_files import Engine
from hypersphere.models import Contract, load_model, save_model
from hypersphere.pocket import PocketFaces
from hypersphere.service import ServeOptions, ServiceSettings
from tests.cli.test_evaluate import CONTRACT
from tests.models.networks import linear_onnx, randomize
from tests.training.small import RECIPE

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def document(capsys: Capture, *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["--json", *words]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_advise_judges_every_margin_at_a_scale(capsys: Capture) -> None:
    own = ["--m0", "1.1", "--m1", "1.2", "--m2", "0.1", "--m3", "0.2"]
    found = document(capsys, "advise", "--classes", "1000", "--dim", "64", "--scale", "48", *own)
    setting = found["own"]["setting"]
    assert {name: setting[name] for name in ("scale", "m0", "m1", "m2", "m3")} == {
        "scale": 48, "m0": 1.1, "m1": 1.2, "m2": 0.1, "m3": 0.2,
    }  # fmt: skip
    assert found["advice"]["setting"]["scale"] == 48


def test_embed_by_a_contract_elsewhere_and_by_format(here: Path, capsys: Capture) -> None:
    write_source(PocketFaces(num_identities=2, images_per_identity=2, size=16), here / "people", quality=90)
    linear_onnx(here / "net.onnx", size=16, batch=1)
    Path("elsewhere.toml").write_text(CONTRACT)
    Path("names").write_text("".join(f"people/{k}/{j:04d}.jpg {k}\n" for k in (0, 1) for j in (0, 1)))
    words = ["embed", "names", "a.npy", "--model", "net.onnx", "--workers", "1", "--engine", "local"]
    assert main([*words, "--contract", "elsewhere.toml"]) == 2
    assert main([*words, "--format", "list"]) == 2
    assert "contract" in capsys.readouterr().err
    assert main([*words, "--contract", "elsewhere.toml", "--format", "list"]) == 0
    assert json.loads(Path("a.json").read_text())["contract"]["colour"] == "bgr"
    assert Path("a.txt").read_text().splitlines() == list(ListSource("names").files)
    assert main(["embed", "names", "b.npy", "--model", "net.onnx", "--workers", "-1", "--format", "list"]) == 2


def test_embed_by_ray_with_so_many_processes(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def engine(workers: int) -> Engine:
        asked.append(workers)
        return lambda opened, missing: map(opened.embed_part, missing)

    monkeypatch.setattr(hs.evaluation, "ray_engine", engine)
    write_source(PocketFaces(num_identities=2, images_per_identity=2, size=112), here / "people", quality=90)
    words = ["embed", "people", "a.npy", "--device", "cpu", "--engine", "ray", "--processes", "3"]
    assert main(words) == 0
    assert (asked, np.load("a.npy").shape) == ([3], (4, 128))


def test_export_unit_vectors_over_an_older_file(here: Path, capsys: Capture) -> None:
    torch.manual_seed(0)
    network = randomize(create_backbone("cnn4", dim=8, input_size=(16, 16)))
    save_model(here / "m.safetensors", network, Contract(input_size=(16, 16)), {"name": "cnn4", "dim": 8})
    Path("m.onnx").write_bytes(b"older")
    words = ["export", "m.safetensors", "m.onnx", "--count", "4", "--normalize"]
    assert main(words) == 2
    assert "m.onnx exists already" in capsys.readouterr().err
    assert main([*words, "--replace"]) == 0
    raw = load_model("m.onnx").network(PocketFaces(2, 1, 16).batch([0, 1]).float())
    np.testing.assert_allclose(np.linalg.norm(np.asarray(raw), axis=1), 1, rtol=1e-5)


def test_export_for_other_runtimes(here: Path, capsys: Capture) -> None:
    torch.manual_seed(0)
    network = randomize(create_backbone("cnn4", dim=8, input_size=(16, 16)))
    save_model(here / "m.safetensors", network, Contract(input_size=(16, 16)), {"name": "cnn4", "dim": 8})
    words = ["export", "m.safetensors", "m.onnx", "--count", "4", "--preprocess", "--input", "uint8", "--opset", "18"]
    found = document(capsys, *words, "--batch", "1", "--half")
    assert (found["batch"], found["input"], found["opset"], found["precision"]) == (1, "uint8", 18, "float16")
    assert found["parity"]["least_cosine"] > 0.999
    assert main(["export", "m.safetensors", "o.xml", "--count", "4"]) == 0
    assert "o.xml: cnn4, OpenVINO, float32, any batch" in capsys.readouterr().out


def test_train_hands_over_how_it_trains(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("small.toml").write_text(RECIPE)
    compiled: list[torch.nn.Module] = []

    def compile_watched(network: torch.nn.Module, **_: object) -> torch.nn.Module:
        compiled.append(network)
        return network

    monkeypatch.setattr(torch, "compile", compile_watched)
    words = ["train", "small.toml", "--steps", "2", "--device", "cpu", "--compile", "--tensorboard", "--workers", "0"]
    assert main([*words, "--out", "run"]) == 0
    assert compiled
    assert list(Path("run/tensorboard").glob("events.*"))
    assert main([*words[:-1], "-1", "--out", "other"]) == 2


def test_compare_hands_over_how_it_trains(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    Path("small.toml").write_text(RECIPE)
    asked: list[dict[str, Any]] = []
    run = hs.training.run_tasks

    def watched(tasks: Any, world: Any, trainer: dict[str, Any], *, jobs: int, **others: Any) -> Any:
        asked.append({**trainer, "jobs": jobs, "epochs": tasks[0].recipe.train.epochs})
        return run(tasks, world, {"workers": 0, "compile": False}, jobs=1, **others)

    monkeypatch.setattr(hs.training, "run_tasks", watched)
    words = ["compare", "small.toml", "--out", "cells", "--device", "cpu", "--compile", "--workers", "5"]
    assert main([*words, "--jobs", "2", "--epochs", "0.5", "train.steps=0"]) == 0
    assert asked == [{"workers": 2, "compile": True, "jobs": 2, "epochs": 0.5}]


def test_serve_hands_over_what_to_serve(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[tuple[ServeOptions, ServiceSettings]] = []
    monkeypatch.setattr(hs.service, "serve", lambda options, settings, ready: served.append((options, settings)))
    monkeypatch.setenv("HYPERSPHERE_TOKEN", "a token of many characters")
    words = ["serve", "--gallery", "g.db", "--model", "net", "--detector", "d.onnx", "--calibration", "albums"]
    words += ["--host", "0.0.0.0", "--port", "1"]
    words += ["--workers", "2", "--rate", "3", "--non-matches", "4", "--proxy", "10.0.0.1", "--scores"]
    assert main([*words, "--keys", "keys.json"]) == 0
    ((options, settings),) = served
    assert options == ServeOptions(
        gallery="g.db", model="net", detector="d.onnx", calibration="albums", proxy="10.0.0.1"
    )
    assert (settings.host, settings.port, settings.rate, settings.non_matches) == ("0.0.0.0", 1, 3.0, 4)
    assert (settings.workers, settings.scores, settings.keys) == (2, True, "keys.json")
    assert settings.state == "keys.json.used.json"
