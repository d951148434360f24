"""A disk that is really full, while people are enrolled and files are saved."""

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hypersphere.core import write_atomically
from hypersphere.recognition.gallery import GalleryUnavailable, open_gallery
from hypersphere.training import Checkpoints
from tests.limits import can_mount, on_small_disk
from tests.recognition.gallery.people import CONTRACT, units


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    folder = tmp_path / "disk"
    folder.mkdir()
    if not can_mount(folder):
        pytest.skip("no right to mount")
    return folder


def fill(path: Path) -> None:
    """Write to a file until nothing more fits."""
    with path.open("wb", buffering=0) as file:
        for size in (65_536, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


def seconds_to_fail(act: Callable[[], object], kind: type[BaseException], words: str) -> float:
    """Processor time until an error that names what was wrong; nobody waits for anything meanwhile."""
    waited = time.sleep
    time.sleep = lambda _: pytest.fail("waits")
    start = time.process_time()
    try:
        with pytest.raises(kind, match=words):
            act()
        return time.process_time() - start
    finally:
        time.sleep = waited


def test_enrolling_on_a_full_disk(disk: Path) -> None:
    def work() -> None:
        path, rows = disk / "people.db", units(400)
        with open_gallery(path, contract=CONTRACT, create=True) as gallery:
            for number in range(5):
                gallery.enroll("Ada", rows[number], key=str(number))
            fill(disk / "ballast")

            def enroll_all() -> None:
                for number in range(5, 400):
                    gallery.enroll("Ada", rows[number], key=str(number), consent="c" * 1000)

            words = re.escape(f"{path}: not written (no space left on the device); it is as it was")
            assert seconds_to_fail(enroll_all, GalleryUnavailable, words) < 1
            kept = {record.id for record in gallery.records()}
            assert kept >= {"0", "1", "2", "3", "4"}
            assert gallery.search(rows[:1], 1)[0][0].template_id == "0"
            assert gallery.info().size == len(kept)
            os.unlink(disk / "ballast")
            gallery.enroll("Bob", rows[399], key="399")
            assert gallery.verify() == []
        with open_gallery(path, contract=CONTRACT) as again:
            assert {record.id for record in again.records()} == kept | {"399"}

    on_small_disk(disk, 2, work)


def test_saving_on_a_full_disk(disk: Path) -> None:
    def work() -> None:
        path, kept = disk / "file", Checkpoints(disk / "checkpoints", keep=2)
        write_atomically(path, b"old")
        kept.save(1, {"step": 1})
        fill(disk / "ballast")
        words = re.escape(f"{path}: not written (No space left on device); the previous one is untouched")
        assert seconds_to_fail(lambda: write_atomically(path, b"x" * 100_000), OSError, words) < 1
        state = {"step": 2, "rows": list(range(100_000))}
        assert seconds_to_fail(lambda: kept.save(2, state), OSError, "step-000000002.*No space left") < 1
        assert path.read_bytes() == b"old"
        assert kept.load_newest() == (1, {"step": 1})
        os.unlink(disk / "ballast")
        write_atomically(path, b"new")
        kept.save(2, state)
        assert path.read_bytes() == b"new"
        assert kept.load_newest() == (2, state)

    on_small_disk(disk, 2, work)
