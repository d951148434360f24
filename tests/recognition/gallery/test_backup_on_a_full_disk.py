"""Galleries that are made on a disk that runs full: whole or not at all, and nothing is left."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hypersphere.core import Failure
from hypersphere.recognition.gallery import open_gallery, restore_gallery
from hypersphere.recognition.gallery.stored_template import Record, packed
from tests.limits import can_mount, forked, on_small_disk
from tests.recognition.gallery.people import CONTRACT, units

PEOPLE = 600
SIZES = (48, 100, 200, 300, 400, 500, 600, 700, 800, 900, 2000)
"""Kibibytes of the disk: the gallery takes about 400, and while it is written as much again in its log."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "people.db"
    with open_gallery(path, contract=CONTRACT, create=True) as gallery:
        gallery.store(
            (
                Record(id=f"{number:04}", subject=f"p{number}", vector=packed(row), consent="c" * 300)
                for number, row in enumerate(units(PEOPLE))
            ),
            "enroll",
        )
    return path


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    folder = tmp_path / "disk"
    folder.mkdir()
    if not can_mount(folder):
        pytest.skip("no right to mount")
    return folder


def is_whole(path: Path, people: int) -> bool:
    with open_gallery(path, contract=CONTRACT) as gallery:
        return gallery.verify() == [] and len(list(gallery.records())) == gallery.info().size == people


def refusal(act: Callable[[], object]) -> str:
    """What a failure says; empty if there is none."""
    try:
        act()
    except Failure as error:
        return str(error)
    return ""


def backup(source: Path, copy: Path) -> int:
    with open_gallery(source) as gallery:
        return gallery.backup(copy)


@pytest.mark.parametrize("copied", [backup, restore_gallery])
@pytest.mark.parametrize("kibibytes", SIZES)
def test_a_copy_is_whole_or_refused(
    source: Path, disk: Path, kibibytes: int, copied: Callable[[Path, Path], int]
) -> None:
    def work() -> bool:
        copy = disk / "copy.db"
        told = refusal(lambda: copied(source, copy))
        if told:
            assert f"{copy}: " in told
            assert not list(disk.iterdir())
        else:
            assert [file.name for file in disk.iterdir()] == ["copy.db"]
            assert is_whole(copy, PEOPLE)
        return not told

    written = on_small_disk(disk, kibibytes / 1024, work)
    assert written or kibibytes < 2000
    assert not written or kibibytes > 400


@pytest.mark.parametrize("kibibytes", [40, 200, 300, 800])
def test_a_copy_that_may_not_grow_is_whole_or_refused(source: Path, tmp_path: Path, kibibytes: int) -> None:
    """A limit of a file's size, where nothing can be mounted."""
    resource = pytest.importorskip("resource", reason="needs limits of file sizes")

    def work() -> bool:
        resource.setrlimit(resource.RLIMIT_FSIZE, (kibibytes * 1024, kibibytes * 1024))
        copy = tmp_path / "new" / "copy.db"
        copy.parent.mkdir()
        told = refusal(lambda: backup(source, copy))
        if told:
            assert f"{copy}: " in told
            assert not list(copy.parent.iterdir())
        return not told and is_whole(copy, PEOPLE)

    assert forked(work) == (kibibytes == 800)


@pytest.mark.parametrize("kibibytes", range(4, 260, 8))
def test_a_new_gallery_is_whole_or_refused(disk: Path, kibibytes: int) -> None:
    def work() -> None:
        path, ballast = disk / "people.db", disk / "ballast"
        ballast.write_bytes(b"x" * (512 - kibibytes) * 1024)
        told = refusal(lambda: open_gallery(path, contract=CONTRACT, create=True).close())
        assert not told or f"{path}: " in told
        assert {file.name for file in disk.iterdir()} <= {"ballast", "people.db", "people.db-wal", "people.db-shm"}
        ballast.unlink()
        with open_gallery(path, contract=CONTRACT, create=True) as gallery:
            gallery.enroll("Ada", units(1)[0])
        assert is_whole(path, 1)
        assert [file.name for file in disk.iterdir()] == ["people.db"]

    on_small_disk(disk, 0.5, work)
