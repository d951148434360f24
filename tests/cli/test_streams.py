"""Output that is closed, full, or knows no letters but ASCII: no traceback, and the status that belongs to it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hypersphere.cli import main
from hypersphere.data.images import encode
from hypersphere.pocket import PocketFaces

COMMAND = f"{sys.executable} -m hypersphere"


def _run(words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f"{COMMAND} {words}"],
        capture_output=True,
        text=True,
        errors="replace",
        env={**os.environ, "PYTHONPATH": "src", **settings},
        check=False,
    )


@pytest.fixture
def list_of_pairs(tmp_path: Path) -> Path:
    path = tmp_path / "B\u00e9la-\u674e.txt"
    path.write_text("nonsense\n")
    return path


@pytest.mark.parametrize("words", ["completion bash", "train --help"])
def test_closed_and_full_output(words: str) -> None:
    for end in (">&-", ">&- 2>&-", "| true"):
        got = _run(f"{words} {end}")
        assert "Traceback" not in got.stderr
        assert "Exception ignored" not in got.stderr
    full = _run(f"{words} > /dev/full")
    assert "Traceback" not in full.stderr
    assert "Exception ignored" not in full.stderr


def test_letters_that_the_output_does_not_know(list_of_pairs: Path) -> None:
    got = _run(f"evaluate pairs --pairs '{list_of_pairs}' --embeddings a.npy --names b.txt", PYTHONIOENCODING="ascii")
    assert got.returncode == 2
    assert "Traceback" not in got.stderr
    assert "UnicodeEncodeError" not in got.stderr
    assert "codec" not in got.stderr


def test_a_device_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    (tmp_path / "m.onnx").touch()
    for person in ("Ada", "Bob"):
        (tmp_path / "faces" / person).mkdir(parents=True)
        (tmp_path / "faces" / person / "1.jpg").write_bytes(encode(PocketFaces(2, 2, size=16).read(0), 95))
        (tmp_path / "faces" / person / "2.jpg").write_bytes(encode(PocketFaces(2, 2, size=16).read(1), 95))
    pairs = ("Ada/1.jpg Ada/2.jpg 1 0", "Bob/1.jpg Bob/2.jpg 1 1", "Ada/1.jpg Bob/1.jpg 0 0", "Ada/2.jpg Bob/2.jpg 0 1")
    (tmp_path / "pairs.txt").write_text("\n".join(pairs))
    images = ["--model", f"{tmp_path}/m.onnx", "--images", f"{tmp_path}/faces"]
    assert main(["evaluate", "pairs", "--pairs", f"{tmp_path}/pairs.txt", *images, "--device", "cuda"]) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert "device='cuda': there is no CUDA device" in said
