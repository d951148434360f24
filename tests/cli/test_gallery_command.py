"""`hypersphere gallery`: what it prints, writes and refuses."""

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from hypersphere.cli import main
from hypersphere.recognition import contract_digest, open_gallery
from hypersphere.recognition.gallery.driver import IndexCheck
from hypersphere.recognition.gallery.sqlite import SqliteGallery
from tests.recognition.gallery.people import CONTRACT, units


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = units(4)
    with open_gallery("people.db", contract=CONTRACT, create=True) as gallery:
        gallery.enroll("Ada", rows[0], key="a")
        gallery.enroll("Ada", rows[1], key="b")
        gallery.enroll("Bob", rows[2], key="c", expires=time.time() - 5)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    assert main(["gallery", *words]) == status
    told = capsys.readouterr()
    return told.out if status == 0 or told.out else told.err


@pytest.mark.usefixtures("place")
def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    told = run(capsys, "info", "people.db")
    assert "templates    2 of 1 person, 16 numbers each" in told
    assert "expired      1" in told
    assert "search       exact" in told
    assert contract_digest(CONTRACT) in told
    info = json.loads(run(capsys, "info", "people.db", "--json"))["info"]
    assert (info["size"], info["contract"]["dim"], info["engine"]) == (2, 16, "sqlite")


def test_verify_quarantines_and_says_so(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "verify", "people.db") == "whole: 3 templates\n"
    data = bytearray((place / "people.db").read_bytes())
    data[data.index(units(1)[0].astype("<f2").tobytes())] ^= 4
    (place / "people.db").write_bytes(data)
    assert run(capsys, "verify", "people.db", status=1) == "damaged template a (quarantined)\n"
    assert "quarantined  1" in run(capsys, "info", "people.db")
    assert run(capsys, "purge", "people.db") == "removed 1 expired template and 1 row in quarantine\n"


def test_backup_and_restore(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "backup", "people.db", "copy.db").startswith("3 templates in copy.db")
    assert "exists already" in run(capsys, "backup", "people.db", "copy.db", status=2)
    assert run(capsys, "restore", "copy.db", "again.db") == "3 templates in again.db\n"
    assert "exists already" in run(capsys, "restore", "copy.db", "again.db", status=2)
    with open_gallery("again.db", contract=CONTRACT) as gallery:
        assert gallery.search(units(1), 1)[0][0].subject == "Ada"
    assert "no such gallery" in run(capsys, "restore", "none.db", "new.db", status=2)
    assert not (place / "new.db").exists()


@pytest.mark.usefixtures("place")
def test_a_backup_in_the_place_of_what_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "backup", "people.db", "copy.db")
    run(capsys, "remove", "people.db", "a")
    assert run(capsys, "restore", "copy.db", "people.db", "--replace") == "3 templates in people.db\n"
    assert "templates    2 of 1 person" in run(capsys, "info", "people.db")


@pytest.mark.usefixtures("place")
def test_single_templates(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, "templates", "people.db", "Ada").splitlines()
    assert [line.split()[0] for line in lines] == ["a", "b"]
    assert ", until 20" in run(capsys, "templates", "people.db", "Bob")
    assert run(capsys, "remove", "people.db", "a") == "removed the template a\n"
    assert "there is no template 'a'" in run(capsys, "remove", "people.db", "a", status=2)
    table = json.loads(run(capsys, "templates", "people.db", "Ada", "--json"))["templates"]
    assert [(each["id"], each["subject"]) for each in table] == [("b", "Ada")]
    assert "vector" not in table[0]
    assert main(["gallery", "templates", "people.db", "Nobody"]) == 0


@pytest.mark.usefixtures("place")
def test_purge_and_audit(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "purge", "people.db") == "removed 1 expired template and 0 rows in quarantine\n"
    assert run(capsys, "purge", "people.db") == "removed 0 expired templates and 0 rows in quarantine\n"
    lines = run(capsys, "audit", "people.db").splitlines()
    assert [line.split()[2] for line in lines] == ["enroll", "enroll", "enroll", "purge"]
    assert lines[0].endswith("enroll   Ada  a")
    entries = json.loads(run(capsys, "audit", "people.db", "--last", "1", "--json"))["entries"]
    assert [entry["action"] for entry in entries] == ["purge"]


@pytest.mark.parametrize("wrong", [1e300, -1e300, 1e18])
def test_audit_shows_the_trail_around_an_entry_of_no_date(
    place: Path, capsys: pytest.CaptureFixture[str], wrong: float
) -> None:
    with closing(sqlite3.connect(place / "people.db")) as file, file:
        file.execute("UPDATE audit SET time = ? WHERE n = 2", (wrong,))
    lines = run(capsys, "audit", "people.db").splitlines()
    assert [line.split()[-1] for line in lines] == ["a", "b", "c"]
    assert lines[1].startswith(f"damaged: {wrong}  enroll")


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["info", "none.db"], 2, "none.db: there is no such gallery"),
        (["info", "people"], 2, "no address of a gallery"),
        (["info", "milvus://127.0.0.1:1/people"], 1, "does not answer"),
    ],
)
def test_what_cannot_be_done(capsys: pytest.CaptureFixture[str], words: list[str], status: int, told: str) -> None:
    if "milvus" in words[1]:
        pytest.importorskip("pymilvus")
    assert told in run(capsys, *words, status=status)


def test_an_approximate_index_needs_a_server(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(place / "probes.npy", units(3))
    told = run(capsys, "approximate", "people.db", "probes.npy", status=2)
    assert "sqlite searches exactly, without an index" in told
    assert run(capsys, "exact", "people.db") == "search       exact\n"


def test_an_approximate_index_by_command(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        SqliteGallery, "use_approximate", lambda _, probes: IndexCheck(100, misses=1, probes=len(probes), size=3)
    )
    np.save(place / "probes.npy", units(2000))
    told = run(capsys, "approximate", "people.db", "probes.npy")
    assert told.startswith("misses 1 of 2,000 best matches at ef_search 100")
    document = json.loads(run(capsys, "approximate", "people.db", "probes.npy", "--json"))
    assert (document["check"]["effort"], document["miss_rate"]) == (100, 0.0005)
