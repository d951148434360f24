"""300 photos of LFW with landmarks, read where HYPERSPHERE_DATA says they lie."""

import os
from pathlib import Path

import numpy as np
import pytest

from hypersphere.data import Image, open_every_image
from hypersphere.recognition import Detector, Face, load_detector

pytestmark = [pytest.mark.realdata, pytest.mark.timeout(1800)]


def real(name: str) -> Path:
    path = Path(os.environ.get("HYPERSPHERE_DATA", "nowhere")) / name
    if not path.exists():
        pytest.skip(f"no {name} where HYPERSPHERE_DATA says")
    return path


@pytest.fixture(scope="module")
def photos() -> dict[str, Image]:
    source, names = open_every_image(real("raw.tar"))
    return {name: source.read(place) for place, name in enumerate(names)}


@pytest.fixture(scope="module")
def landmarks() -> dict[str, np.ndarray]:
    rows = [line.split("\t") for line in real("raw-landmarks.txt").read_text().splitlines()]
    return {name: np.array(values, float).reshape(5, 2) for name, *values in rows}


def errors(faces: list[list[Face]], wanted: list[np.ndarray]) -> np.ndarray:
    """The mean distance of the landmarks of the nearest face in per cent of the eyes' distance."""
    found = []
    for each, points in zip(faces, wanted, strict=True):
        distances = [np.linalg.norm(face.landmarks - points, axis=1).mean() for face in each]
        found.append(100 * min(distances, default=np.inf) / np.linalg.norm(points[1] - points[0]))
    return np.array(found)


@pytest.mark.parametrize(("name", "mean", "most"), [("mtcnn", 4.2, 8.5), ("yunet", 8.2, 13.5)])
def test_every_face_is_found_near_its_landmarks(
    photos: dict[str, Image], landmarks: dict[str, np.ndarray], name: str, mean: float, most: float
) -> None:
    file = "mtcnn" if name == "mtcnn" else real("models/face_detection_yunet_2023mar.onnx")
    detector: Detector = load_detector(file, threads=1)
    found = errors(detector(list(photos.values())), [landmarks[photo] for photo in photos])
    assert (found < 50).all()
    assert found.mean() < mean
    assert np.percentile(found, 95) < most


def test_real_photos_together_give_what_they_give_one_by_one(photos: dict[str, Image]) -> None:
    detector = load_detector("mtcnn", threads=1)
    some = [*list(photos.values())[:60], *(photo[:200, :220] for photo in list(photos.values())[:20])]
    for photo, faces in zip(some, detector(some), strict=True):
        alone = detector([photo])[0]
        assert [face.score for face in alone] == [face.score for face in faces]
        for one, other in zip(alone, faces, strict=True):
            np.testing.assert_array_equal(one.landmarks, other.landmarks)
