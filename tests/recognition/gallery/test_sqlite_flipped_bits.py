"""One flipped bit anywhere in a SQLite gallery: the right answer or a refusal, whatever is asked."""

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from hypersphere.models import Contract
from hypersphere.recognition.gallery import Gallery, GalleryDamaged, GalleryUnavailable, open_gallery
from hypersphere.recognition.gallery.stored_template import Record, packed
from tests.recognition.gallery.people import units

DIM = 8
CONTRACT = Contract(input_size=(112, 112), dim=DIM, digest="0123456789abcdef")
ROWS = units(9, dim=DIM)
PEOPLE = ["Ada", "Ada", "Bob", "Cyd", "Dee", "Eve", "late", "gone"]
STRANGER = 8
_SAMPLE = 60
"""Flips of each test in `make test`."""


def fill(path: Path) -> None:
    """Eight templates of seven people: one has expired, one was forgotten."""
    with open_gallery(path, contract=CONTRACT, create=True) as gallery:
        records = [
            Record(
                id=f"k{number}", subject=name, vector=packed(row), metadata='{"site":"x"}', consent="yes", enrolled=1e9,
                expires={"late": 1e9 + 1, "Dee": 4e9}.get(name),
            )
            for number, (name, row) in enumerate(zip(PEOPLE, ROWS[:STRANGER], strict=True))
        ]  # fmt: skip
        for record in records:
            gallery.store([record], "enroll")
        assert gallery.forget("gone") == 1


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("sound") / "people.db"
    fill(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """The file and the log of a process that was killed after it had enrolled and forgotten people."""
    path = tmp_path_factory.mktemp("crashed") / "people.db"
    with open_gallery(path, contract=CONTRACT, create=True):
        pass
    child = os.fork()
    if child == 0:
        gallery = open_gallery(path, contract=CONTRACT)
        gallery.empty_log = lambda: None  # type: ignore[attr-defined]
        for number, (name, row) in enumerate(zip(PEOPLE, ROWS[:STRANGER], strict=True)):
            expires = {"late": 1.0, "Dee": 4e9}.get(name)
            gallery.store([Record(id=f"k{number}", subject=name, vector=packed(row), expires=expires)], "enroll")
        gallery.forget("gone")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    return path.read_bytes(), path.with_name("people.db-wal").read_bytes()


def used_bits(data: bytes) -> np.ndarray:
    """The bits of all bytes that are in use or next to one, and of the header of every page."""
    used = np.frombuffer(data, np.uint8) != 0
    near = np.convolve(used, np.ones(5), "same") > 0
    near[:100] = True
    return (8 * np.flatnonzero(near)[:, None] + np.arange(8)).reshape(-1)


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def put(path: Path, data: bytes, log: bytes = b"") -> None:
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    path.write_bytes(data)
    if log:
        path.with_name(f"{path.name}-wal").write_bytes(log)


def check_people(gallery: Gallery, gone: tuple[str, ...] = ()) -> None:
    """Everybody is found under the right name, and nobody else is."""
    names = [name for name in PEOPLE if name not in ("late", "gone", *gone)]
    for found, name, row in zip(gallery.search(ROWS, len(ROWS)), [*PEOPLE, "stranger"], ROWS, strict=True):
        assert sorted(candidate.subject for candidate in found) == sorted(names)
        scores = [
            float(other.astype(np.float16) @ row)
            for other, whose in zip(ROWS[:-1], PEOPLE, strict=True)
            if whose in names
        ]
        assert abs(found[0].score - max(scores)) < 1e-2
        assert (found[0].score > 0.99) == (name in names)
        assert found[0].score < 0.99 or found[0].subject == name


def identify(path: Path) -> None:
    with open_gallery(path, contract=CONTRACT) as gallery:
        check_people(gallery)
        assert gallery.size() == 6
        assert gallery.subjects() == ["Ada", "Bob", "Cyd", "Dee", "Eve"]


def forget(path: Path) -> None:
    with open_gallery(path, contract=CONTRACT) as gallery:
        assert gallery.forget("Ada") == 2
        check_people(gallery, gone=("Ada",))
    left = path.read_bytes()
    assert not any(row.astype("<f2").tobytes() in left for row in ROWS[:2])
    with open_gallery(path, contract=CONTRACT) as gallery, suppress(GalleryDamaged):
        check_people(gallery, gone=("Ada",))


def expire(path: Path) -> None:
    with open_gallery(path, contract=CONTRACT) as gallery:
        assert gallery.purge() == 1
        check_people(gallery)
        assert gallery.size() == gallery.info().size == 6
        assert gallery.info().expired == 0


def enrol(path: Path) -> None:
    with open_gallery(path, contract=CONTRACT) as gallery:
        gallery.enroll("new", ROWS[STRANGER], key="n")
        assert gallery.search(ROWS[STRANGER:], 1)[0][0].subject == "new"
        assert gallery.forget("new") == 1
        check_people(gallery)


def verify(path: Path) -> None:
    with open_gallery(path, contract=CONTRACT) as gallery:
        damage = gallery.verify()
        if not damage:
            check_people(gallery)
            assert [entry.subject for entry in gallery.audit()] == [*PEOPLE, "gone"]


def outcome(path: Path, act: Callable[[Path], None]) -> str:
    """Nothing if what was asked was answered rightly; the sentence if it was refused."""
    try:
        act(path)
    except (GalleryUnavailable, ValueError) as error:
        return str(error)
    return ""


def check_outcome(path: Path, act: Callable[[Path], None]) -> None:
    words = outcome(path, act)
    assert not words or str(path) in words


ACTS = [identify, forget, expire, enrol, verify]


def chosen(bits: np.ndarray, seed: int) -> Iterator[int]:
    """Bits to flip: all of them, or a sample."""
    yield from np.random.default_rng(seed).permutation(bits)[:_SAMPLE].tolist()


@pytest.mark.parametrize("act", ACTS)
def test_a_flipped_bit_of_the_file(sound: bytes, tmp_path: Path, act: Callable[[Path], None]) -> None:
    check_all(sound, tmp_path / "people.db", act, chosen(used_bits(sound), 1))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("act", ACTS)
def test_every_flipped_bit_of_the_file(sound: bytes, tmp_path: Path, act: Callable[[Path], None]) -> None:
    check_all(sound, tmp_path / "people.db", act, used_bits(sound).tolist())


def check_all(sound: bytes, path: Path, act: Callable[[Path], None], bits: Iterable[int]) -> None:
    put(path, sound)
    assert outcome(path, act) == ""
    wrong = []
    for bit in bits:
        put(path, flipped(sound, bit))
        try:
            check_outcome(path, act)
        except Exception as error:
            wrong.append((bit, repr(error)[:300]))
    assert wrong == []


def check_log(crashed: tuple[bytes, bytes], path: Path, bits: Iterable[int]) -> None:
    sound, log = crashed
    put(path, sound, log)
    assert outcome(path, identify) == ""
    wrong = []
    for bit in bits:
        put(path, sound, flipped(log, bit))
        try:
            check_outcome(path, identify)
        except Exception as error:
            wrong.append((bit, repr(error)[:300]))
    assert wrong == []


def test_a_flipped_bit_of_the_log(crashed: tuple[bytes, bytes], tmp_path: Path) -> None:
    check_log(crashed, tmp_path / "people.db", chosen(used_bits(crashed[1]), 2))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_flipped_bits_of_the_log(crashed: tuple[bytes, bytes], tmp_path: Path) -> None:
    check_log(crashed, tmp_path / "people.db", np.random.default_rng(3).permutation(used_bits(crashed[1]))[:2000])


def test_a_torn_end_of_the_log_is_no_damage(crashed: tuple[bytes, bytes], tmp_path: Path) -> None:
    """What was not acknowledged when the power was lost: the rest is as it was."""
    sound, log = crashed
    path = tmp_path / "people.db"
    for cut in (1, 600, 5000, 16384 + 24 + 100):
        put(path, sound, log[:-cut])
        with open_gallery(path, contract=CONTRACT) as gallery:
            assert "gone" in gallery.subjects()
        put(path, sound, log[:-cut] + bytes(cut))
        with open_gallery(path, contract=CONTRACT) as gallery:
            assert "gone" in gallery.subjects()


def test_a_log_that_lost_a_sector_in_the_middle_is_refused(crashed: tuple[bytes, bytes], tmp_path: Path) -> None:
    sound, log = crashed
    middle = 32 + 4 * (16384 + 24)
    put(tmp_path / "people.db", sound, log[:middle] + bytes(512) + log[middle + 512 :])
    with pytest.raises(GalleryDamaged, match="what was written last is damaged"):
        open_gallery(tmp_path / "people.db", contract=CONTRACT)
