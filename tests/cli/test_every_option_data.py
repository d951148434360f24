"""Options of `hypersphere data` that no story of the other tests needs: each changes what is printed or written."""

from pathlib import Path

import numpy as np
import pytest

from hypersphere.data import ArraySource, FolderSource, TarSource, write_mnist, write_source
from hypersphere.pocket import PocketFaces
from hypersphere.training import Trainer, load_recipe
from tests.cli.test_data_command import run, table
from tests.cli.test_evaluate import CONTRACT
from tests.data.samples import make_folder, picture, saved
from tests.models.networks import linear_onnx
from tests.training.small import RECIPE

Capture = pytest.CaptureFixture[str]


def digits(folder: Path, count: int = 6) -> Path:
    """Pixels in MNIST's files, in both splits."""
    pixels = np.stack([picture(k, 28, 28)[:, :, :1] for k in range(count)])
    for split, images in (("train", count), ("test", 2)):
        write_mnist(ArraySource(pixels[:images], np.arange(images) % 2), folder, split=split)
    return folder


def gap(folder: Path) -> Path:
    """A list with labels 5 and 9, of images in another folder, and no ending that says so."""
    make_folder(folder / "set")
    (folder / "lists").mkdir()
    (folder / "lists" / "gap").write_text("Ada/0.jpg 5\nCy/0.jpg 9\n")
    return folder / "lists" / "gap"


def test_a_list_by_name_from_elsewhere_with_gaps(tmp_path: Path, capsys: Capture) -> None:
    words = [gap(tmp_path), "--format", "list", "--root", tmp_path / "set"]
    assert "labels have a gap" in run(capsys, "inspect", *words, status=2)
    found = table(run(capsys, "inspect", *words, "--relabel"))
    assert (found["format"], found["identities"]) == ("list", "2")
    run(capsys, "pack", *words[:1], tmp_path / "gap.tar", *words[1:], "--relabel")
    assert TarSource(tmp_path / "gap.tar").num_classes == 2


@pytest.mark.parametrize("action", ["pack", "convert"])
def test_a_split_of_pixels_as_jpeg(action: str, tmp_path: Path, capsys: Capture) -> None:
    source = digits(tmp_path / "digits")
    run(capsys, action, source, tmp_path / "test.tar", "--split", "test")
    run(capsys, action, source, tmp_path / "test-90.tar", "--split", "test", "--quality", "90")
    plain, small = TarSource(tmp_path / "test.tar"), TarSource(tmp_path / "test-90.tar")
    assert (len(plain), len(small)) == (2, 2)
    assert plain.encoded(0).startswith(b"\x89PNG")
    assert small.encoded(0).startswith(b"\xff\xd8")


def test_convert_leaves_out_what_cannot_be_read(tmp_path: Path, capsys: Capture) -> None:
    root = make_folder(tmp_path / "set", each=40)
    (root / "Ada" / "7.jpg").write_bytes(saved(picture(1))[:200])
    assert "left out 1 of 120" in run(capsys, "convert", root, tmp_path / "x.tar", "--skip-unreadable")
    assert len(TarSource(tmp_path / "x.tar")) == 119


def test_overlap_on_a_device(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "small.toml").write_text(RECIPE)
    Trainer(load_recipe(tmp_path / "small.toml", ["train.steps=1"]), tmp_path / "run").run()
    people = tmp_path / "people"
    write_source(PocketFaces(3, 2, size=16), people, quality=95)
    words = ["overlap", people, people, "--model", tmp_path / "run", "--threshold", "0.999"]
    assert run(capsys, *words, "--device", "cpu").startswith("3 pairs of identities")
    assert "nowhere" in run(capsys, *words, "--device", "nowhere", status=2)


def test_doubtful_images_of_every_kind_of_set(tmp_path: Path, capsys: Capture) -> None:
    linear_onnx(tmp_path / "net.onnx", size=16, batch=1)
    (tmp_path / "elsewhere.toml").write_text(CONTRACT)
    model = ["--model", tmp_path / "net.onnx", "--contract", tmp_path / "elsewhere.toml", "--threshold", "1"]
    lists = gap(tmp_path)
    lists.write_text("".join(f"{name}/{k}.jpg {5 + k}\n" for name in ("Ada", "Cy") for k in (0, 1)))
    words = ["doubtful", lists, tmp_path / "a.txt", *model, "--format", "list", "--root", tmp_path / "set"]
    assert "--resize" in run(capsys, *words, "--relabel", status=2)
    assert "4 of 4 images have others of their identity" in run(capsys, *words, "--relabel", "--resize")
    assert len((tmp_path / "a.txt").read_text().splitlines()) >= 4
    (tmp_path / "elsewhere.toml").rename(tmp_path / "moved.toml")
    assert "elsewhere.toml" in run(
        capsys, *words[:2], tmp_path / "b.txt", *words[3:], "--relabel", "--resize", status=2
    )
    (tmp_path / "moved.toml").rename(tmp_path / "elsewhere.toml")
    market = tmp_path / "market"
    write_source(FolderSource(tmp_path / "set"), market, "market", split="gallery")
    found = run(capsys, "doubtful", market, tmp_path / "c.txt", *model, "--resize", "--split", "gallery")
    assert "6 of 6 images have others of their identity" in found
