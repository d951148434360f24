"""From photos to decisions, with a detector that knows where the drawn faces are."""

import dataclasses
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

import hypersphere as hs
from hypersphere.data import Image, encode
from hypersphere.recognition import (
    Calibration,
    DegenerateLandmarks,
    Face,
    FaceCountError,
    GalleryMismatch,
    Recognizer,
    decide,
    default_gallery,
    load_calibration,
    pool_template,
)
from tests.recognition.drawn import drawn_landmarks, drawn_photo

FACES = ((60, 70, 40), (150, 120, 25))


class KnownFaces:
    """A fake detector: the first `count` of the drawn faces, the smaller first."""

    name = "known"

    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self, images: Sequence[Image]) -> list[list[Face]]:
        faces = [
            Face((x - r, y - r, x + r, y + r), 0.9, drawn_landmarks(x, y, r).astype(np.float32))
            for x, y, r in FACES[: self.count][::-1]
        ]
        return [faces for _ in images]


@pytest.fixture(scope="module")
def starter() -> hs.Embedder:
    return hs.load_model("starter")


@pytest.fixture(scope="module")
def crops(starter: hs.Embedder) -> list[Image]:
    faces = hs.pocket.PocketFaces(num_identities=3, images_per_identity=2, size=112)
    return [faces.read(index) for index in range(6)]


def recognizer(starter: hs.Embedder, count: int | None = None, **options: Any) -> Recognizer:
    detector = None if count is None else KnownFaces(count)
    return Recognizer(starter, detector=detector, calibration="starter", **options)


def test_a_photo_is_aligned_and_embedded(starter: hs.Embedder, tmp_path: Path) -> None:
    photo = drawn_photo((200, 200), FACES[:1])
    (tmp_path / "photo.png").write_bytes(encode(photo))
    one = recognizer(starter, 1)
    (face,) = one.faces(photo)
    crop = hs.recognition.align_face(photo, face.landmarks, "insightface-112")
    wanted = starter(crop[None]).numpy()[0]
    for given in (photo, tmp_path / "photo.png", str(tmp_path / "photo.png"), encode(photo)):
        np.testing.assert_allclose(one.embed(given), wanted, atol=1e-6)
    portrait = one.portrait(tmp_path / "photo.png")
    assert portrait.name == str(tmp_path / "photo.png")
    assert portrait.face is not None
    np.testing.assert_array_equal(portrait.crop, crop)


def test_no_face_and_several_faces_are_errors_with_their_count(starter: hs.Embedder) -> None:
    photo = drawn_photo((200, 200), FACES)
    with pytest.raises(FaceCountError, match="photo: no face was found; expected one") as none:
        recognizer(starter, 0).embed(photo)
    with pytest.raises(FaceCountError, match="photo: 2 faces were found; expected one") as two:
        recognizer(starter, 2).verify(photo, photo)
    assert (none.value.count, two.value.count) == (0, 2)
    largest = recognizer(starter, 2, face="largest").portrait(photo).face
    assert largest is not None
    assert largest.box[:2] == (20, 30)
    assert len(recognizer(starter, 2).portraits(photo)) == 2
    assert recognizer(starter, 0).portraits(photo) == []


def test_every_kind_of_file_gives_the_same_embedding(starter: hs.Embedder) -> None:
    one, photo = recognizer(starter, 1), drawn_photo((200, 200), FACES[:1])
    plain = Pillow.fromarray(photo)
    grey = np.asarray(plain.convert("L"))
    for first, *others in (
        (photo, (plain.convert("CMYK"), "TIFF"), (plain.convert("RGBA"), "PNG"), (plain.quantize(256), "PNG")),
        (
            np.repeat(grey[:, :, None], 3, axis=2),
            (Pillow.fromarray(grey.astype(np.uint16) * 257), "PNG"),
            (plain.convert("L"), "JPEG"),
        ),
    ):
        wanted = one.embed(first)
        for picture, kind in others:
            stream = io.BytesIO()
            picture.save(stream, kind)
            assert one.embed(stream.getvalue()) @ wanted > 0.99, (picture.mode, kind)


def test_landmarks_of_no_face_are_refused(starter: hs.Embedder) -> None:
    flat = Face((0, 0, 9, 9), 0.9, np.array([[k, 5] for k in range(5)], np.float32))
    with pytest.raises(DegenerateLandmarks, match="photo: landmarks are on a line"):
        recognizer(starter, 1).portraits_at(drawn_photo(), [flat])


def test_crops_that_are_aligned_before(starter: hs.Embedder, crops: list[Image]) -> None:
    plain = recognizer(starter)
    units = starter(np.stack(crops)).numpy()
    np.testing.assert_allclose(plain.embed(crops[0]), units[0], atol=1e-6)
    with pytest.raises(ValueError, match="photo is 200 x 200 pixels; an aligned crop for starter has 112 x 112"):
        plain.embed(drawn_photo())
    with pytest.raises(ValueError, match="detector=None"):
        plain.faces(crops[0])
    with pytest.raises(ValueError, match=r"photo is float32 \(4, 4, 3\)"):
        plain.embed(np.zeros((4, 4, 3), np.float32))


def test_verify_is_the_decision_about_the_cosine(starter: hs.Embedder, crops: list[Image]) -> None:
    plain = recognizer(starter)
    found = plain.verify(crops[0], crops[1], fmr=1e-2)
    units = starter(np.stack(crops[:2])).numpy().astype(np.float64)
    assert found.score == pytest.approx(units[0] @ units[1], abs=1e-6)
    assert found == decide(found.score, load_calibration("starter"), 1e-2)
    assert plain.verify(crops[0], crops[0]).match
    with pytest.raises(ValueError, match="fmr=1e-09 is below 1e-06"):
        plain.verify("missing.jpg", "missing.jpg", fmr=1e-9)


@pytest.fixture
def enrolled(starter: hs.Embedder, crops: list[Image], tmp_path: Path) -> Iterator[Recognizer]:
    with recognizer(starter, gallery=tmp_path / "people.db") as found:
        for person in range(3):
            found.enroll(f"person {person}", crops[2 * person])
        yield found


def test_enrol_identify_forget(enrolled: Recognizer, crops: list[Image]) -> None:
    found = enrolled.identify(crops[2], fpir=0.1)
    assert [each.subject for each in found.candidates][:1] == ["person 1"]
    assert (found.gallery_size, found.calibrated_size, found.extrapolated) == (3, 10, False)
    assert found.candidates[0].score == pytest.approx(1, abs=1e-3)
    assert enrolled.forget("person 1") == 1
    assert enrolled.forget("person 1") == 0
    after = enrolled.identify(crops[2], fpir=0.1)
    assert "person 1" not in [each.subject for each in after.candidates]
    assert after.gallery_size == 2


def test_an_empty_gallery_matches_nobody(starter: hs.Embedder, crops: list[Image], tmp_path: Path) -> None:
    with recognizer(starter, gallery=tmp_path / "empty.db") as empty:
        assert empty.gallery.size() == 0
        found = empty.identify(crops[0], fpir=0.01)
    assert not found.match
    assert "no match at FPIR 1e-02" in str(found)
    assert "with N = 0" in str(found)
    assert str(found).endswith("; the gallery is empty")


def test_a_search_makes_no_gallery(starter: hs.Embedder, crops: list[Image], tmp_path: Path) -> None:
    with recognizer(starter, gallery=tmp_path / "mistyped.db") as mistaken:
        with pytest.raises(ValueError, match="mistyped.db: there is no such gallery"):
            mistaken.identify(crops[0])
        with pytest.raises(ValueError, match="there is no such gallery"):
            mistaken.forget("Ada")
    assert list(tmp_path.iterdir()) == []


def test_several_photos_make_one_template(enrolled: Recognizer, crops: list[Image]) -> None:
    template = enrolled.template(crops[:2])
    np.testing.assert_allclose(template, pool_template(enrolled.model(np.stack(crops[:2])).numpy()), atol=1e-6)
    key = enrolled.enroll("Ada", crops[:2], key="one", consent="asked")
    assert key == enrolled.enroll("Ada", crops[:2], key="one", consent="asked") == "one"
    assert enrolled.gallery.info().size == 4
    with pytest.raises(ValueError, match="photos is empty"):
        enrolled.enroll("Ada", [])


@pytest.mark.parametrize("change", [{"digest": "0123456789abcdef"}, {"alignment": "none of ours"}])
def test_a_gallery_of_another_model_or_alignment_is_refused(
    starter: hs.Embedder, crops: list[Image], tmp_path: Path, change: dict[str, Any]
) -> None:
    other = dataclasses.replace(starter.contract, **change)
    hs.open_gallery(tmp_path / "other.db", contract=other, create=True).close()
    with recognizer(starter, gallery=tmp_path / "other.db") as found:
        with pytest.raises(GalleryMismatch, match=r"other\.db"):
            found.identify(crops[0])
        with pytest.raises(GalleryMismatch, match=r"other\.db"):
            found.enroll("Ada", crops[0])


def test_a_calibration_of_another_model_is_refused(enrolled: Recognizer, crops: list[Image]) -> None:
    other = enrolled.model.with_flip("none")
    with pytest.raises(ValueError, match="the calibration is of contract"):
        Recognizer(other, detector=None, calibration="starter")
    with pytest.raises(ValueError, match="gallery is missing"):
        recognizer(enrolled.model).identify(crops[0])


def test_what_is_missing_is_said(starter: hs.Embedder, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="calibration is missing"):
        Recognizer(starter, detector=None)
    with pytest.raises(ValueError, match="face='biggest'"):
        recognizer(starter, face="biggest")
    network = hs.create_backbone("cnn4", dim=8, input_size=(16, 16))
    contract = hs.models.Contract(input_size=(16, 16), dim=8, digest="d")
    with pytest.raises(ValueError, match="names no alignment target"):
        Recognizer(hs.Embedder(contract, network), detector=KnownFaces(1), calibration="starter")


def test_the_default_gallery(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_gallery() == tmp_path / "hypersphere" / "gallery.db"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_gallery() == tmp_path / ".local" / "share" / "hypersphere" / "gallery.db"


def test_enrolment_warns_before_searches_are_refused(
    starter: hs.Embedder, crops: list[Image], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The starter's calibration supported 12,669 templates; the next one turned every search into an error."""
    monkeypatch.setattr(Calibration, "largest_gallery", lambda *_: 5)
    with recognizer(starter, gallery=str(tmp_path / "people.db")) as made:
        for number in range(3):
            made.enroll(f"p{number}", crops[number])
        with pytest.warns(RuntimeWarning, match=r"4 templates; beyond 5 .* supports no search at fpir=0.01"):
            made.enroll("p3", crops[3])
