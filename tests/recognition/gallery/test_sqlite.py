"""The SQLite gallery under faults: kills, flipped bits, a full disk, files that are none, people who are forgotten."""

import dataclasses
import multiprocessing
import os
import pickle
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hypersphere.core import Failure, counted
from hypersphere.recognition.gallery import (
    Damage,
    Gallery,
    GalleryDamaged,
    GalleryMismatch,
    GalleryUnavailable,
    open_gallery,
    restore_gallery,
)
from hypersphere.recognition.gallery.stored_template import Record, packed
from tests.recognition.gallery.people import CONTRACT, DIM, units
from tests.recognition.gallery.test_contract_of_engines import write_at_once

WIDE = 256


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "people.db"


@pytest.fixture
def gallery(path: Path) -> Iterator[Gallery]:
    with open_gallery(path, contract=CONTRACT, create=True) as made:
        yield made


def opened(path: Path) -> Gallery:
    return open_gallery(path, contract=CONTRACT)


def test_settings_of_the_file(gallery: Gallery, path: Path) -> None:
    gallery.enroll("Ada", units(1)[0])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with sqlite3.connect(path) as plain:
        settings = [plain.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "page_size")]
    plain.close()
    assert settings == ["wal", 16384]
    own = gallery._writer  # type: ignore[attr-defined]
    assert [own.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "secure_delete")] == [2, 1]


def files_of(path: Path) -> bytes:
    beside = (path, path.with_name(f"{path.name}-wal"))
    return b"".join(each.read_bytes() for each in beside if each.exists())


def traces(data: bytes, record: Record) -> bool:
    """Whether any 16 bytes of a template are there."""
    return any(record.vector[top : top + 16] in data for top in range(0, len(record.vector), 16))


def test_a_forgotten_template_leaves_no_trace(tmp_path: Path) -> None:
    """Also where pages were split and joined by what was enrolled and forgotten before and after it."""
    path = tmp_path / "wide.db"
    contract = type(CONTRACT)(input_size=(112, 112), dim=WIDE, digest="0123456789abcdef")
    draw = np.random.default_rng(0)
    records = [
        Record(id=f"{number:04}", subject=f"p{number % 200}", vector=packed(row))
        for number, row in enumerate(units(600, dim=WIDE))
    ]
    with open_gallery(path, contract=contract, create=True) as gallery:
        gallery.store([records[number] for number in draw.permutation(len(records))], "enroll")
        assert all(traces(files_of(path), record) for record in records[:5])
        gone = [f"p{number}" for number in draw.permutation(200)[:25]]
        for number, subject in enumerate(gone):
            assert gallery.forget(subject) == 3
            gallery.enroll("new", units(1, 1000 + number, dim=WIDE)[0])
        data = files_of(path)
        assert [record.subject for record in records if not traces(data, record)] == [
            record.subject for record in records if record.subject in gone
        ]
        late = Record(id="late", subject="late", vector=packed(units(1, 7, dim=WIDE)[0]), expires=1.0)
        gallery.store([late], "enroll")
        assert gallery.purge() == 1
        assert not traces(files_of(path), late)


def test_a_reader_of_an_earlier_state_is_told_of(gallery: Gallery, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hypersphere.recognition.gallery.sqlite._ERASE_WAIT", 0.0)
    gallery.enroll("Ada", units(1)[0])
    gallery._writer.execute("PRAGMA busy_timeout = 10")  # type: ignore[attr-defined]
    reader = gallery.records()
    next(reader)
    gallery.enroll("Bob", units(2)[1])
    with pytest.warns(RuntimeWarning, match="until the next removal"):
        assert gallery.forget("Ada") == 1
    reader.close()  # type: ignore[attr-defined]
    assert gallery.forget("Bob") == 1
    assert path.with_name("people.db-wal").stat().st_size == 0


def fill(path: Path, count: int) -> list[Record]:
    with open_gallery(path, contract=CONTRACT, create=True) as gallery:
        for number, row in enumerate(units(count)):
            gallery.enroll(f"p{number}", row, key=f"k{number:03}", metadata={"site": "x"}, consent="yes")
        return list(gallery.records())


def flip(path: Path, offset: int, bit: int) -> None:
    with path.open("rb+") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1 << bit]))


@pytest.mark.parametrize(("people", "flips"), [(30, 8), pytest.param(300, 100, marks=pytest.mark.slow)])
def test_a_flipped_bit_of_a_template_is_found_and_quarantined(path: Path, people: int, flips: int) -> None:
    records = fill(path, people)
    draw = np.random.default_rng(0)
    data = path.read_bytes()
    hit = sorted(draw.permutation(people)[:flips].tolist())
    for number in hit:
        flip(path, data.index(records[number].vector) + int(draw.integers(2 * DIM)), int(draw.integers(8)))
    names = [records[number].id for number in hit]
    with opened(path) as gallery:
        for act in (lambda: gallery.search(units(1)), lambda: gallery.forget("p0"), gallery.info, gallery.subjects):
            with pytest.raises(GalleryDamaged, match=counted(len(hit), "damaged template")):
                act()
        assert gallery.verify() == [Damage("template", name) for name in names]
        [found] = gallery.search(units(1), people)
        assert {each.template_id for each in found} == {record.id for record in records} - set(names)
        assert gallery.verify() == []
        assert gallery.info().quarantined == len(hit)
        assert gallery.info().size == people - len(hit)
        gallery.enroll("again", units(1, 5)[0], key=names[0])
        assert gallery.forget(records[hit[0]].subject) == 0
        assert gallery.info().quarantined == 0, "whose they are is not certain"


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9, 0.999])
def test_a_file_that_was_cut_is_noticed(path: Path, share: float) -> None:
    fill(path, 60)
    os.truncate(path, int(share * path.stat().st_size))
    with pytest.raises((GalleryDamaged, ValueError)), opened(path) as gallery:
        gallery.verify()


class Canary:
    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, ("canary",)


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_is_no_gallery(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: int) -> None:
    monkeypatch.chdir(tmp_path)
    path.write_bytes(pickle.dumps(Canary(), protocol=protocol) * 200)
    for act in (lambda: opened(path), lambda: restore_gallery(path, tmp_path / "new.db")):
        with pytest.raises(ValueError, match=r"people\.db: not a gallery"):
            act()
    assert not (tmp_path / "canary").exists()
    assert not (tmp_path / "new.db").exists()


def test_another_sqlite_file_is_no_gallery(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE x (y)")
    other.close()
    with pytest.raises(ValueError, match="a SQLite file, but not a gallery"):
        opened(path)


def test_a_gallery_with_a_trigger_is_refused(gallery: Gallery, path: Path) -> None:
    gallery.close()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TRIGGER t AFTER INSERT ON templates BEGIN DELETE FROM templates; END")
    other.close()
    with pytest.raises(GalleryDamaged, match="not those of a gallery"):
        opened(path)


def test_a_removed_or_replaced_file_takes_nothing_more(gallery: Gallery, path: Path) -> None:
    """SQLite itself would write on into a file without a name."""
    rows = units(1)
    gallery.enroll("Ada", rows[0])
    path.rename(path.with_suffix(".old"))
    for act in (lambda: gallery.enroll("Bob", rows[0]), lambda: gallery.search(rows), gallery.info):
        with pytest.raises(GalleryUnavailable, match="removed or replaced"):
            act()
    shutil.copyfile(path.with_suffix(".old"), path)
    with pytest.raises(GalleryUnavailable, match="removed or replaced"):
        gallery.search(rows)


def test_a_writer_that_does_not_end_is_not_waited_for_for_ever(gallery: Gallery, path: Path) -> None:
    gallery.enroll("Ada", units(1)[0])
    gallery._writer.execute("PRAGMA busy_timeout = 50")  # type: ignore[attr-defined]
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(GalleryUnavailable, match="locked"):
        gallery.enroll("Bob", units(2)[1])
    assert gallery.search(units(1), 1)[0][0].subject == "Ada"
    other.execute("ROLLBACK")
    other.close()
    gallery.enroll("Bob", units(2)[1])
    assert gallery.info().size == 2


def test_nobody_who_reads_waits_for_a_writer(gallery: Gallery, path: Path) -> None:
    """A process-wide lock was held through the wait for another process, so that searches stood still for 20 s."""
    gallery.enroll("Ada", units(1)[0])
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    waiting = threading.Thread(target=gallery.enroll, args=("Bob", units(2)[1]))
    waiting.start()
    assert gallery.search(units(1), 1)[0][0].subject == "Ada"
    assert (gallery.size(), gallery.info().subjects, gallery.verify()) == (1, 1, [])
    assert waiting.is_alive(), "the writer waits all the time"
    other.execute("ROLLBACK")
    other.close()
    waiting.join()
    assert gallery.subjects() == ["Ada", "Bob"]


def test_a_backup_takes_the_place_of_what_an_open_gallery_holds(gallery: Gallery, path: Path, tmp_path: Path) -> None:
    """A file put in its place needed a restart of every service that had the old one open."""
    rows = units(5)
    for number in range(3):
        gallery.enroll(f"p{number}", rows[number], key=f"k{number}")
    gallery.backup(tmp_path / "copy.db")
    gallery.forget("p0")
    gallery.enroll("new", rows[4])
    with opened(path) as service:
        assert service.search(rows[4:], 1)[0][0].subject == "new"
        assert restore_gallery(tmp_path / "copy.db", path, replace=True) == 3
        assert service.subjects() == ["p0", "p1", "p2"]
        assert service.search(rows[:1], 1)[0][0].template_id == "k0"
        assert service.verify() == []
        assert [entry.action for entry in service.audit()][-1] == "restore"
    assert packed(rows[4]) not in files_of(path)


def test_a_backup_of_another_contract_takes_nobodys_place(gallery: Gallery, path: Path, tmp_path: Path) -> None:
    gallery.enroll("Ada", units(1)[0])
    with open_gallery(tmp_path / "other.db", contract=dataclasses.replace(CONTRACT, flip="sum"), create=True) as other:
        other.enroll("Bob", units(1)[0])
    with pytest.raises(GalleryMismatch):
        restore_gallery(tmp_path / "other.db", path, replace=True)
    assert gallery.subjects() == ["Ada"]


def test_a_failed_transaction_changes_nothing(gallery: Gallery) -> None:
    rows = units(3)
    gallery.enroll("Ada", rows[0], key="a")
    new = [Record(id=key, subject="Bob", vector=packed(row)) for key, row in zip("ba", rows[1:], strict=True)]
    with pytest.raises(ValueError, match="'a'"):
        gallery.store(new, "enroll")
    assert [record.id for record in gallery.records()] == ["a"]
    assert len(gallery.audit()) == 1


def test_a_full_disk(gallery: Gallery, path: Path) -> None:
    """SQLite's own limit of pages stands for the disk: the same error, at the same place."""
    rows = units(400)
    own = gallery._writer  # type: ignore[attr-defined]
    pages = own.execute("PRAGMA page_count").fetchone()[0]
    own.execute(f"PRAGMA max_page_count = {pages + 2}")
    kept = 0

    def enroll_all() -> None:
        nonlocal kept
        for number, row in enumerate(rows):
            gallery.enroll("Ada", row, key=str(number), consent="c" * 1000)
            kept += 1

    with pytest.raises(GalleryUnavailable, match=r"people\.db: not written \(no space left on the device\)"):
        enroll_all()
    assert 0 < kept < 400
    assert gallery.info().size == kept
    own.execute("PRAGMA max_page_count = 1000000")
    gallery.enroll("Ada", rows[kept], key=str(kept))
    assert gallery.info().size == kept + 1
    assert gallery.verify() == []


def test_a_backup_that_cannot_be_read_back_is_none(
    gallery: Gallery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gallery.enroll("Ada", units(1)[0])
    monkeypatch.setattr(
        "hypersphere.recognition.gallery.sqlite.SqliteGallery.verify", lambda _: [Damage("template", "")]
    )
    with pytest.raises(Failure, match="not what was written"):
        gallery.backup(tmp_path / "copy.db")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["people.db", "people.db-shm", "people.db-wal"]


def test_a_damaged_backup_is_not_restored(path: Path, tmp_path: Path) -> None:
    records = fill(path, 10)
    flip(path, path.read_bytes().index(records[3].vector), 0)
    for _ in range(2):  # the first check has quarantined the row: it is still missing
        with pytest.raises(Failure, match="1 damaged"):
            restore_gallery(path, tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()


def test_many_removals_make_the_memory_anew(gallery: Gallery) -> None:
    rows = units(20)
    for number, row in enumerate(rows):
        gallery.enroll(f"p{number}", row)
    gallery.search(rows[:1])
    for number in range(15):
        gallery.forget(f"p{number}")
    assert gallery._memory._size < 20  # type: ignore[attr-defined]
    assert {each.subject for each in gallery.search(rows[:1], 20)[0]} == {f"p{number}" for number in range(15, 20)}


def _enrol_until_killed(path: Path, start: int, acknowledged: int) -> None:
    with opened(path) as gallery:
        for number in range(start, start + 100_000):
            gallery.enroll(f"p{number}", units(1, number)[0], key=f"{number:08}")
            os.write(acknowledged, f"{number:08}\n".encode())


def kill_while_enrolling(path: Path, rounds: int) -> int:
    """Kill a process that enrols, again and again; returns how many enrolments were acknowledged, all of them there."""
    context = multiprocessing.get_context("fork")
    draw = np.random.default_rng(0)
    acknowledged: list[str] = []
    for number in range(rounds):
        reader, writer = os.pipe()
        process = context.Process(target=_enrol_until_killed, args=(path, number * 100_000, writer))
        process.start()
        os.close(writer)
        os.read(reader, 9)
        acknowledged.append(f"{number * 100_000:08}")
        time.sleep(float(draw.uniform(0, 0.02)))
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        with os.fdopen(reader, "rb") as pipe:
            acknowledged += pipe.read().decode().split()
        with opened(path) as gallery:
            stored = {record.id for record in gallery.records()}
            assert gallery.verify() == []
        assert stored >= set(acknowledged)
        assert len(stored) <= len(acknowledged) + number + 1, "at most the one that was not yet acknowledged is more"
    return len(acknowledged)


@pytest.mark.parametrize("rounds", [5, pytest.param(1000, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])])
def test_kills_lose_nothing_that_was_acknowledged(path: Path, rounds: int) -> None:
    open_gallery(path, contract=CONTRACT, create=True).close()
    assert kill_while_enrolling(path, rounds) >= rounds


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_eight_processes_with_500_enrolments(path: Path) -> None:
    open_gallery(path, contract=CONTRACT, create=True).close()
    write_at_once(str(path), 8, 500)
    with opened(path) as gallery:
        assert gallery.info().size == 4001
        assert gallery.verify() == []


def test_many_processes_make_one_gallery(path: Path) -> None:
    context = multiprocessing.get_context("fork")
    running = [context.Process(target=_make, args=(path, number)) for number in range(4)]
    for process in running:
        process.start()
    for process in running:
        process.join()
    with opened(path) as gallery:
        assert gallery.subjects() == ["p0", "p1", "p2", "p3"]
    assert sorted(each.name for each in path.parent.iterdir()) == ["people.db"]


def _make(path: Path, number: int) -> None:
    with open_gallery(path, contract=CONTRACT, create=True) as gallery:
        gallery.enroll(f"p{number}", units(1, number)[0])


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="no strace")
def test_every_acknowledged_enrolment_was_synced(path: Path, tmp_path: Path) -> None:
    """Between two acknowledgements the log is synced at least once."""
    open_gallery(path, contract=CONTRACT, create=True).close()
    program = (
        "import os, sys; from pathlib import Path; from tests.recognition.gallery.people import *\n"
        "with open_gallery(sys.argv[1], contract=CONTRACT) as gallery:\n"
        "    for number, row in enumerate(units(20)):\n"
        "        gallery.enroll('Ada', row)\n"
        "        os.write(1, b'acknowledged')\n"
    )
    log = tmp_path / "calls"
    command = ["strace", "-f", "-o", str(log), "-e", "trace=fsync,fdatasync,write", sys.executable, "-c", program]
    subprocess.run([*command, str(path)], check=True, capture_output=True, env={**os.environ, "PYTHONPATH": "src:."})
    calls = log.read_text().splitlines()
    ends = [number for number, call in enumerate(calls) if 'write(1, "acknowledged"' in call]
    assert len(ends) == 20
    for before, after in zip([0, *ends], ends, strict=False):
        assert any("sync(" in call for call in calls[before:after])
