"""tools/make_starter.py from a recipe to the folder of the starter, in small, with painted faces."""

import json
import shutil
from pathlib import Path

import pytest
import torch

import hypersphere as hs
from hypersphere.cli import main
from hypersphere.data import encode, write_source
from hypersphere.models import Contract, load_thresholds, save_folder
from hypersphere.pocket import PocketFaces
from hypersphere.recognition import load_calibration
from hypersphere.training.recipe import load_recipe
from tests.models.networks import linear_onnx
from tools import make_starter

FILES = {
    "README.md",
    "albums.calibration.json",
    "calibration.json",
    "config.json",
    "model.safetensors",
    "thresholds.json",
}
VALIDATION = ["data.validation.identities=10", "data.validation.count=40"]


def write_lfw(folder: Path, size: int) -> None:
    """Twenty people with two images, named as LFW's are, and pairs.txt: ten folds of two pairs of each kind."""
    faces = PocketFaces(num_identities=20, images_per_identity=2, size=size, seed=9)
    lines = ["10\t2"]
    for fold in range(10):
        first, second = f"Ada_{2 * fold}", f"Ada_{2 * fold + 1}"
        lines += [f"{name}\t1\t2" for name in (first, second)]
        lines += [f"{first}\t{k}\t{second}\t{k}" for k in (1, 2)]
    for index, label in enumerate(faces.labels.tolist()):
        path = folder / "lfw" / f"Ada_{label}" / f"Ada_{label}_{index % 2 + 1:04d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(faces.read(index)))
    (folder / "pairs.txt").write_text("\n".join(lines) + "\n")


def write_faces(path: Path, people: int, size: int) -> None:
    """People with three images each, in folders that are named as those of family albums are."""
    write_source(PocketFaces(num_identities=people, images_per_identity=3, size=size), path, quality=95)
    for folder in list(path.iterdir()):
        folder.rename(folder.with_name(f"fiw-{folder.name}"))


def check_starter(out: Path) -> None:
    """The folder's files belong together."""
    assert {path.name for path in out.iterdir()} == FILES
    model = hs.load_model(out)
    made = load_calibration(out, model.contract)
    assert load_thresholds(out) == made.table
    assert made.table.model == model.contract.digest
    assert made.table.people == "portraits of adults: 10 people of LFW, every second by name"
    assert made.disjoint_from == ("the people trained on", "the other people of LFW")
    albums = load_calibration(out / "albums.calibration.json", model.contract)
    assert albums.table.people.startswith("family albums: 10 people held out of Families in the Wild")
    for row in (*made.table.thresholds, *albums.table.thresholds):
        assert f"threshold {row.threshold:.3f};" in model.card
    assert "| LFW, 40 pairs, ten folds |" in model.card
    assert "| 10 people held out, 40 pairs, ten folds |" in model.card


def test_weights_that_stay_are_calibrated_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_faces(tmp_path / "faces", 14, 16)
    write_lfw(tmp_path, 16)
    torch.manual_seed(4)  # one whose random weights tell people apart a little: less cannot be calibrated
    network = hs.create_backbone("cnn4", dim=4, input_size=(16, 16)).eval()
    save_folder("out", network, Contract(input_size=(16, 16), flip="sum"), {"name": "cnn4", "dim": 4}, "")
    weights = Path("out/model.safetensors").read_bytes()
    monkeypatch.setattr(make_starter, "load_recipe", lambda name: load_recipe(name, ["data.size=[16,16]", *VALIDATION]))
    words = ["--faces", "faces", "--lfw", "lfw", "--pairs", "pairs.txt", "--out", "out"]
    make_starter.main(words)
    printed = json.loads(capsys.readouterr().out)
    check_starter(Path("out"))
    assert Path("out/model.safetensors").read_bytes() == weights
    assert printed["digest"] == hs.load_model("out").contract.digest
    first = {path.name: path.read_bytes() for path in Path("out").iterdir()}
    make_starter.main(words)
    assert {path.name: path.read_bytes() for path in Path("out").iterdir()} == first


@pytest.mark.slow
def test_the_commands_of_the_page_from_recipe_to_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "starter.md").read_text()
    train, make, again = commands(page)
    write_faces(tmp_path / "faces", 16, 112)
    shutil.make_archive("faces", "tar", "faces")
    shutil.copy("faces.tar", "faces-0.tar")
    write_lfw(tmp_path, 112)
    shutil.move("pairs.txt", "lfw-pairs.txt")
    shutil.make_archive("lfw112", "tar", "lfw")
    torch.manual_seed(0)
    linear_onnx(tmp_path / "face_recognition_sface_2021dec.onnx", size=112, dim=128)
    small = [
        "data.device=cpu",
        "train.epochs=1",
        "train.batch_size=8",
        "backbone.width=0.25",
        "train.precision=float32",
    ]
    words = [word for word in train if word not in ("--compile", "--device", "cuda")]
    assert main([*words, *small, *VALIDATION, "--device", "cpu"]) == 0
    capsys.readouterr()
    make_starter.main([*make, "--out", "made"])
    printed = json.loads(capsys.readouterr().out)
    check_starter(Path("made"))
    model = hs.load_model("made")
    assert printed["digest"] == model.contract.digest
    assert printed["bytes"] < 1_000_000
    assert (model.contract.flip, model.contract.alignment) == ("sum", "insightface-112")
    before = {path.name: path.read_bytes() for path in Path("made").iterdir()}
    monkeypatch.setattr(make_starter, "load_recipe", lambda name: load_recipe(name, VALIDATION))
    make_starter.main([*again, "--out", "made"])
    assert {path.name: path.read_bytes() for path in Path("made").iterdir()} == before


def commands(page: str) -> list[list[str]]:
    """The words of the page's commands: training, making the folder, calibrating it anew."""
    import shlex

    block = page.partition("## How it was made")[2].partition("```sh\n")[2].partition("```")[0]
    lines = [shlex.split(line) for line in block.replace("\\\n", " ").splitlines()]
    train, make, again = lines
    assert train[:2] == ["hypersphere", "train"]
    assert make[:2] == again[:2] == ["python", "tools/make_starter.py"]
    return [train[1:], make[2:], again[2:]]
