"""Options of `hypersphere evaluate` that all protocols share, and those of single ones: each changes a result."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hypersphere.data import encode
from hypersphere.pocket import PocketFaces
from hypersphere.training import Trainer, load_recipe
from tests.cli.test_evaluate import CONTRACT, RECIPE
from tests.cli.test_evaluate_protocols import evaluate, fails, saved
from tests.cli.test_plugins import PROTOCOL, registries  # noqa: F401 - a fixture
from tests.evaluation.protocols import official
from tests.evaluation.protocols.standins import write_faces, write_lfw_list
from tests.models.networks import linear_onnx

Own = list[object]


def blufr(folder: Path) -> tuple[Own, Sequence[str]]:
    return ["--config", folder / "config.mat"], official.write_blufr(folder / "config.mat", people=30, each=3).names


def ytf(folder: Path) -> tuple[Own, Sequence[str]]:
    names = official.write_ytf(folder / "splits.txt", frames=1).names
    return ["--splits", folder / "splits.txt", "--classifiers", "mean", "--far", "0.5", "--pca", "3"], names


def ijb(folder: Path) -> tuple[Own, Sequence[str]]:
    names = official.write_ijb(folder / "meta", subjects=8).names
    return ["--meta", folder / "meta", "--far", "0.5", "--fpir", "0.5"], names


def megaface(folder: Path) -> tuple[Own, Sequence[str]]:
    near, far = official.write_megaface(folder, people=4, each=3, distractors=48)
    words = ["--probes", folder / "facescrub_features_list.json"]
    return [*words, "--distractors", folder / "megaface_features_list.json_48_1"], [*near.names, *far.names]


def reid(folder: Path) -> tuple[Own, Sequence[str]]:
    return ["--market", folder / "market"], official.write_market(folder / "market", 6, 4).names


def classify(folder: Path) -> tuple[Own, Sequence[str]]:
    names = [f"{k}.jpg" for k in range(16)]
    (folder / "test.txt").write_text("".join(f"{name} {k // 4}\n" for k, name in enumerate(names)))
    np.save(folder / "P.npy", np.eye(4, 16, dtype=np.float32))
    return ["--test", folder / "test.txt", "--prototypes", folder / "P.npy"], names


def own(folder: Path) -> tuple[Own, Sequence[str]]:
    (folder / "own_protocol.py").write_text(PROTOCOL)
    return ["mean_length", "--plugin", folder / "own_protocol.py"], ["a.jpg", "b.jpg"]


PROTOCOLS = [blufr, ytf, ijb, megaface, reid, classify, own]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with three checkpoints, and an ONNX file whose contract lies elsewhere."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "recipe.toml").write_text(RECIPE)
    Trainer(load_recipe(folder / "recipe.toml"), folder / "run").run()
    linear_onnx(folder / "net.onnx", size=16, dim=16, batch=1)
    (folder / "elsewhere.toml").write_text(CONTRACT)
    points = [[5, 7], [11, 7], [8, 10], [6, 13], [10, 13]]
    (folder / "aligned.toml").write_text(f"{CONTRACT}points = {points}\n")
    return folder


def write_images(folder: Path, names: Sequence[str], size: int) -> Path:
    people = PocketFaces(len(names), 1, size=size, difficulty=0.2)
    for place, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(encode(people.read(place), 95))
    return folder


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_options_of_models_and_images(
    protocol: Callable[[Path], tuple[Own, Sequence[str]]],
    models: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    own, names = protocol(tmp_path)
    (tmp_path / "nothing.py").write_text("")
    words = [protocol.__name__, *own, "--images", write_images(tmp_path / "images", names, size=20)]
    words += ["--plugin", tmp_path / "nothing.py"]
    run = [*words, "--model", models / "run", "--snapshots", "2", "--merge", "concat", "--flip", "concat"]
    assert "--resize" in fails(capsys, *run, "--device", "cpu")
    made = evaluate(tmp_path / "a", *run, "--device", "cpu", "--resize", "--batch-size", "7", "--save-embeddings")
    entries = json.dumps(made["options"])
    assert '"flip": "concat"' in entries
    assert "run, step 4" in entries
    assert "run, step 6" in entries
    assert "run, step 2" not in entries
    assert np.load(tmp_path / "a" / "embeddings.npy").shape[1] == 2 * 2 * 4
    onnx = [*words, "--model", models / "net.onnx", "--resize"]
    assert "contract" in fails(capsys, *onnx)
    here = ["--provider", "cpu", "--offline"]
    made = evaluate(tmp_path / "b", *onnx, "--contract", models / "elsewhere.toml", *here)
    assert '"colour": "bgr"' in json.dumps(made["options"])
    crops = [*words, "--images", write_images(tmp_path / "crops", names, size=112), "--crops", "insightface-112"]
    evaluate(tmp_path / "c", *crops, "--model", models / "net.onnx", "--contract", models / "aligned.toml")
    assert "nowhere" in fails(capsys, *onnx, "--contract", models / "elsewhere.toml", "--device", "nowhere")
    assert "batch_size=0" in fails(capsys, *onnx, "--contract", models / "elsewhere.toml", "--batch-size", "0")


def test_pairs_on_a_device(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["pairs", "--pairs", write_lfw_list(tmp_path / "lfw.txt"), "--images", write_faces(tmp_path / "faces")]
    (tmp_path / "nothing.py").write_text("")
    words += ["--plugin", tmp_path / "nothing.py"]
    assert evaluate(tmp_path / "a", *words, "--model", models / "run", "--device", "cpu")["counts"]["pairs"] > 0
    assert "nowhere" in fails(capsys, *words, "--model", models / "run", "--device", "nowhere")


def test_choices_of_ijb(tmp_path: Path) -> None:
    embeddings = official.write_ijb(tmp_path / "meta", "ijbb", subjects=8)
    words = ["ijb", "--meta", tmp_path / "meta", *saved(tmp_path, embeddings), "--far", "0.5", "--fpir", "0.5"]
    chosen = ["--subset", "ijbb", "--detector-score", "--media", "none", "--tar-rule", "nearest"]
    made = evaluate(tmp_path / "a", *words, *chosen)["options"]
    assert (made["subset"], made["tar_rule"]) == ("ijbb", "nearest")
    assert (made["pooling"]["detector_score"], made["pooling"]["media"]) == (True, "none")


def test_cleaning_of_megaface(tmp_path: Path) -> None:
    near, far = official.write_megaface(tmp_path)
    words = ["megaface", "--probes", tmp_path / "facescrub_features_list.json"]
    words += ["--distractors", tmp_path / "megaface_features_list.json_400_1"]
    words += ["--probe-noise", tmp_path / "facescrub_noises.txt"]
    words += ["--distractor-noise", tmp_path / "megaface_noises.txt"]
    words += [*saved(tmp_path, near, "P"), *(word.replace("--", "--distractor-") for word in saved(tmp_path, far, "D"))]
    counts = {}
    for cleaning in ("none", "remove", "centre"):
        made: dict[str, Any] = evaluate(tmp_path / cleaning, *words, "--cleaning", cleaning)
        assert made["options"]["cleaning"] == cleaning
        counts[cleaning] = made["counts"]["distractors"]
    assert counts["remove"] == counts["none"] - 2
