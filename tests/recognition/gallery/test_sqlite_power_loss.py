"""Power is lost at any moment while people are enrolled and forgotten: what was acknowledged is there afterwards."""

import os
import random
import shutil
import tempfile
from pathlib import Path

import pytest

from hypersphere.recognition.gallery import open_gallery
from hypersphere.recognition.gallery.stored_template import Record, packed
from tests.recognition.gallery.people import CONTRACT, units
from tests.recognition.gallery.recorded_disk import Picture, RecordedDisk
from tests.strace import needs_strace, record

pytestmark = [needs_strace, pytest.mark.usefixtures("real_syncs")]


def enrol_and_forget(path: Path, count: int, told: int, *, synchronous: str) -> None:
    """Enrol so many, two thirds of them in a gallery that is opened again, and forget every fourth; tell each end."""
    rows, again = units(count), count // 3
    open_gallery(path, contract=CONTRACT, create=True).close()
    for numbers in (range(again), range(again, count)):
        with open_gallery(path, contract=CONTRACT) as gallery:
            for setting in (f"synchronous = {synchronous}", "wal_autocheckpoint = 12"):
                gallery._writer.execute(f"PRAGMA {setting}")  # type: ignore[attr-defined]
            for number in numbers:
                gallery.enroll(f"p{number}", rows[number], key=f"k{number:04}", consent="c" * 900)
                os.write(told, f"enrolled k{number:04}".encode())
                if number % 4 == 3:
                    os.write(told, f"forgetting k{number - 1:04}".encode())
                    gallery.forget(f"p{number - 1}")
                    os.write(told, f"forgotten k{number - 1:04}".encode())


class Expected:
    """What must be in the gallery, and what may be, by what was told."""

    def __init__(self) -> None:
        self.must: set[str] = set()
        self.may = {"k0000"}
        self.gone: set[str] = set()

    def hear(self, told: str) -> None:
        what, _, key = told.partition(" ")
        if what == "enrolled":
            self.must.add(key)
            self.may.add(f"k{int(key[1:]) + 1:04}")
        elif what == "forgetting":
            self.must.remove(key)
        elif what == "forgotten":
            self.may.remove(key)
            self.gone.add(key)


def check(picture: Picture, expected: Expected, whole: dict[str, Record], folder: Path) -> set[str]:
    """Open what a disk holds: everything that was acknowledged is there and whole, and no byte of who was forgotten."""
    for key in expected.gone:
        assert not [name for name, data in picture.items() if whole[key].vector in data], f"{key} was forgotten"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, data in picture.items():
        (folder / name).write_bytes(data)
    if "people.db" not in picture:
        assert not expected.must
        return set()
    with open_gallery(folder / "people.db", contract=CONTRACT) as gallery:
        assert gallery.verify() == []
        found = {each.id: each for each in gallery.records()}
        done = [entry.action for entry in gallery.audit()]
    assert expected.must <= found.keys() <= expected.may
    for key, each in found.items():
        assert (each.subject, each.vector) == (whole[key].subject, whole[key].vector)
    assert done.count("enroll") - done.count("forget") == len(found)
    return set(found)


def lose_power_everywhere(folder: Path, count: int, torn: float, synchronous: str = "FULL") -> int:
    """Check a disk at every call of a process that enrols and forgets; returns how many different disks there were.

    Each has only what was synced, the same under the newest names, everything, or torn pieces of what was not synced.
    """
    (folder / "disk").mkdir()
    path = folder / "disk" / "people.db"
    reader, writer = os.pipe()
    calls = record(lambda: enrol_and_forget(path, count, writer, synchronous=synchronous), folder / "calls")
    os.close(reader)
    os.close(writer)
    whole = {
        f"k{number:04}": Record(id=f"k{number:04}", subject=f"p{number}", vector=packed(row))
        for number, row in enumerate(units(count))
    }
    disk, expected, chance, seen = RecordedDisk(folder / "disk", calls), Expected(), random.Random(0), set()
    memory = Path("/dev/shm")
    after = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else folder))
    for told in disk.replay():
        expected.hear(told)
        pictures = [disk.synced(names=False), disk.synced(names=True)]
        if chance.random() < torn:
            pictures += [disk.everything(), disk.torn(chance), disk.torn(chance)]
        for picture in pictures:
            key = hash((tuple(sorted(picture.items())), tuple(sorted(expected.must)), tuple(sorted(expected.may))))
            if key not in seen:
                seen.add(key)
                found = check(picture, expected, whole, after)
    shutil.rmtree(after)
    assert found == {f"k{number:04}" for number in range(count) if number % 4 != 2 or number + 1 >= count}
    return len(seen)


@pytest.mark.parametrize(
    ("count", "torn"), [(6, 0.1), pytest.param(150, 0.5, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]
)
def test_what_was_acknowledged_survives_a_loss_of_power(tmp_path: Path, count: int, torn: float) -> None:
    assert lose_power_everywhere(tmp_path, count, torn) > 4 * count


def test_the_replay_notices_what_was_acknowledged_too_early(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="k0000"):
        lose_power_everywhere(tmp_path, 2, 0, synchronous="NORMAL")
