"""Pages of decisions and of groups: what they show, in one file that fetches nothing."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import hypersphere as hs
from hypersphere.core import counted
from hypersphere.data import ArraySource, Image, open_every_image
from hypersphere.recognition import (
    Face,
    Recognizer,
    cluster_faces,
    find_faces,
    load_calibration,
    marked_photo,
    write_cluster_page,
    write_verify_page,
)
from tests.plots.reader import Reader
from tests.recognition.drawn import drawn_landmarks, drawn_photo
from tests.recognition.test_recognizer import KnownFaces

FACE = Face((20, 30, 100, 110), 0.9, drawn_landmarks(60, 70, 40).astype(np.float32))


@pytest.fixture(scope="module")
def recognizer() -> Recognizer:
    return Recognizer("starter", detector=KnownFaces(1))


def test_a_page_shows_photos_crops_and_the_score(recognizer: Recognizer, tmp_path: Path) -> None:
    photo = drawn_photo((200, 200), ((60, 70, 40),))
    portraits = recognizer.portrait(photo), recognizer.portrait(photo[:, ::-1].copy())
    decision = recognizer.decide(portraits[0].unit, portraits[1].unit)
    path = write_verify_page(tmp_path / "page.html", portraits, decision, recognizer.calibration, "starter")
    html = path.read_text()
    read = Reader(html)
    assert "Liveness is not checked" in read.words
    assert f"{decision.score:.4f}" in read.words
    assert recognizer.calibration.table.people in read.words
    assert recognizer.calibration.contract in read.words
    sources = [value for tag, name, value in read.attributes if (tag, name) == ("img", "src")]
    assert len(sources) == 6
    assert all(source.startswith("data:image/") for source in sources)
    assert "http" not in html.replace("http-equiv", "").replace("http://www.w3.org", "")


def test_boxes_and_points_are_drawn_in_and_large_photos_made_small() -> None:
    photo = np.full((1440, 720, 3), 100, np.uint8)
    large = Face((200, 400, 500, 800), 0.9, FACE.landmarks * 4)
    marked = marked_photo(photo, large)
    assert marked.shape == (360, 180, 3)
    assert marked[100, 80].tolist() == [0, 180, 90]
    assert marked[round(FACE.landmarks[2, 1]), round(FACE.landmarks[2, 0])].tolist() == [255, 220, 0]
    assert marked[5, 5].tolist() == [100, 100, 100]
    outside = Face((-50, -50, 900, 1600), 0.9, FACE.landmarks * 40)
    assert marked_photo(photo, outside).shape == (360, 180, 3)
    assert (photo == 100).all()


def images(count: int) -> ArraySource:
    faces = hs.pocket.PocketFaces(num_identities=count, images_per_identity=2, size=112)
    return ArraySource(np.stack([faces.read(index) for index in range(2 * count)]))


def test_faces_of_crops_are_those_of_the_model(tmp_path: Path) -> None:
    plain = Recognizer("starter", detector=None)
    source = images(3)
    seen: list[tuple[int, int]] = []
    faces = find_faces(plain, source, lambda done, total: seen.append((done, total)))
    np.testing.assert_allclose(faces.unit, plain.model(source.images).numpy(), atol=1e-6)
    assert (faces.photos, faces.boxes, faces.left_out) == (list(range(6)), [None] * 6, {})
    assert faces.thumbnails[0].shape == (56, 56, 3)
    assert seen == [(6, 6)]
    row = load_calibration("starter").table.at(1e-3)
    groups = cluster_faces(faces.unit, row.threshold)
    path = write_cluster_page(
        tmp_path / "groups.html", faces, groups, [f"{k}.png" for k in range(6)], row, about="Six crops."
    )
    words = Reader(path.read_text()).words
    assert f"6 faces: {counted(int((np.bincount(groups) > 1).sum()), 'group')}, " in words
    assert "false-match rate 1e-03" in words


class Half(KnownFaces):
    """A face on every photo but the black ones; on white ones its landmarks are no face's."""

    def __call__(self, images: Sequence[Image]) -> list[list[Face]]:
        flat = Face((0, 0, 9, 9), 0.9, np.ones((5, 2), np.float32))
        return [[] if not image.any() else [flat] if image.min() == 255 else [FACE] for image in images]


def test_photos_without_a_face_are_named(tmp_path: Path) -> None:
    from PIL import Image as Pillow

    photo = drawn_photo((200, 200), ((60, 70, 40),))
    for name, pixels in (("a", photo), ("b", np.zeros_like(photo)), ("c", np.full_like(photo, 255))):
        Pillow.fromarray(pixels).save(tmp_path / f"{name}.png")
    stream = io.BytesIO()
    Pillow.fromarray(photo).save(stream, "JPEG")
    (tmp_path / "d.jpg").write_bytes(stream.getvalue()[:300])
    source, names = open_every_image(tmp_path)
    faces = find_faces(Recognizer("starter", detector=Half(1)), source)
    assert (faces.photos, faces.boxes) == ([0], [(20, 30, 100, 110)])
    assert [names[number] for number in faces.left_out] == ["b.png", "c.png", "d.jpg"]
    assert "no face was found" in faces.left_out[1]
    assert "one point" in faces.left_out[2]
    with pytest.raises(ValueError, match="no face was found on any of 1 photo;"):
        find_faces(Recognizer("starter", detector=Half(1)), open_every_image(tmp_path / "b.png")[0])
