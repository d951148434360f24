"""What is missing or damaged: an error with its name, or with --allow-missing counted and named; in every protocol."""

import json
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from hypersphere.cli import main
from hypersphere.data import encode
from hypersphere.evaluation.protocols import read_pairs
from hypersphere.pocket import PocketFaces
from tests.cli.test_evaluate import CONTRACT
from tests.evaluation.protocols import official, standins
from tests.models.networks import linear_onnx
from tests.plots.reader import Reader

Written = tuple[list[str | Path], list[str]]


def pairs(folder: Path) -> Written:
    standins.write_lfw_list(folder / "lfw.txt")
    return ["--pairs", folder / "lfw.txt", "--far", "0.1"], read_pairs(folder / "lfw.txt").names


def blufr(folder: Path) -> Written:
    return ["--config", folder / "c.mat"], list(official.write_blufr(folder / "c.mat", people=40, each=4).names)


def ytf(folder: Path) -> Written:
    names = list(official.write_ytf(folder / "splits.txt", frames=2).names)
    return ["--splits", folder / "splits.txt", "--classifiers", "mean"], names


def ijb(folder: Path) -> Written:
    return ["--meta", folder / "meta", "--fpir", "0.1"], list(official.write_ijb(folder / "meta").names)


def megaface(folder: Path) -> Written:
    near, far = official.write_megaface(folder / "lists", distractors=100)
    lists = [folder / "lists" / "facescrub_features_list.json", folder / "lists" / "megaface_features_list.json_100_1"]
    return ["--probes", lists[0], "--distractors", lists[1]], [*near.names, *far.names]


def reid(folder: Path) -> Written:
    return ["--market", folder / "images"], list(official.write_market(folder / "images").names)


def classify(folder: Path) -> Written:
    names = [f"{k}.png" for k in range(20)]
    (folder / "test.txt").write_text("".join(f"{name} {k % 4}\n" for k, name in enumerate(names)))
    np.save(folder / "W.npy", np.eye(4, dtype=np.float32))
    return ["--test", folder / "test.txt", "--prototypes", folder / "W.npy"], names


@pytest.mark.parametrize(
    "protocol", [pairs, blufr, ytf, ijb, megaface, reid, classify], ids=lambda protocol: protocol.__name__
)
def test_a_damaged_image_is_named_or_counted(
    protocol: Callable[[Path], Written], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, names = protocol(tmp_path)
    faces = PocketFaces(8, 4, size=16, difficulty=0.3)
    for place, name in enumerate(names):
        file = tmp_path / "images" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(encode(faces.read(place % 32), 95))
    damaged = tmp_path / "images" / names[3]
    damaged.write_bytes(damaged.read_bytes()[:100])
    linear_onnx(tmp_path / "net.onnx", size=16, batch=1)
    (tmp_path / "net.contract.toml").write_text(CONTRACT)
    model = ["--model", tmp_path / "net.onnx", "--images", tmp_path / "images", "--out", tmp_path / "out"]
    command = [str(word) for word in ("evaluate", protocol.__name__, *words, *model)]
    assert main(command) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert names[3] in error
    assert not (tmp_path / "out").exists()
    with patch("hypersphere.evaluation.results.report._add_curves"):
        assert main([*command, "--allow-missing"]) == 0
    table = json.loads((tmp_path / "out" / "result.json").read_text())
    assert table["counts"]["unreadable_images"] == 1
    assert table["counts"].get("missing_images", 1) == 1
    assert [names[3] in cause for cause in table["left_out"]["unreadable_images"]] == [True]
    printed = capsys.readouterr().out
    page = Reader((tmp_path / "out" / "report.html").read_text()).words
    for text in (page, printed):
        assert "ot all of the protocol was measured: 1" in text
        assert "1 unreadable images" in text
    assert names[3] in page
    assert "Files" in page


def test_every_count_of_what_was_left_out_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words, _ = ijb(tmp_path)
    embeddings = official.write_ijb(tmp_path / "meta")
    gone = {"1.jpg", "2.jpg", "3.jpg"}
    kept = [k for k, name in enumerate(embeddings.names) if name not in gone]
    np.save(tmp_path / "E.npy", embeddings.values[kept])
    (tmp_path / "E.txt").write_text("\n".join(embeddings.names[k] for k in kept))
    pairs_list = tmp_path / "meta" / "ijbc_template_pair_label.txt"
    pairs_list.write_text(pairs_list.read_text() + "999 25 0\n")
    ready = ["--embeddings", tmp_path / "E.npy", "--names", tmp_path / "E.txt", "--out", tmp_path / "out"]
    command = [str(word) for word in ("evaluate", "ijb", *words, *ready)]
    assert main(command) == 2
    assert "template 999 has no media" in capsys.readouterr().err
    with patch("hypersphere.evaluation.results.report._add_curves"):
        assert main([*command, "--allow-missing"]) == 0
    page = Reader((tmp_path / "out" / "report.html").read_text()).words
    line = "3 missing images, 1 templates without image, 1 templates without media, 73 pairs left out"
    for text in (capsys.readouterr().out, page):
        assert f"measured: {line}, 3 probes without mate, 3 probes left out" in text


def test_queries_without_a_mate_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    embeddings = official.write_market(tmp_path / "market")
    kept = [k for k, name in enumerate(embeddings.names) if not name.startswith("bounding_box_test/0001")]
    np.save(tmp_path / "E.npy", embeddings.values[kept])
    (tmp_path / "E.txt").write_text("\n".join(embeddings.names[k] for k in kept))
    ready = ["--embeddings", tmp_path / "E.npy", "--names", tmp_path / "E.txt", "--out", tmp_path / "out"]
    command = [str(word) for word in ("evaluate", "reid", "--market", tmp_path / "market", *ready)]
    assert main([*command, "--allow-missing"]) == 0
    page = Reader((tmp_path / "out" / "report.html").read_text()).words
    for text in (capsys.readouterr().out, page):
        assert "measured: 2 queries without mate, 4 missing images" in text
    table = json.loads((tmp_path / "out" / "result.json").read_text())
    assert len(table["left_out"]["queries_without_mate"]) == 2


def test_pictures_that_cannot_be_read_are_not_shown(tmp_path: Path) -> None:
    words, names = pairs(tmp_path)
    standins.write_faces(tmp_path / "images")
    np.save(tmp_path / "E.npy", standins.made_up(names, noise=3).values)
    (tmp_path / "E.txt").write_text("\n".join(names))
    for name in names:
        (tmp_path / "images" / name).write_bytes(b"no picture")
    ready = ["--embeddings", tmp_path / "E.npy", "--names", tmp_path / "E.txt", "--images", tmp_path / "images"]
    command = [str(word) for word in ("evaluate", "pairs", *words, *ready, "--out", tmp_path / "out")]
    with patch("hypersphere.evaluation.results.report._add_curves"):
        assert main(command) == 0
    assert "li" not in Reader((tmp_path / "out" / "report.html").read_text()).tags
