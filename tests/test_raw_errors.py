"""Odd arrays, texts and numbers: an error names the argument or file, and is none of NumPy's, torch's or a codec's."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import hypersphere as hs
from hypersphere.cli import main
from tests.cli.test_evaluate_protocols import saved
from tests.data.samples import make_folder
from tests.evaluation.protocols.standins import made_up, write_lfw_list

Capture = pytest.CaptureFixture[str]
RAW = re.compile(
    "codec can't|out of range$|division by zero|zero-size|invalid index|islice|unpacking|unsized|could not convert"
)
ARRAYS: dict[str, Any] = {
    "scalar": np.float32(3),
    "list": np.ones(5, np.float32),
    "cube": np.ones((2, 2, 2), np.float32),
    "narrow": np.ones((8, 0), np.float32),
    "text": np.array([["a"] * 4] * 8),
    "complex": np.ones((8, 4), complex),
    "nan": np.full((8, 4), np.nan, np.float32),
    "long": np.full((8, 4), 1e300),
}

CURVE: Any = None
"""No ROC: what is wrong is told before it is read."""


def refused(capsys: Capture, *words: object) -> str:
    capsys.readouterr()
    assert main([str(word) for word in words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("hypersphere: ")
    assert error.count("\n") == 1
    assert not RAW.search(error), error
    return error


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_hold_no_embeddings(name: str, here: Path, capsys: Capture) -> None:
    np.save("odd.npy", ARRAYS[name])
    np.save("good.npy", np.eye(8, 4, dtype=np.float32) + 1)
    assert "second" in refused(capsys, "data", "overlap", "--embeddings", "good.npy", "odd.npy")
    assert "first" in refused(capsys, "data", "overlap", "--embeddings", "odd.npy", "good.npy")
    write_lfw_list(Path("lfw.txt"))
    ready = saved(here, made_up(hs.evaluation.protocols.read_pairs("lfw.txt").names))
    words = ["evaluate", "pairs", "--pairs", "lfw.txt", *ready, "--out", "out"]
    assert "odd.npy" in refused(capsys, *words, "--pca", "2", "--fit", "odd.npy")
    assert "odd.npy" in refused(capsys, *words[:4], "--embeddings", "odd.npy", *ready[2:], "--out", "out")


def test_no_rows_are_no_pairs(here: Path, capsys: Capture) -> None:
    np.save("none.npy", np.zeros((0, 4), np.float32))
    assert main(["data", "overlap", "--embeddings", "none.npy", "none.npy"]) == 0
    assert capsys.readouterr().out.startswith("0 pairs of identities")


def test_text_that_is_not_utf8(here: Path, capsys: Capture) -> None:
    for name in ("latin.txt", "latin.toml"):
        Path(name).write_bytes("Zoë 1\n".encode("latin-1"))
    set_of = make_folder(here / "set")
    for words, message in (
        (
            ["calibrate", "starter", set_of, "--out", "o.json", "--disjoint-from", "latin.txt"],
            "latin.txt: byte 2 is not",
        ),
        (["train", "latin.toml"], "latin.toml: byte 2 is not UTF-8 text; expected TOML"),
        (["advise", "--dim", 8, "--counts", "latin.txt"], "latin.txt: byte 2 is not UTF-8"),
        (["data", "inspect", "latin.txt"], "latin.txt: byte 2 is not UTF-8"),
    ):
        assert message in refused(capsys, *words, *(["--device", "cpu"] if words[0] == "train" else []))


def test_numbers_beyond_what_is_counted(here: Path, capsys: Capture) -> None:
    set_of = make_folder(here / "set")
    for words, message in (
        (["data", "pack", set_of, "out", "--shard-size", 10**40], "shard_size must be an integer of at most"),
        (["data", "pack", set_of, "out", "--shard-size", 0], "shard_size=0 must be an integer of at least 1"),
        (["theory", "toy", "--steps", 1, "--out", "out", "--seed", 10**40], "seed must be an integer of at most"),
        (["serve", "--port", -1], "port=-1 must be an integer of at least 0"),
        (["serve", "--port", 65536], "port=65536 must be at most 65535"),
    ):
        assert message in refused(capsys, *words)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hs.evaluation.bootstrap_mean([]), r"values have shape \(0,\)"),
        (lambda: hs.evaluation.bootstrap_mean([[1.0]]), r"values have shape \(1, 1\)"),
        (lambda: hs.evaluation.concatenated([]), "parts is empty"),
        (lambda: hs.recognition.pool_template(np.eye(1, 4), quality=["a"]), "quality have dtype <U1"),
        (lambda: hs.evaluation.calibrate_thresholds(np.eye(1, 4), [0]), "unit has one row"),
        (lambda: hs.data.center_cosines(np.eye(2), np.array([True, False])), "labels have dtype bool"),
        (lambda: hs.recognition.calibrate_searches(np.eye(2, dtype=np.float32), np.zeros(0, int)), r"person \(0,\)"),
        (lambda: hs.recognition.calibrate_searches(np.eye(2, dtype=np.float32), np.arange(3)), r"person \(3,\)"),
        (lambda: hs.recognition.fit_llr([], [0.1], CURVE), r"genuine \(0,\)"),
        (lambda: hs.geometry.normalize(torch.zeros(3, 0)), r"shape \(3, 0\)"),
        (lambda: hs.geometry.angle_between(torch.zeros(3, 0), torch.zeros(3, 0)), r"shape \(3, 0\)"),
    ],
)
def test_calls_name_the_argument(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_no_faces_have_no_groups() -> None:
    assert hs.recognition.members_of(np.zeros(0, np.int64)) == []
