"""Faces kept between commands: by the content of photos, dropped with them, made again where the file is damaged."""

import stat
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from hypersphere.data import Image, encode
from hypersphere.recognition import Face, FaceCache, FoundFaces, Recognizer, find_faces, open_photos
from tests.recognition.drawn import drawn_photo
from tests.recognition.test_recognizer import FACES, KnownFaces


@pytest.fixture(scope="module")
def recognizer() -> Recognizer:
    return Recognizer("starter", detector=KnownFaces(1))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for name, size in (("a", 200), ("b", 220), ("c", 240)):
        (folder / f"{name}.png").write_bytes(encode(drawn_photo((size, size), FACES)))
    return folder


def faces_of(recognizer: Recognizer, photos: Path) -> tuple[FoundFaces, FaceCache]:
    cache = FaceCache([photos], recognizer, photos.parent / "cache")
    return find_faces(recognizer, open_photos([photos])[0], cache=cache), cache


def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many photos the detector looks at, call by call."""
    counts: list[int] = []
    look = KnownFaces.__call__

    def counted(self: KnownFaces, images: Sequence[Image]) -> list[list[Face]]:
        counts.append(len(images))
        return look(self, images)

    monkeypatch.setattr(KnownFaces, "__call__", counted)
    return counts


def same(left: FoundFaces, right: FoundFaces) -> bool:
    return (
        (left.photos, left.boxes, left.left_out) == (right.photos, right.boxes, right.left_out)
        and np.array_equal(left.unit, right.unit)
        and np.array_equal(np.stack(left.thumbnails), np.stack(right.thumbnails))
    )


def test_only_changed_photos_are_looked_at_again(
    recognizer: Recognizer, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, cache = faces_of(recognizer, photos)
    assert stat.S_IMODE(cache.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(cache.path.parent.stat().st_mode) == 0o700
    counts = asked(monkeypatch)
    again, _ = faces_of(recognizer, photos)
    assert counts == []
    assert same(first, again)
    (photos / "b.png").write_bytes(encode(drawn_photo((260, 260), FACES)))
    faces_of(recognizer, photos)
    assert counts == [1]


def test_photos_that_are_gone_are_dropped(recognizer: Recognizer, photos: Path) -> None:
    faces_of(recognizer, photos)
    (photos / "a.png").unlink()
    _, cache = faces_of(recognizer, photos)
    assert len(np.load(cache.path)["photos"]) == 2


def test_another_detector_or_model_has_a_file_of_its_own(recognizer: Recognizer, photos: Path) -> None:
    _, cache = faces_of(recognizer, photos)
    other = Recognizer(recognizer.model, detector=KnownFaces(2), calibration="starter")
    assert FaceCache([photos], other, cache.path.parent).path != cache.path
    assert FaceCache([photos.parent], recognizer, cache.path.parent).path != cache.path


def test_a_damaged_file_is_made_again_with_a_warning(
    recognizer: Recognizer, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, cache = faces_of(recognizer, photos)
    whole = cache.path.read_bytes()
    counts = asked(monkeypatch)
    place = len(whole) // 2
    for damaged in (b"", whole[:-100], whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]):
        cache.path.write_bytes(damaged)
        with pytest.warns(RuntimeWarning, match="the faces kept in .* are not used"):
            again, _ = faces_of(recognizer, photos)
        assert same(first, again)
        assert cache.path.read_bytes() == whole
    assert counts == [3, 3, 3]
