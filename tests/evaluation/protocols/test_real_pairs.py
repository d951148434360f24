"""A published model on real LFW, where HYPERSPHERE_DATA says it lies: its published accuracy."""

import json
import os
from pathlib import Path

import pytest

from hypersphere.cli import main

pytestmark = [pytest.mark.realdata, pytest.mark.timeout(3600)]
PUBLISHED = 0.9960


def test_sface_on_lfw(tmp_path: Path) -> None:
    data = Path(os.environ.get("HYPERSPHERE_DATA", "nowhere"))
    model = data / "models" / "face_recognition_sface_2021dec.onnx"
    lists, images = data / "lfw-pairs.txt", data / "lfw112.tar"
    if not (model.exists() and lists.exists() and images.exists()):
        pytest.skip("no LFW and SFace where HYPERSPHERE_DATA says")
    words = ["--model", model, "--contract", "opencv-sface", "--pairs", lists, "--images", images, "--out", tmp_path]
    assert main(["evaluate", "pairs", *map(str, words)]) == 0
    table = json.loads((tmp_path / "result.json").read_text())
    assert table["counts"]["pairs"] == 6000
    assert table["counts"]["missing_images"] == 0
    accuracy = table["metrics"]["accuracy"]
    assert accuracy["low"] <= PUBLISHED <= accuracy["high"]
    assert table["metrics"]["tar@far=1e-4"]["not_measurable"] is True
