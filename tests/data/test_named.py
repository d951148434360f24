"""Images by name, wherever they lie."""

import tarfile
from pathlib import Path

import numpy as np
import pytest

from hypersphere.data import NamedImages, write_pack
from tests.data.samples import arrays, make_folder, picture, saved

NAMES = ["Cy/1.jpg", "Nobody/0.jpg", "Ada/0.png", "Cy/1.jpg"]


def archive(folder: Path, path: Path, inside: str) -> Path:
    with tarfile.open(path, "w") as tar:
        tar.add(folder, arcname=inside)
    return path


@pytest.mark.parametrize("where", ["folder", "tar", "wrapped", "shards"])
def test_names_are_found_with_any_suffix(tmp_path: Path, where: str) -> None:
    path = folder = make_folder(tmp_path / "faces")
    if where == "tar":
        path = archive(folder, tmp_path / "faces.tar", ".")
    if where == "wrapped":
        path = archive(folder, tmp_path / "faces.tar", "lfw")
    if where == "shards":
        path = tmp_path / "shards"
        path.mkdir()
        archive(folder / "Ada", path / "1.tar", "Ada")
        archive(folder / "Cy", path / "2.tar", "Cy")
    images = NamedImages(path, NAMES)
    assert images.files == ["Cy/1.jpg", "Ada/0.png"]
    assert images.missing == ["Nobody/0.jpg"]
    assert images.find(NAMES).tolist() == [0, -1, 1, 0]
    assert images.labels.tolist() == [-1, -1]
    assert [images.encoded(k) for k in (0, 1)] == [(folder / n).read_bytes() for n in ("Cy/1.jpg", "Ada/0.jpg")]
    assert images.batch([0, 1]).shape == (2, 3, 12, 10)
    assert images.describe(1) == f"{path}: Ada/0.png"


def test_a_pack_has_numbers_for_names(tmp_path: Path) -> None:
    write_pack(arrays(), tmp_path / "p.bin")
    images = NamedImages(tmp_path / "p.bin", ["3", "6", "x", "0"])
    assert (images.files, images.missing) == (["3", "0"], ["6", "x"])
    assert np.array_equal(images.read(0), picture(3, 12, 12))


def test_names_cannot_leave_the_folder(tmp_path: Path) -> None:
    make_folder(tmp_path / "faces")
    (tmp_path / "secret.jpg").write_bytes(saved(picture(0)))
    with pytest.raises(ValueError, match="leaves its root"):
        NamedImages(tmp_path / "faces", ["../secret.jpg"])
    with pytest.raises(ValueError, match="nowhere is missing"):
        NamedImages(tmp_path / "nowhere", ["a.jpg"])


def test_a_name_in_two_archives_is_refused(tmp_path: Path) -> None:
    folder, shards = make_folder(tmp_path / "faces"), tmp_path / "shards"
    shards.mkdir()
    archive(folder / "Ada", shards / "1.tar", "Ada")
    archive(folder, shards / "2.tar", ".")
    assert NamedImages(shards, ["Cy/1.jpg"]).missing == []
    with pytest.raises(ValueError, match=r"'Ada/0\.jpg' is in .*1\.tar and .*2\.tar; name the archive"):
        NamedImages(shards, ["Cy/1.jpg", "Ada/0.jpg"])


def test_an_archive_without_images_has_none_of_them(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w"):
        pass
    assert NamedImages(tmp_path / "x.tar", ["Ada/0.jpg"]).missing == ["Ada/0.jpg"]


@pytest.mark.parametrize("name", ["9" * 30, "9" * 5000, "-1", "१", "4", "0.0"])
def test_a_pack_names_its_images_by_their_numbers(tmp_path: Path, name: str) -> None:
    write_pack(arrays(), tmp_path / "x.bin")
    assert NamedImages(tmp_path / "x.bin", ["3"]).missing == []
    found = NamedImages(tmp_path / "x.bin", [name])
    assert found.missing == ([] if name == "4" else [name])
