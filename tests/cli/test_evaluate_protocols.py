"""`hypersphere evaluate blufr | ytf | ijb | megaface | reid | classify`."""

import json
import tarfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from hypersphere.cli import main
from hypersphere.data import encode
from hypersphere.evaluation import Embeddings
from hypersphere.evaluation.protocols import list_protocols, read_ijb
from hypersphere.pocket import PocketFaces
from hypersphere.training import Trainer, load_recipe
from tests.cli.test_evaluate import CONTRACT, RECIPE
from tests.evaluation.protocols import official
from tests.models.networks import linear_onnx


def saved(folder: Path, embeddings: Embeddings, name: str = "E") -> list[str]:
    """The options that hand over ready embeddings."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / f"{name}.npy", embeddings.values)
    (folder / f"{name}.txt").write_text("".join(f"{each}\n" for each in embeddings.names))
    return ["--embeddings", str(folder / f"{name}.npy"), "--names", str(folder / f"{name}.txt")]


def evaluate(out: Path, *words: object) -> dict[str, Any]:
    """The result of a command; no time is spent on its page."""
    with patch("hypersphere.evaluation.protocols.write_evaluated.write_report", return_value="no page"):
        assert main(["evaluate", *map(str, words), "--out", str(out)]) == 0
    table: dict[str, Any] = json.loads((out / "result.json").read_text())
    return table


def report(out: Path, *words: object) -> str:
    """The page of a command."""
    assert main(["evaluate", *map(str, words), "--out", str(out)]) == 0
    page = (out / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    return page


def fails(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main(["evaluate", *map(str, words), "--out", "unused"]) != 0
    return capsys.readouterr().err


def test_every_protocol_is_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert list_protocols() == ["blufr", "classify", "ijb", "megaface", "pairs", "reid", "ytf"]
    for name in list_protocols():
        with pytest.raises(SystemExit, match="0"):
            main(["evaluate", name, "--help"])
        assert "--allow-missing" in capsys.readouterr().out


def test_blufr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ready = saved(tmp_path, official.write_blufr(tmp_path / "config.mat"))
    words = ["blufr", "--config", tmp_path / "config.mat", *ready, "--pca", "8"]
    assert "Trade-off" in report(tmp_path / "out", *words)
    table = json.loads((tmp_path / "out" / "result.json").read_text())
    assert table["options"]["pca"] == 8
    assert set(table["metrics"]["vr_less_sd@far=1e-3"]) == {"value", "low", "high", "n", "interval", "unit"}
    assert "dir@far=1e-2" in capsys.readouterr().out


def test_ytf_from_embeddings_and_from_frames(tmp_path: Path) -> None:
    embeddings = official.write_ytf(tmp_path / "splits.txt")
    page = report(tmp_path / "a", "ytf", "--splits", tmp_path / "splits.txt", *saved(tmp_path, embeddings))
    assert "accuracy_hik_svm" in page
    faces = PocketFaces(40, 12, size=16, difficulty=0.1)
    with tarfile.open(tmp_path / "frames.tar", "w") as archive:
        for place, name in enumerate(embeddings.names):
            file = tmp_path / "frame.jpg"
            file.write_bytes(encode(faces.read(place), 95))
            archive.add(file, f"YouTubeFaces/{name}")
    linear_onnx(tmp_path / "net.onnx", size=16, batch=1)
    (tmp_path / "net.contract.toml").write_text(CONTRACT)
    words = ["--splits", tmp_path / "splits.txt", "--images", tmp_path / "frames.tar", "--classifiers", "mean"]
    made = evaluate(tmp_path / "b", "ytf", *words, "--model", tmp_path / "net.onnx", "--save-embeddings")
    assert made["counts"]["frames"] == 400
    assert "accuracy_hik_svm" not in made["metrics"]
    again = [tmp_path / "b" / name for name in ("embeddings.npy", "names.txt")]
    ready = ["--embeddings", again[0], "--names", again[1], "--classifiers", "mean"]
    repeated = evaluate(tmp_path / "c", "ytf", "--splits", tmp_path / "splits.txt", *ready)
    assert repeated["metrics"] == made["metrics"]


def test_ijb_with_presets_and_choices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    embeddings = official.write_ijb(tmp_path / "meta")
    words = [
        "ijb",
        "--meta",
        tmp_path / "meta",
        *saved(tmp_path, embeddings),
        "--far",
        "1e-1",
        "1e-2",
        "--fpir",
        "1e-1",
    ]
    plain = evaluate(tmp_path / "a", *words)
    assert "--merge-flip given" in fails(capsys, *words, "--preset", "arcface_torch")
    words += ["--merge-flip", "sum"]
    preset = evaluate(tmp_path / "b", *words, "--preset", "arcface_torch")
    mixed = evaluate(tmp_path / "c", *words, "--preset", "arcface_torch", "--no-keep-norm", "--search", "both")
    assert (preset["options"]["subset"], preset["options"]["preset"]) == ("ijbc", "arcface_torch")
    few = evaluate(tmp_path / "few", *words[:-2], "--fpir", "1e-4")
    assert few["metrics"]["tpir@fpir=1e-4"]["not_measurable"]
    assert plain["options"]["pooling"]["flip"] == "given"
    assert preset["options"]["tar_rule"] == mixed["options"]["tar_rule"] == "nearest"
    assert mixed["options"]["pooling"]["keep_norm"] is False
    assert "merged_rank-1" in mixed["metrics"]
    assert "rank-1" in mixed["metrics"]
    wanted = read_ijb(tmp_path / "meta").evaluate(embeddings, options="arcface_torch", fars=[1e-2], fpirs=[1e-1])
    assert preset["metrics"]["tar@far=1e-2"]["value"] == wanted.metrics["tar@far=1e-2"].value
    fewer = saved(tmp_path, Embeddings(embeddings.names[1:], embeddings.values[1:]), "F")
    message = fails(capsys, "ijb", "--meta", tmp_path / "meta", *fewer)
    assert "ijbc_face_tid_mid.txt, line 1: '1.jpg' has no embedding, and 1 of 288 images have none" in message
    page = report(tmp_path / "d", "ijb", "--meta", tmp_path / "meta", *fewer, "--allow-missing", "--fpir", "1e-1")
    assert "1 missing images" in page
    assert "CMC" in page


def test_the_flip_of_a_preset_is_the_models(tmp_path: Path) -> None:
    embeddings = official.write_ijb(tmp_path / "meta")
    faces = PocketFaces(24, 12, size=16, difficulty=0.1)
    (tmp_path / "crops").mkdir()
    for place, name in enumerate(embeddings.names):
        (tmp_path / "crops" / name).write_bytes(encode(faces.read(place), 95))
    linear_onnx(tmp_path / "net.onnx", size=16, batch=1)
    (tmp_path / "net.contract.toml").write_text(CONTRACT)
    words = ["ijb", "--meta", tmp_path / "meta", "--images", tmp_path / "crops", "--model", tmp_path / "net.onnx"]
    asked = ["--preset", "opensphere", "--task", "1:1", "--far", "1e-1"]
    mean = evaluate(tmp_path / "a", *words, *asked)
    side = evaluate(tmp_path / "b", *words, *asked, "--flip", "concat")
    assert mean["options"]["embeddings"]["contract"]["flip"] == "mean"
    assert side["metrics"]["tar@far=1e-1"] == mean["metrics"]["tar@far=1e-1"]


def test_megaface(tmp_path: Path) -> None:
    near, far = official.write_megaface(tmp_path / "lists")
    lists = ["--probes", tmp_path / "lists" / "facescrub_features_list.json"]
    lists += ["--distractors", tmp_path / "lists" / "megaface_features_list.json_400_1"]
    noise = ["--probe-noise", tmp_path / "lists" / "facescrub_noises.txt"]
    noise += ["--distractor-noise", tmp_path / "lists" / "megaface_noises.txt"]
    apart = [*saved(tmp_path, near, "P"), *(word.replace("--", "--distractor-") for word in saved(tmp_path, far, "D"))]
    together = Embeddings([*near.names, *far.names], np.concatenate([near.values, far.values]))
    one = evaluate(tmp_path / "a", "megaface", *lists, *apart)
    two = evaluate(tmp_path / "b", "megaface", *lists, *saved(tmp_path, together))
    assert one["metrics"] == two["metrics"]
    assert "D.npy" in json.dumps(one["options"]["distractors"])
    assert "Worst false matches" in report(tmp_path / "c", "megaface", *lists, *noise, *apart)
    clean = json.loads((tmp_path / "c" / "result.json").read_text())
    assert (one["options"]["cleaning"], clean["options"]["cleaning"]) == ("none", "remove")
    assert clean["counts"]["distractors"] == 398


def test_distractors_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    near, far = official.write_megaface(tmp_path / "lists", people=4, each=3, distractors=48)
    faces = PocketFaces(12, 4, size=16, difficulty=0.3)
    for folder, embeddings in (("near", near), ("far", far)):
        for place, name in enumerate(embeddings.names):
            file = tmp_path / folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(encode(faces.read(place), 95))
    linear_onnx(tmp_path / "net.onnx", size=16, batch=1)
    (tmp_path / "net.contract.toml").write_text(CONTRACT)
    words = ["megaface", "--probes", tmp_path / "lists" / "facescrub_features_list.json"]
    words += ["--distractors", tmp_path / "lists" / "megaface_features_list.json_48_1", "--limit", "20"]
    images = ["--images", tmp_path / "near", "--distractor-images", tmp_path / "far"]
    made = evaluate(tmp_path / "a", *words, "--model", tmp_path / "net.onnx", *images, "--save-embeddings")
    assert (made["counts"]["distractors"], made["options"]["limit"]) == (20, 20)
    saved_files = {path.name for path in (tmp_path / "a").iterdir()}
    assert {"embeddings.npy", "names.txt", "embeddings-distractors.npy", "names-distractors.txt"} <= saved_files
    names = (tmp_path / "a" / "names-distractors.txt").read_text().splitlines()
    assert (names, np.load(tmp_path / "a" / "embeddings-distractors.npy").shape) == (list(far.names[:20]), (20, 4))
    ready = ["--embeddings", tmp_path / "a" / "embeddings.npy", "--names", tmp_path / "a" / "names.txt"]
    ready += ["--distractor-embeddings", tmp_path / "a" / "embeddings-distractors.npy"]
    ready += ["--distractor-names", tmp_path / "a" / "names-distractors.txt"]
    page = report(tmp_path / "b", *words, *ready, *images)
    again = json.loads((tmp_path / "b" / "result.json").read_text())
    assert again["metrics"] == made["metrics"]
    assert page.count("<li>") == sum(map(len, again["worst"].values())) == 20
    (tmp_path / "far").rename(tmp_path / "near" / "far")
    for name in far.names[20:]:
        (tmp_path / "near" / "far" / name).unlink()
    for child in (tmp_path / "near" / "far").iterdir():
        child.rename(tmp_path / "near" / child.name)
    joined = evaluate(tmp_path / "c", *words, "--model", tmp_path / "net.onnx", "--images", tmp_path / "near")
    assert joined["metrics"] == made["metrics"], "what lies beyond the limit is not needed"
    for limit, message in (("0", "limit=0 must be"), ("49", "limit=49 is above the number of distractors, 48")):
        assert message in fails(capsys, *words[:-1], limit, *ready)


def test_reid_from_a_folder_and_from_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ready = saved(tmp_path, official.write_market(tmp_path / "market"))
    assert "CMC" in report(tmp_path / "a", "reid", "--market", tmp_path / "market", *ready)
    folder = json.loads((tmp_path / "a" / "result.json").read_text())
    names = evaluate(tmp_path / "b", "reid", *ready)
    assert folder["metrics"] == names["metrics"]
    other = evaluate(tmp_path / "c", "reid", *ready, "--area", "trapezoid")
    assert other["metrics"]["map"]["value"] < names["metrics"]["map"]["value"]
    assert "give either --model and --images, or --embeddings and --names" in fails(capsys, "reid")


def test_classify_by_an_array_and_by_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "recipe.toml").write_text(RECIPE)
    trained = Trainer(load_recipe(tmp_path / "recipe.toml"), tmp_path / "run").run()
    faces = PocketFaces(4, 4, size=16)
    (tmp_path / "faces").mkdir()
    for place in range(16):
        (tmp_path / "faces" / f"{place}.png").write_bytes(encode(faces.read(place)))
    (tmp_path / "test.txt").write_text("".join(f"{place}.png {place // 4}\n" for place in range(16)))
    words = ["classify", "--test", tmp_path / "test.txt", "--images", tmp_path / "faces"]
    page = report(tmp_path / "a", *words, "--model", trained.folder, "--save-embeddings")
    by_run = json.loads((tmp_path / "a" / "result.json").read_text())
    wrong = len(by_run["worst"]["mistakes"])
    assert wrong > 0
    assert page.count("<li>") == wrong
    np.save(tmp_path / "W.npy", trained.head.weight.detach().numpy())
    ready = ["--embeddings", tmp_path / "a" / "embeddings.npy", "--names", tmp_path / "a" / "names.txt"]
    again = ["classify", "--test", tmp_path / "test.txt", *ready, "--prototypes", tmp_path / "W.npy"]
    assert "class_margin" in report(tmp_path / "b", *again)
    by_array = json.loads((tmp_path / "b" / "result.json").read_text())
    assert by_run["metrics"] == by_array["metrics"]
    assert "give --prototypes NPY" in fails(capsys, "classify", "--test", tmp_path / "test.txt", *ready)


def test_what_a_protocol_cannot_take_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ready = saved(tmp_path, official.write_market(tmp_path / "market"))
    words = ["reid", "--market", tmp_path / "market"]
    twice = ["--embeddings", ready[1], ready[1], "--names", ready[3], "--merge", "scores"]
    assert "merges them with --merge concat or unit only" in fails(capsys, *words, *twice)
    assert "this protocol takes one" in fails(capsys, *words, *ready, "--images", tmp_path, tmp_path)
    linear_onnx(tmp_path / "net.onnx", size=16, batch=1)
    model = ["--model", tmp_path / "net.onnx", "--images", tmp_path / "market" / "query"]
    assert "/query; 84 of 84 images are missing" in fails(capsys, *words, *model)


def test_rates_are_rates(capsys: pytest.CaptureFixture[str]) -> None:
    words = {"pairs": ["--far"], "ytf": ["--splits", "s", "--far"], "ijb": ["--meta", "m", "--fpir"]}
    for protocol, options in words.items():
        for text, message in (
            ("0", "0 must be above 0 and at most 1"),
            ("2", "2 must be"),
            ("x", "invalid rate value"),
        ):
            with pytest.raises(SystemExit, match="2"):
                main(["evaluate", protocol, *options, text])
            error = capsys.readouterr().err
            assert f"argument {options[-1]}: " in error
            assert message in error


def test_missing_images_are_found_before_any_is_embedded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "faces").mkdir()
    (tmp_path / "faces" / "1.jpg").write_bytes(encode(PocketFaces(2, 2, size=16).read(0), 95))
    (tmp_path / "no.onnx").touch()
    (tmp_path / "no.onnx").write_bytes(b"no network")
    model = ["--model", tmp_path / "no.onnx", "--images", tmp_path / "faces"]
    official.write_ijb(tmp_path / "meta")
    text = fails(capsys, "ijb", "--meta", tmp_path / "meta", *model)
    assert "ijbc_face_tid_mid.txt, line 2: there is no '2.jpg' in " in text
    assert "/faces; 287 of 288 images are missing; --allow-missing" in text
    official.write_blufr(tmp_path / "config.mat")
    text = fails(capsys, "blufr", "--config", tmp_path / "config.mat", *model)
    assert "config.mat, imageList{1}: there is no 'Pocket_Person_00/Pocket_Person_00_0001.jpg'" in text
    official.write_megaface(tmp_path)
    lists = [
        "--probes",
        tmp_path / "facescrub_features_list.json",
        "--distractors",
        tmp_path / "megaface_features_list.json_400_1",
    ]
    assert "features_list.json, path[0]: there is no 'Pocket" in fails(capsys, "megaface", *lists, *model)
    (tmp_path / "test.txt").write_text("1.jpg 0\n\n2.jpg 1\n")
    np.save(tmp_path / "W.npy", np.eye(2, dtype=np.float32))
    words = ["classify", "--test", tmp_path / "test.txt", "--prototypes", tmp_path / "W.npy", *model]
    assert "test.txt, line 3: there is no '2.jpg'" in fails(capsys, *words)
    official.write_ytf(tmp_path / "splits.txt")
    text = fails(capsys, "ytf", "--splits", tmp_path / "splits.txt", *model)
    assert "splits.txt, line 2: there is no frame of 'Pocket_Person_00/0', and 120 pairs lack one" in text
