"""`hypersphere models`, and the options that choose a model, its use and who computes it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hypersphere as hs
from hypersphere.cli import main, model_options
from hypersphere.data import encode, write_source
from hypersphere.models import PROVIDERS, RUNTIMES, named_models
from hypersphere.models.catalogue import USES
from hypersphere.pocket import PocketFaces
from tests.cli.test_plugins import PROTOCOL, registries  # noqa: F401 - a fixture
from tests.models.networks import linear_onnx

Capture = pytest.CaptureFixture[str]
OWN = """
[own]
kind = "recognizer"
about = "a matrix"
licence = "CC0"
use = "any"
data = "random numbers"
source = "these tests"
path = "net.onnx"
[own.contract]
input_size = [112, 112]
mean = [127.5]
std = [127.5]
alignment = "insightface-112"
[own.measured]
fnmr = [[1e-3, 20.0, 15.0, 25.0]]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a model of the user's own, calibrated, and two aligned crops."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYPERSPHERE_HOME", str(tmp_path))
    monkeypatch.delenv("HYPERSPHERE_OFFLINE", raising=False)
    linear_onnx(tmp_path / "net.onnx", size=112, dim=64)
    write_source(PocketFaces(num_identities=12, images_per_identity=3, size=112), tmp_path / "people", quality=95)
    for index in range(2):
        image = PocketFaces(num_identities=1, images_per_identity=2, size=112).read(index)
        (tmp_path / f"{index}.png").write_bytes(encode(image))
    return tmp_path


def document(capsys: Capture, *words: str, status: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["--json", *words]) == status
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_what_the_options_copy_is_what_the_library_has() -> None:
    assert set(model_options.PROVIDERS) == set(RUNTIMES) - {"onnxruntime"} == {*PROVIDERS, "torch"}
    assert model_options.USES == USES


def test_the_list_and_a_card(here: Path, capsys: Capture) -> None:
    assert main(["models"]) == 0
    listed = capsys.readouterr().out
    assert [line.split()[0] for line in listed.splitlines()[1:]] == list(named_models())
    found = document(capsys, "models", "--use", "any")
    assert "starter" not in [each["name"] for each in found["models"]]
    assert main(["models", "intel-0095"]) == 0
    card = capsys.readouterr().out
    for part in ("licence  Apache-2.0", "VGGFace2", "99.55 %", "FNMR     16.7 %", "not fetched", "SHA-256 c2f8a7b9"):
        assert part in card
    assert main(["models", "intel-95"]) == 2
    assert "model 'intel-95' is unknown; did you mean 'intel-0095'" in capsys.readouterr().err
    assert main(["models", "starter", "--use", "any"]) == 2
    assert main(["models", "--fetch"]) == 2


def test_fetching_without_a_network_says_what_to_do(
    here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERSPHERE_OFFLINE", "1")
    assert main(["models", "sface", "--fetch"]) == 1
    said = capsys.readouterr().err
    assert "By hand: fetch https://github.com/opencv/" in said
    assert str(here / "models" / "sface" / "face_recognition_sface_2021dec.onnx") in said
    assert document(capsys, "models", "starter", "--fetch")["model"]["at_hand"], "comes with the package"


def test_a_model_that_may_be_used_is_taken_where_none_is_named(here: Path, capsys: Capture) -> None:
    (here / "models.toml").write_text(OWN)
    assert main(["calibrate", "own", "people", "--galleries", "3", "--provider", "cpu", "--offline"]) == 0
    assert (here / "net.calibration.json").is_file()
    capsys.readouterr()
    assert main(["verify", "0.png", "1.png", "--fmr", "0.1", "--aligned"]) in (0, 1)
    said = capsys.readouterr()
    assert "no --model: own, CC0; at a false-match rate of 1e-3 it missed 20.0 %" in said.out
    assert "model                 own" in said.out
    assert main(["verify", "0.png", "1.png", "--fmr", "0.1", "--aligned", "--use", "any", "--model", "starter"]) == 2
    assert "starter is not for any use: research use only" in capsys.readouterr().err
    (here / "models.toml").unlink()
    assert main(["verify", "0.png", "1.png", "--fmr", "0.1", "--aligned", "--use", "any"]) == 2
    assert "no model at hand may be put to any use" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["verify", "0.png", "1.png", "--fmr", "0.1"],
        ["enroll", "ada", "0.png", "--gallery", "g.db"],
        ["cluster", "people", "--out", "clusters.csv"],
        ["find", "0.png", "1.png"],
    ],
)
def test_commands_of_photos_take_use_and_provider(here: Path, words: list[str]) -> None:
    more = ["--use", "research", "--provider", "cpu", "--offline", "--aligned", "--device", "cpu"]
    assert main([*words, *more]) in (0, 1)
    if words[0] == "enroll":
        assert main(["identify", "1.png", "--gallery", "g.db", *more]) in (0, 1)
    assert main([*words, *more, "--model", "nowhere"]) == 2


def test_embedding_and_evaluating_by_a_name_and_a_provider(here: Path, capsys: Capture) -> None:
    (here / "models.toml").write_text(OWN)
    more = ["--provider", "torch", "--offline"]
    assert main(["embed", "people", "a.npy", "--model", "own", "--use", "any", *more]) == 0
    assert main(["embed", "people", "b.npy", "--model", "own", "--device", "cpu"]) == 0
    np.testing.assert_allclose(np.load("a.npy"), np.load("b.npy"), atol=1e-5)
    names = [line for line in Path("a.txt").read_text().splitlines() if line]
    Path("pairs.txt").write_text("".join(f"{names[k]} {names[k + 1]} {k % 2}\n" for k in range(30)))
    listed = ["--pairs", "pairs.txt", "--images", "people", "--far", "0.5"]
    assert main(["evaluate", "pairs", *listed, "--model", "own", *more, "--crops", "insightface-112"]) == 0
    Path("own_protocol.py").write_text(PROTOCOL)
    plugin = ["mean_length", "--plugin", "own_protocol.py", "--images", "people", "--model", "own"]
    assert main(["evaluate", "own", *plugin, *more, "--crops", "insightface-112"]) == 0
    assert main(["evaluate", "pairs", *listed, "--model", "nowhere"]) == 2
    assert "or a name of `hypersphere models`" in capsys.readouterr().err


def test_crops_of_another_target(here: Path, capsys: Capture) -> None:
    (here / "models.toml").write_text(OWN)
    words = ["calibrate", "own", "people", "--galleries", "3", "--out", "c.json"]
    assert main([*words, "--crops", "sphereface-112x96"]) == 2
    assert "is 112x112 pixels, but its alignment target has 96x112" in capsys.readouterr().err
    assert hs.recognition.calibration_path("sface") == here / "models" / "sface" / "calibration.json"


def test_false_matches_of_one_photo_a_person(here: Path, capsys: Capture) -> None:
    (here / "models.toml").write_text(OWN)
    others = PocketFaces(num_identities=30, images_per_identity=1, size=112, first_identity=500)
    (here / "portraits").mkdir()
    for index in range(30):
        (here / "portraits" / f"p{index:02d}.png").write_bytes(encode(others.read(index)))
    lines = [f"p{index:02d}.jpg,{'FM'[index % 2] if index < 20 else ''},{1900 + index % 3}" for index in range(30)]
    Path("groups.csv").write_text("\n".join(["file,sex,decade", *lines, ""]))
    words = ["calibrate", "own", "--impostors", "portraits", "--groups", "groups.csv"]
    found = document(capsys, *words, "--plot", "groups.png")
    assert [row["fmr"] for row in found["thresholds"]] == [0.1, 0.01]
    assert {each["group"] for each in found["groups"]["1e-02"]} == {"F", "M", "across groups"}
    assert Path("groups.png").is_file()
    assert not (here / "net.calibration.json").exists(), "misses are open, so nothing may be decided by it"
    found = document(capsys, *words, "--group-by", "decade")
    assert {each["group"] for each in found["groups"]["1e-02"]} == {"1900", "1901", "1902", "across groups"}
    assert main(["calibrate", "own", "people", "--impostors", "portraits", "--crops", "insightface-112"]) == 0
    said = capsys.readouterr().out
    assert "30 people of portraits, one photo each (false matches), and 12 people of people (misses)" in said
    assert (here / "net.calibration.json").is_file()
    assert main(["verify", "0.png", "1.png", "--fmr", "0.1", "--aligned"]) in (0, 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give IMAGES, people with several images each, or --impostors PHOTOS"),
        (["people", "--groups", "a.csv"], "--groups needs --impostors"),
        (["--impostors", "people", "--plot", "a.png"], "--plot needs --groups CSV"),
        (["--impostors", "people", "--held-out", "real/faces"], "--impostors and --held-out: give one of them"),
        (["--impostors", "people", "--groups", "groups.csv"], "none of its names, such as 'nobody', is one of people"),
    ],
)
def test_options_of_impostors_that_do_not_fit(here: Path, capsys: Capture, words: list[str], message: str) -> None:
    (here / "models.toml").write_text(OWN)
    Path("groups.csv").write_text("file,sex\nnobody.jpg,F\n")
    assert main(["calibrate", "own", *words]) == 2
    assert message in capsys.readouterr().err


def test_check_names_what_is_wrong(here: Path, capsys: Capture) -> None:
    (here / "models.toml").write_text(OWN)
    assert main(["check", "own", "--provider", "openvino", "--offline", "--device", "cpu"]) == 0
    assert "  ok     cosine " in capsys.readouterr().out
    assert main(["check", "net.onnx", "--contract", "insightface", "--golden", "net.golden.safetensors"]) == 0
    found = document(capsys, "check", "net.onnx", "--contract", "insightface")
    assert (found["mistake"], min(found["cosines"]) > 0.9999) == ("", True)
    Path("bgr.toml").write_text('input_size = [112, 112]\ncolour = "bgr"\nalignment = "insightface-112"\n')
    assert document(capsys, "check", "net.onnx", "--contract", "bgr.toml", status=1)["mistake"] == "colour"
    assert main(["check", "net.onnx", "--contract", "bgr.toml", "--tolerance", "-1"]) == 0
    Path("net.golden.safetensors").unlink()
    found = document(capsys, "check", "net.onnx", "--contract", "bgr.toml", "--reference", "own", status=1)
    assert found["mistake"] == "colour"
    for words in (["--pairs", "a.txt"], ["--golden", "net.npz"]):
        assert main(["check", "net.onnx", "--contract", "insightface", *words]) == 2


def test_check_shows_how_error_rates_shift(here: Path, capsys: Capture) -> None:
    (here / "models.toml").write_text(OWN)
    names = sorted(path.relative_to("people").as_posix() for path in Path("people").rglob("*.jpg"))
    pairs = [(a, b) for k, a in enumerate(names) for b in names[k + 1 :]]
    lines = [f"{a} {b} {int(a.split('/')[0] == b.split('/')[0])}" for a, b in pairs]
    Path("pairs.txt").write_text("\n".join(lines) + "\n")
    found = document(capsys, "check", "own", "--pairs", "pairs.txt", "--images", "people", "--provider", "torch")
    (row,) = found["pairs"]
    assert row["fmr_before"] == pytest.approx(0.01, abs=0.005)
    assert (row["fmr_after"], row["fnmr_after"]) == (row["fmr_before"], row["fnmr_before"])
