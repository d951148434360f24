"""Photos aligned into a folder: crops, causes of failures, going on after an end, the page."""

import csv
import os
import random
import signal
import subprocess
import sys
import tarfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from hypersphere.core import Failure, hold_folder
from hypersphere.data import Image, decode, encode
from hypersphere.evaluation import clopper_pearson_interval
from hypersphere.recognition import (
    ALIGN_FAILURES,
    ALIGNMENT_TARGETS,
    AlignReport,
    AlignTask,
    Face,
    align_face,
    align_folder,
    align_photos,
    align_report,
)
from tests.damage import damaged, read_files, write_files
from tests.recognition.drawn import drawn_landmarks, drawn_photo
from tests.recognition.test_photo import png_header

FACES = {
    "ada/1.png": ((50, 50, 25),),
    "ada/2.png": ((50, 60, 25),),
    "bo/two.png": ((30, 50, 15), (70, 50, 20)),
    "bo/none.png": (),
    "cy/cut.png": ((8, 50, 25),),
}


class Known:
    """A detector that knows where the drawn faces are: each photo's corner pixel says which photo it is."""

    name = "known"
    calls = 0
    fails_after: int | None = None

    def __call__(self, images: Sequence[Image]) -> list[list[Face]]:
        Known.calls += 1
        if Known.fails_after is not None and Known.calls > Known.fails_after:
            raise KeyboardInterrupt
        return [self.faces(int(image[0, 0, 0])) for image in images]

    def faces(self, number: int) -> list[Face]:
        places = list(FACES.values())[number] if number < len(FACES) else ((50, 50, 25),)
        return [
            Face((x - r, y - r, x + r, y + r), 0.9, drawn_landmarks(x, y, r).astype(np.float32)) for x, y, r in places
        ]


def numbered(number: int) -> bytes:
    places = list(FACES.values())[number] if number < len(FACES) else ((50, 50, 25),)
    photo = drawn_photo((100, 100), places).copy()
    photo[0, 0] = number
    return encode(photo)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    contents = {name: numbered(number) for number, name in enumerate(FACES)}
    contents |= {"cy/damaged.jpg": b"\xff\xd8\xff\xe0 damaged", "cy/huge.png": png_header(9000, 9000)}
    for name, content in contents.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    Known.calls, Known.fails_after = 0, None
    monkeypatch.setattr(align_report, "load_detector", lambda name, **options: Known())


def aligned(photos: Path, out: Path, **options: object) -> AlignReport:
    return align_photos(AlignTask(photos=str(photos), out=str(out), **options))  # type: ignore[arg-type]


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("[!.]*.png"))


def test_every_photo_gives_a_crop_or_a_cause(photos: Path, tmp_path: Path) -> None:
    report = aligned(photos, tmp_path)
    assert {each.photo: each.failure for each in report.photos} == {
        "ada/1.png": "",
        "ada/2.png": "",
        "bo/none.png": "no face",
        "bo/two.png": "several faces",
        "cy/cut.png": "landmarks",
        "cy/damaged.jpg": "unreadable",
        "cy/huge.png": "too large",
    }
    causes = {each.photo: each.cause for each in report.failed}
    assert causes["bo/two.png"] == "2 faces were found"
    assert "outside of the photo" in causes["cy/cut.png"]
    assert causes["cy/huge.png"].startswith("9000x9000 pixels; a photo may have 40,000,000")
    assert files(tmp_path) == ["ada/1.png", "ada/2.png"]
    assert report.crops == 2
    assert report.failure_rate.value == pytest.approx(5 / 7)
    assert (report.failure_rate.low, report.failure_rate.high) == clopper_pearson_interval(5, 7)
    assert {each.failure for each in report.failed} == set(ALIGN_FAILURES)


def test_a_crop_is_that_of_align_face(photos: Path, tmp_path: Path) -> None:
    aligned(photos, tmp_path, target="sphereface-112x96")
    photo = decode((photos / "ada/2.png").read_bytes())
    crop = decode((tmp_path / "ada/2.png").read_bytes())
    assert crop.shape == (*ALIGNMENT_TARGETS["sphereface-112x96"].size, 3)
    np.testing.assert_array_equal(crop, align_face(photo, Known().faces(1)[0].landmarks, "sphereface-112x96"))


def test_several_faces_as_asked_for(photos: Path, tmp_path: Path) -> None:
    aligned(photos, tmp_path / "largest", faces="largest")
    assert files(tmp_path / "largest") == ["ada/1.png", "ada/2.png", "bo/two.png"]
    photo = decode((photos / "bo/two.png").read_bytes())
    crop = decode((tmp_path / "largest" / "bo/two.png").read_bytes())
    np.testing.assert_array_equal(crop, align_face(photo, Known().faces(2)[1].landmarks))
    report = aligned(photos, tmp_path / "all", faces="all", quality=90)
    assert [each.crops for each in report.photos if each.crops] == [
        ("ada/1.face1.jpg",),
        ("ada/2.face1.jpg",),
        ("bo/two.face1.jpg", "bo/two.face2.jpg"),
    ]


def test_the_table_has_boxes_and_landmarks(photos: Path, tmp_path: Path) -> None:
    aligned(photos, tmp_path)
    with (tmp_path / "faces.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["crop"] for row in rows] == ["ada/1.png", "ada/2.png"]
    assert [float(rows[1][name]) for name in ("x0", "y0", "x1", "y1")] == [25, 35, 75, 85]
    assert (float(rows[1]["x_nose"]), float(rows[1]["y_right_mouth"])) == (50, 75.5)


def test_the_page_has_counts_causes_and_crops(photos: Path, tmp_path: Path) -> None:
    aligned(photos, tmp_path)
    page = (tmp_path / "align.html").read_text()
    assert "2 of 7 photos gave 2 aligned crops." in page
    assert "71.43 %" in page
    for words in ("2 faces were found", "no face was found", "cy/damaged.jpg", "9000x9000"):
        assert words in page
    assert page.count('class="pixels"') == 2 * 3 + 2
    assert "http" not in page.replace("http-equiv", "")


def many(folder: Path, count: int) -> Path:
    folder.mkdir()
    for number in range(count):
        (folder / f"{number:03d}.png").write_bytes(numbered(9))
    return folder


def test_a_run_that_ended_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(align_folder, "PART", 4)
    photos = many(tmp_path / "photos", 10)
    Known.fails_after = 2
    with pytest.raises(KeyboardInterrupt):
        aligned(photos, tmp_path / "out")
    assert len(files(tmp_path / "out")) == 8
    Known.calls, Known.fails_after = 0, None
    seen: list[tuple[int, int]] = []
    task = AlignTask(photos=str(photos), out=str(tmp_path / "out"))
    report = align_photos(task, progress=lambda done, total: seen.append((done, total)))
    assert Known.calls == 1
    assert seen == [(4, 10), (8, 10), (10, 10)]
    assert [each.photo for each in report.photos] == [f"{number:03d}.png" for number in range(10)]
    again = align_photos(task)
    assert Known.calls == 1
    assert again == report


@pytest.mark.parametrize("count", [15, pytest.param(500, marks=pytest.mark.slow)])
def test_damaged_notes_and_crops_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Bits flipped, files cut short, exchanged or removed in a folder that goes on: all is as after an unbroken run."""
    monkeypatch.setattr(align_folder, "PART", 2)
    photos, out = tmp_path / "photos", tmp_path / "out"
    photos.mkdir()
    for number in range(6):
        (photos / f"{number:03d}.png").write_bytes(numbered((2, 0, 3, 9, 1, 4)[number]))
    aligned(photos, out, faces="largest")
    whole = read_files(out)
    begun = {name: content for name, content in whole.items() if name not in ("faces.csv", "align.html")}
    begun.pop(max(name for name in begun if "part-" in name))
    chance = random.Random(count)
    for _ in range(count):
        what, files = damaged(begun, chance)
        write_files(out, files)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            aligned(photos, out, faces="largest")
        after = read_files(out)
        assert {name: after.get(name) for name in whole if ".align" not in name} == {
            name: content for name, content in whole.items() if ".align" not in name
        }, what


def test_a_crop_that_is_gone_is_named_and_made_again(photos: Path, tmp_path: Path) -> None:
    report = aligned(photos, tmp_path)
    crop = (tmp_path / "ada/2.png").read_bytes()
    for content in (None, crop[:-1]):
        (tmp_path / "ada/2.png").unlink() if content is None else (tmp_path / "ada/2.png").write_bytes(content)
        with pytest.warns(
            RuntimeWarning, match=r"1 finished part of 1 cannot be used .*ada/2\.png: missing, or not the "
        ):
            assert aligned(photos, tmp_path) == report
        assert (tmp_path / "ada/2.png").read_bytes() == crop


def test_another_task_in_the_same_folder_is_refused(photos: Path, tmp_path: Path) -> None:
    aligned(photos, tmp_path)
    with pytest.raises(ValueError, match="was begun with another faces and quality"):
        aligned(photos, tmp_path, faces="all", quality=90)
    with pytest.raises(ValueError, match="crops would be taken for photos"):
        aligned(photos, photos / "crops")


def test_names_that_differ_in_their_suffix_stay_apart(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for name in ("a.png", "a.bmp", "b.png"):
        (tmp_path / "photos" / name).write_bytes(numbered(9))
    aligned(tmp_path / "photos", tmp_path / "out")
    assert files(tmp_path / "out") == ["a.bmp.png", "a.png.png", "b.png"]


def test_a_name_that_no_table_can_hold_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / os.fsdecode(b"a\xff.png")).write_bytes(numbered(9))
    with pytest.raises(ValueError, match=r"photos: 'a\\udcff\.png' cannot be written to a list: .* rename it"):
        aligned(tmp_path / "photos", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_tar_gives_what_its_folder_gives(photos: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "photos.tar", "w") as archive:
        for path in sorted(photos.rglob("*.*")):
            archive.add(path, path.relative_to(photos).as_posix())
    one, other = aligned(photos, tmp_path / "one"), aligned(tmp_path / "photos.tar", tmp_path / "other")
    assert [(each.photo, each.failure) for each in one.photos] == [(each.photo, each.failure) for each in other.photos]
    for name in files(tmp_path / "one"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


def test_one_folder_is_for_one_run_at_a_time(photos: Path, tmp_path: Path) -> None:
    with hold_folder(tmp_path), pytest.raises(Failure, match="is in use"):
        aligned(photos, tmp_path)


@pytest.mark.parametrize(
    ("options", "words"), [({"faces": "two"}, "faces"), ({"target": "vggface"}, "target"), ({"quality": 0}, "quality")]
)
def test_options_are_checked(photos: Path, tmp_path: Path, options: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        aligned(photos, tmp_path, **options)
    assert not list(tmp_path.rglob("*.png"))


def command(photos: Path, out: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "hypersphere", "align", str(photos), str(out), "--processes", "2", *more]


@pytest.mark.slow
def test_processes_and_a_kill_do_not_change_the_crops(tmp_path: Path) -> None:
    """By MTCNN itself: 200 photos by two processes that are killed, and again by one."""
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(200):
        photo = drawn_photo((120, 110), ((55, 60, 30 + number % 7),), turn=number % 9 - 4)
        (photos / f"{number:03d}.png").write_bytes(encode(photo))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command(photos, tmp_path / "two"), env=environment, start_new_session=True) as running:
        while running.poll() is None and not list((tmp_path / "two").glob(".align/part-*")):
            time.sleep(0.05)
        os.killpg(running.pid, signal.SIGKILL)
    assert 0 < len(list((tmp_path / "two").glob(".align/part-*"))) < 7
    subprocess.run(command(photos, tmp_path / "two"), check=True, env=environment)
    subprocess.run([*command(photos, tmp_path / "one")[:-1], "1"], check=True, env=environment)
    assert len(files(tmp_path / "one")) == 200
    for name in [*files(tmp_path / "one"), "faces.csv"]:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
