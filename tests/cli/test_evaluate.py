"""`hypersphere evaluate`: from images or embeddings to a folder with the result and its page."""

import json
import re
import tarfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch

from hypersphere.backbones import create_backbone
from hypersphere.cli import main
from hypersphere.data import FolderSource, NamedImages, write_pack
from hypersphere.evaluation.protocols import read_pairs
from hypersphere.models import Contract, save_model
from hypersphere.training import Trainer, load_recipe
from tests.evaluation.protocols.standins import lfw_name, made_up, write_faces, write_lfw_list
from tests.models.networks import linear_onnx

CONTRACT = 'input_size = [16, 16]\ncolour = "bgr"\nmean = [127.5]\nstd = [128.0]\n'
RECIPE = """
[data]
identities = 4
images_per_identity = 4
size = [16, 16]
[augment]
mean = 0.5
std = 0.25
[backbone]
name = "cnn4"
dim = 4
[head]
name = "arcface"
[train]
steps = 6
batch_size = 8
checkpoint_every = 2
"""


@pytest.fixture(scope="module")
def lfw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as people have it: the list, and a folder of faces."""
    root = tmp_path_factory.mktemp("lfw")
    write_lfw_list(root / "lfw-pairs.txt")
    write_faces(root / "faces")
    linear_onnx(root / "net.onnx", size=16, batch=1)
    (root / "net.contract.toml").write_text(CONTRACT)
    return root


def evaluate(out: Path, *words: str | Path) -> dict[str, Any]:
    """The result of a command; its page has no curves, which cost more than all else."""
    with patch("hypersphere.plots.page._drawn", return_value="data:,"):
        assert main(["evaluate", "pairs", *map(str, words), "--out", str(out)]) == 0
    table: dict[str, Any] = json.loads((out / "result.json").read_text())
    assert (out / "report.html").read_text().startswith("<!doctype html>")
    return table


def fails(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    capsys.readouterr()
    assert main(["evaluate", *map(str, words)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("hypersphere: ")
    assert error.count("\n") == 1
    return error


def test_a_model_on_images_in_a_folder_or_a_tar(lfw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--model", lfw / "net.onnx", "--pairs", lfw / "lfw-pairs.txt", "--images")
    folder = evaluate(tmp_path / "a", *words, lfw / "faces")
    assert "accuracy" in capsys.readouterr().out
    with tarfile.open(tmp_path / "faces.tar", "w") as tar:
        tar.add(lfw / "faces", arcname="lfw")
    archive = evaluate(tmp_path / "b", *words, tmp_path / "faces.tar", "--batch-size", "7")
    assert archive["metrics"] == folder["metrics"]
    contract = folder["options"]["embeddings"][0]["contract"]
    assert (contract["colour"], contract["std"], contract["dim"], len(contract["digest"])) == ("bgr", [128.0], 4, 16)
    assert folder["counts"]["pairs"] == 60
    assert "<li>" in (tmp_path / "a" / "report.html").read_text()
    assert evaluate(tmp_path / "c", "--model", lfw / "net.onnx", "--data", lfw)["metrics"] == folder["metrics"]


def test_embeddings_made_here_come_back_as_ready_ones(lfw: Path, tmp_path: Path) -> None:
    first = evaluate(
        tmp_path / "a", "--model", lfw / "net.onnx", "--data", lfw, "--flip", "concat", "--center", "--save-embeddings"
    )
    values = np.load(tmp_path / "a" / "embeddings.npy")
    assert values.shape == (80, 8)
    ready = ("--embeddings", tmp_path / "a" / "embeddings.npy", "--names", tmp_path / "a" / "names.txt")
    second = evaluate(tmp_path / "b", *ready, "--pairs", lfw / "lfw-pairs.txt", "--center")
    assert second["metrics"] == first["metrics"]
    assert first["options"]["center"] is second["options"]["center"] is True
    assert first["options"]["embeddings"][0]["contract"]["flip"] == "concat"
    np.save(tmp_path / "left.npy", values[:, :4])
    np.save(tmp_path / "right.npy", values[:, 4:])
    halves = ("--embeddings", tmp_path / "left.npy", tmp_path / "right.npy", "--names", tmp_path / "a" / "names.txt")
    joined = evaluate(tmp_path / "c", *halves, "--pairs", lfw / "lfw-pairs.txt", "--center", "--merge", "concat")
    assert joined["metrics"] == first["metrics"]
    averaged = evaluate(tmp_path / "d", *halves, "--pairs", lfw / "lfw-pairs.txt", "--merge", "scores")
    assert averaged["options"]["merge"] == "mean of scores"
    assert "mean_snapshot_accuracy" in averaged["metrics"]
    alike = evaluate(tmp_path / "e", *halves, "--pairs", lfw / "lfw-pairs.txt", "--merge", "unit")
    for name in ("accuracy", "auc", "eer", "tar@far=1e-1"):
        assert alike["metrics"][name]["value"] == pytest.approx(averaged["metrics"][name]["value"], abs=1e-9)
    np.save(tmp_path / "others.npy", values[:30])
    fitted = evaluate(
        tmp_path / "f", *ready, "--pairs", lfw / "lfw-pairs.txt", "--pca", "5", "--fit", tmp_path / "others.npy"
    )
    assert fitted["options"]["fit"] == "30 other images"


def test_a_pca_of_other_images_by_the_same_models(
    lfw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two models merged, their mean and PCA learned from a folder of other images, as from their arrays."""
    words = ("--model", lfw / "net.onnx", lfw / "net.onnx", "--data", lfw, "--pca", "3", "--fit", lfw / "faces")
    merged = evaluate(tmp_path / "a", *words, "--merge", "unit", "--save-embeddings")
    pairs, values = read_pairs(lfw / "lfw-pairs.txt"), np.load(tmp_path / "a" / "embeddings.npy")
    names = (tmp_path / "a" / "names.txt").read_text().split("\n")
    assert len(names) - 1 == len(values)
    np.testing.assert_allclose(np.linalg.norm(values[:, :4], axis=1), 1, rtol=1e-5)
    ready = ("--embeddings", tmp_path / "a" / "embeddings.npy", "--names", tmp_path / "a" / "names.txt")
    again = evaluate(
        tmp_path / "b",
        *ready,
        "--pairs",
        lfw / "lfw-pairs.txt",
        "--pca",
        "3",
        "--fit",
        tmp_path / "a" / "embeddings.npy",
    )
    assert len(pairs) == merged["counts"]["pairs"]
    assert again["metrics"]["auc"]["value"] == pytest.approx(merged["metrics"]["auc"]["value"], abs=1e-6)
    assert "use --merge unit" in fails(capsys, "pairs", *words, "--merge", "scores")
    assert "give --pca N" in fails(capsys, "pairs", *words[:5], "--merge", "unit", "--fit", lfw / "faces")


def test_our_own_model_files_and_runs(lfw: Path, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(RECIPE)
    trainer = Trainer(load_recipe(tmp_path / "own.toml"), tmp_path / "run")
    trainer.run()
    run = evaluate(tmp_path / "a", "--model", tmp_path / "run", "--data", lfw, "--flip", "sum")
    contract = Contract(input_size=(16, 16), mean=(127.5,), std=(63.75,), flip="sum")
    network = create_backbone("cnn4", dim=4, input_size=(16, 16))
    network.load_state_dict(trainer.state.model().state_dict())
    save_model(tmp_path / "m.safetensors", network, contract, {"name": "cnn4", "dim": 4})
    file = evaluate(tmp_path / "b", "--model", tmp_path / "m.safetensors", "--data", lfw)
    assert file["metrics"] == run["metrics"]
    contracts = [table["options"]["embeddings"][0]["contract"] for table in (run, file)]
    assert contracts[0] == contracts[1]
    several = evaluate(tmp_path / "c", "--model", tmp_path / "run", "--data", lfw, "--snapshots", "3")
    assert [made["model"] for made in several["options"]["embeddings"]] == [f"run, step {k}" for k in (2, 4, 6)]
    assert len(several["details"]["all"]["snapshot_accuracies"]) == 3


def test_a_pack_and_a_list_are_pooled(lfw: Path, tmp_path: Path) -> None:
    pairs = read_pairs(lfw / "lfw-pairs.txt")
    source = NamedImages(lfw / "faces", pairs.names)
    places = np.stack([source.find(pairs.left), source.find(pairs.right)], 1)
    write_pack(source, tmp_path / "pack.bin", pairs=places, same=pairs.same)
    words = ("--pairs", lfw / "lfw-pairs.txt", tmp_path / "pack.bin", "--images", lfw / "faces")
    table = evaluate(tmp_path / "a", "--model", lfw / "net.onnx", *words)
    assert table["options"]["sets"] == ["lfw-pairs", "pack"]
    values = {name: table["metrics"][f"{name}/eer"]["value"] for name in ("lfw-pairs", "pack")}
    assert values["lfw-pairs"] == values["pack"] == table["metrics"]["eer"]["value"]
    assert table["metrics"]["lfw-pairs/eer"]["interval"] == "bootstrap over subjects"
    assert table["metrics"]["eer"]["interval"] == "wilson", "nobody knows who is on the images of a pack"
    assert "<li>" in (tmp_path / "a" / "report.html").read_text()
    alone = evaluate(tmp_path / "b", "--model", lfw / "net.onnx", "--data", tmp_path / "pack.bin")
    assert alone["metrics"]["accuracy"] == table["metrics"]["pack/accuracy"]


def test_missing_images_are_counted_if_allowed(lfw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    faces = tmp_path / "faces"
    write_faces(faces)
    (faces / lfw_name(0, 3)).unlink()
    words = ("--model", lfw / "net.onnx", "--pairs", lfw / "lfw-pairs.txt", "--images", faces)
    error = fails(capsys, "pairs", *words, "--out", tmp_path / "a")
    assert "lfw-pairs.txt, line 3: there is no 'Person_A/Person_A_0003.jpg'; 1 images of 1 pairs" in error
    assert not (tmp_path / "a").exists()
    table = evaluate(tmp_path / "a", *words, "--allow-missing")
    assert (table["counts"]["missing_images"], table["counts"]["pairs_left_out"]) == (1, 1)
    assert re.search(r"^  pairs left out +1$", capsys.readouterr().out, flags=re.MULTILINE)
    assert "1 missing images, 1 pairs left out" in (tmp_path / "a" / "report.html").read_text()
    write_lfw_list(tmp_path / "lfw-pairs.txt")
    found = ("--model", lfw / "net.onnx", "--data", tmp_path)
    assert "line 3: there is no 'Person_A/Person_A_0003.jpg'" in fails(capsys, "pairs", *found, "--out", tmp_path / "b")
    assert evaluate(tmp_path / "b", *found, "--allow-missing")["metrics"] == table["metrics"]
    (tmp_path / "lfw-pairs.txt").write_text((lfw / "lfw-pairs.txt").read_text().replace("Person", "Nobody"))
    error = fails(capsys, "pairs", *found, "--allow-missing", "--out", tmp_path / "c")
    assert "expected one folder or tar in it with the images of lfw-pairs.txt (found none)" in error


def test_without_out_results_go_to_runs(lfw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["evaluate", "pairs", "--model", str(lfw / "net.onnx"), "--data", str(lfw)]) == 0
    found = sorted(path.name for path in (tmp_path / "runs" / "evaluation").iterdir())
    assert found == ["items.npz", "report.html", "result.json"]


def test_of_several_lists_pairs_txt_is_meant(lfw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    write_faces(data / "faces")
    lines = write_lfw_list(data / "all-pairs.txt").read_text().splitlines()
    (data / "dev-pairs.txt").write_text("\n".join(lines))
    command = ("--model", lfw / "net.onnx", "--data", data)
    error = fails(capsys, "pairs", *command, "--out", tmp_path / "out")
    assert "found all-pairs.txt, dev-pairs.txt" in error
    (data / "pairs.txt").write_text("\n".join(["2\t3", *lines[1:13]]))
    table = evaluate(tmp_path / "out", *command)
    assert table["options"]["sets"] == ["pairs"]
    assert (table["counts"]["pairs"], table["options"]["folds"]) == (12, 2)
    assert list(table["files"]) == ["pairs.txt"]


def test_two_results_side_by_side(lfw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = read_pairs(lfw / "lfw-pairs.txt").names
    (tmp_path / "names.txt").write_text("\n".join(names))
    for name, noise in (("a", 1.5), ("b", 0.3)):
        np.save(tmp_path / "e.npy", made_up(names, noise=noise).values)
        ready = ("--embeddings", tmp_path / "e.npy", "--names", tmp_path / "names.txt")
        evaluate(tmp_path / name, *ready, "--pairs", lfw / "lfw-pairs.txt", "--far", "0.1")
    capsys.readouterr()
    assert main(["evaluate", "compare", str(tmp_path / "a"), str(tmp_path / "b"), "--out", str(tmp_path / "c")]) == 0
    text = capsys.readouterr().out
    assert "mcnemar, exact" in text
    assert "paired bootstrap over subjects" in text
    assert (tmp_path / "c" / "compare.html").is_file()


def test_bad_input_is_one_line(lfw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, pairs = ("--out", tmp_path / "out"), ("--pairs", lfw / "lfw-pairs.txt")
    model, images = ("--model", lfw / "net.onnx"), ("--images", lfw / "faces")
    np.save(tmp_path / "e.npy", np.ones((2, 3)))
    (tmp_path / "l.txt").write_text("a\nb\n")
    ready = ("--embeddings", tmp_path / "e.npy", "--names", tmp_path / "l.txt")
    for words, message in [
        ((*model, *images), "give --pairs LIST, or --data PATH"),
        ((*model, *pairs), "--model needs --images"),
        (pairs, "give either --model and --images, or --embeddings and --names"),
        ((*model, *images, *ready, *pairs), "give either"),
        ((*ready, *pairs, "--flip", "sum"), "--flip is for models"),
        ((*ready[:2], *pairs), "--embeddings needs --names"),
        ((*ready, *pairs), "line 2: nobody called 'Person_A' is known"),
        ((*model, lfw / "net.onnx", *images, *pairs), "2 models or arrays: say with --merge"),
        ((*model, *images, images[1], *pairs), "--images: 2 for 1 lists"),
        ((*model, "--data", lfw, *pairs), "--data stands for both"),
        ((*model, "--data", tmp_path), "one list *pairs*.txt (found none)"),
        ((*model, *images, *pairs, "--snapshots", "2"), "net.onnx is one model"),
        ((*model, *images, *pairs, "--contract", "insightface"), "its images are (3, 16, 16)"),
        ((*model, *images, *pairs, "--pca", "9"), "pca=9"),
        (
            ("--model", tmp_path, *images, *pairs),
            "is a folder without model.safetensors; a run of `hypersphere train` writes it",
        ),
        (("--model", tmp_path / "none.onnx", *images, *pairs), "none.onnx is missing"),
    ]:
        assert message in fails(capsys, "pairs", *words, *out)
        assert not (tmp_path / "out").exists()


def test_images_of_another_size_are_refused_or_resized(
    lfw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    linear_onnx(tmp_path / "small.onnx", size=8)
    (tmp_path / "c.toml").write_text(CONTRACT.replace("16", "8"))
    words = ("--model", tmp_path / "small.onnx", "--contract", tmp_path / "c.toml", "--data", lfw)
    assert "is 16x16 (width x height)" in fails(capsys, "pairs", *words, "--out", tmp_path / "out")
    table = evaluate(tmp_path / "out", *words, "--resize")
    assert table["options"]["embeddings"][0]["resize"] is True


def test_an_embedding_that_is_not_finite_names_its_image(
    lfw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = create_backbone("cnn4", dim=4, input_size=(16, 16))
    with torch.no_grad():
        next(network.parameters()).fill_(float("nan"))
    contract = Contract(input_size=(16, 16))
    save_model(tmp_path / "m.safetensors", network, contract, {"name": "cnn4", "dim": 4})
    error = fails(capsys, "pairs", "--model", tmp_path / "m.safetensors", "--data", lfw, "--out", tmp_path / "out")
    assert "m.safetensors makes an embedding of" in error
    assert "Person_A_0001.jpg that is not finite" in error
    assert len(FolderSource(lfw / "faces")) == 80


def test_a_missing_model_is_said_before_any_image_is_looked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pairs.txt").write_text("a/1.jpg a/2.jpg 1\na/1.jpg b/1.jpg 0\n")
    given = ["evaluate", "pairs", "--images", str(tmp_path), "--pairs", str(tmp_path / "pairs.txt")]
    assert main([*given, "--model", "nope.onnx"]) == 2
    assert "--model nope.onnx is missing" in capsys.readouterr().err
    assert main(given) == 2
    assert "give either --model and --images" in capsys.readouterr().err
