"""Photos copied into folders by group: each once in each of its groups, none outside of the new folder."""

from pathlib import Path

import numpy as np
import pytest

from hypersphere.data import ArraySource, ImageFiles, encode
from hypersphere.recognition import FoundFaces, sort_photos


def photos_at(folder: Path, *names: str) -> ImageFiles:
    for number, name in enumerate(names):
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(encode(np.full((8, 8, 3), number, np.uint8)))
    return ImageFiles([folder / name for name in names])


def faces_on(*photos: int) -> FoundFaces:
    return FoundFaces(list(photos), [None] * len(photos), np.eye(len(photos), dtype=np.float32), [], {})


def test_a_photo_of_two_people_is_in_both_groups(tmp_path: Path) -> None:
    source = photos_at(tmp_path / "album", "a.png", "sub/b.png", "c.png", "d.png")
    names = ["a.png", "sub/b.png", "c.png", "d.png"]
    folders = sort_photos(source, names, faces_on(0, 1, 1, 2, 0), np.array([0, 0, 1, 1, 2]), tmp_path / "sorted")
    assert folders == {
        "group-1": ["a.png", "sub/b.png"],
        "group-2": ["sub/b.png", "c.png"],
        "alone": ["a.png"],
        "no-face": ["d.png"],
    }
    for folder, inside in folders.items():
        for name in inside:
            assert (tmp_path / "sorted" / folder / name).read_bytes() == source.encoded(names.index(name))


def test_names_from_anywhere_stay_inside(tmp_path: Path) -> None:
    source = photos_at(tmp_path, "x/../one.png", "two.png")
    sort_photos(source, source.files, faces_on(0, 1), np.array([0, 0]), tmp_path / "sorted")
    inside = list((tmp_path / "sorted" / "group-1").rglob("*.png"))
    assert sorted(path.name for path in inside) == ["one.png", "two.png"]
    with pytest.raises(ValueError, match="sorted exists already"):
        sort_photos(source, source.files, faces_on(0, 1), np.array([0, 0]), tmp_path / "sorted")
    pixels = ArraySource(np.zeros((1, 8, 8, 3), np.uint8))
    with pytest.raises(ValueError, match="no files that could be copied"):
        sort_photos(pixels, ["0"], faces_on(0), np.array([0]), tmp_path / "other")
