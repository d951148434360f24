"""The digest of a set of images is that of its names and bytes, however they are packed."""

from pathlib import Path

import numpy as np

from hypersphere.data import ArraySource, Fitted, Subset, image_names, images_digest, open_source
from tests.data.samples import picture, saved


def test_it_does_not_depend_on_the_packing(tmp_path: Path) -> None:
    for number, name in enumerate(("ada/1", "ada/2", "bo/1")):
        path = tmp_path / "people" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(saved(picture(number, 8, 8), "PNG"))
    folder = open_source(tmp_path / "people")
    assert image_names(folder) == ["ada/1.png", "ada/2.png", "bo/1.png"]
    whole = images_digest(folder)
    assert images_digest(Subset(Fitted(folder, (8, 8)), [2, 0, 1])) == whole
    assert image_names(Subset(Fitted(folder, (8, 8)), [2, 0])) == ["bo/1.png", "ada/1.png"]
    assert images_digest(Subset(folder, [0, 1])) != whole
    (tmp_path / "people" / "bo" / "1.png").write_bytes(saved(picture(9, 8, 8), "PNG"))
    assert images_digest(open_source(tmp_path / "people")) != whole


def test_images_without_bytes_are_known_by_their_pixels() -> None:
    images = np.arange(3 * 4 * 4 * 3, dtype=np.uint8).reshape(3, 4, 4, 3)
    assert image_names(ArraySource(images)) == ["0", "1", "2"]
    assert images_digest(ArraySource(images)) == images_digest(ArraySource(images.copy()))
    assert images_digest(ArraySource(images)) != images_digest(ArraySource(images[::-1].copy()))
