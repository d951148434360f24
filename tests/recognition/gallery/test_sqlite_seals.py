"""What only whoever has the key can do to a gallery, and what it says of an audit trail that was cut."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from hypersphere.recognition.gallery import Damage, GalleryDamaged, open_gallery, restore_gallery
from hypersphere.recognition.gallery.seals import KEY_FILE, Seals, sum_of
from hypersphere.recognition.gallery.stored_template import text_digest
from tests.recognition.gallery.people import CONTRACT, units


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "people.db"


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "key"
    file.write_bytes(bytes(range(32)))
    monkeypatch.setenv(KEY_FILE, str(file))
    return file


def fill(path: Path, people: int = 4) -> None:
    with open_gallery(path, contract=CONTRACT, create=True) as gallery:
        for number, row in enumerate(units(people)):
            gallery.enroll(f"p{number}", row, key=f"k{number}")


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as plain:
        for statement in statements:
            plain.execute(statement)
        plain.commit()


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("DELETE FROM templates WHERE seq = 2", "not all templates"),
        ("INSERT INTO templates SELECT 9, id || 'x', subject, vector, metadata, consent, enrolled, expires, digest "
         "FROM templates WHERE seq = 2", "1 damaged template"),
        ("UPDATE state SET templates = 3", "says of itself is damaged"),
        ("UPDATE state SET changes = changes + 1", "says of itself is damaged"),
        ("DELETE FROM state", "says of itself is damaged"),
    ],
)  # fmt: skip
def test_rows_that_came_or_went_otherwise_are_noticed(path: Path, statement: str, words: str) -> None:
    fill(path)
    change(path, statement)
    with open_gallery(path, contract=CONTRACT) as gallery:
        for act in (lambda: gallery.search(units(1)), lambda: gallery.forget("p0"), gallery.size):
            with pytest.raises(GalleryDamaged, match=words):
                act()


@pytest.mark.parametrize("number", ["1", "NULL", "x'00'"])
def test_an_open_gallery_does_not_believe_removals_that_were_not_recorded(path: Path, number: str) -> None:
    fill(path)
    with open_gallery(path, contract=CONTRACT) as gallery, open_gallery(path, contract=CONTRACT) as other:
        assert gallery.search(units(1), 1)[0][0].subject == "p0"
        other.forget("p1")
        change(
            path,
            "ALTER TABLE removed RENAME TO before",
            "CREATE TABLE removed (n INTEGER PRIMARY KEY, seq INTEGER)",
            f"INSERT INTO removed SELECT n, {number} FROM before",
        )
        assert gallery.search(units(1), 1)[0][0].subject == "p0"
        assert gallery.subjects() == ["p0", "p2", "p3"]


@pytest.mark.parametrize(
    ("statements", "names"),
    [
        (["UPDATE audit SET subject = 'x' WHERE n = 2"], ["2"]),
        (["DELETE FROM audit WHERE n = 2"], ["3", "end (3 of 4 entries)"]),
        (["DELETE FROM audit WHERE n = 4"], ["end (3 of 4 entries)"]),
        (["DELETE FROM audit"], ["end (0 of 4 entries)"]),
        ([f"UPDATE audit SET n = {new} WHERE n = {old}" for old, new in ((1, 9), (2, 1), (9, 2))], ["1", "2", "3"]),
    ],
)  # fmt: skip
def test_an_entry_that_was_changed_moved_or_deleted_shows(path: Path, statements: list[str], names: list[str]) -> None:
    fill(path)
    change(path, *statements)
    with open_gallery(path) as gallery:
        assert gallery.verify() == [Damage("audit", name) for name in names]


def test_the_key_is_needed(path: Path, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(path)
    with open_gallery(path, contract=CONTRACT) as gallery:
        assert gallery.search(units(1), 1)[0][0].subject == "p0"
        gallery.backup(tmp_path / "copy.db")
    key.write_bytes(bytes(32))
    with pytest.raises(ValueError, match="sealed with another key"):
        open_gallery(path)
    monkeypatch.delenv(KEY_FILE)
    for file in (path, tmp_path / "copy.db"):
        with pytest.raises(ValueError, match=f"{file.name}: sealed with another key .set {KEY_FILE}"):
            open_gallery(file)


def test_a_gallery_without_a_key_is_no_gallery_of_whoever_has_one(path: Path, request: pytest.FixtureRequest) -> None:
    fill(path)
    request.getfixturevalue("key")
    with pytest.raises(ValueError, match="made without a key.*gallery restore"):
        open_gallery(path)
    sealed = path.with_name("sealed.db")
    assert restore_gallery(path, sealed) == 4
    with open_gallery(sealed, contract=CONTRACT) as gallery:
        assert gallery.search(units(1), 1)[0][0].subject == "p0"


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda key: key.write_bytes(bytes(31)), "has 31 bytes; a key of galleries needs at least 32"),
        (lambda key: key.unlink(), "the key of galleries cannot be read"),
    ],
)
def test_a_key_that_is_none(path: Path, key: Path, damage: Callable[[Path], object], words: str) -> None:
    damage(key)
    with pytest.raises(ValueError, match=f"{KEY_FILE}=.*{words}"):
        fill(path)
    assert not path.exists()


def test_seals_hang_on_gallery_number_and_purpose() -> None:
    seals, others, keyed = Seals("a", b""), Seals("b", b""), Seals("a", b"k" * 64)
    made = {each.template(number, b"x") for each in (seals, others, keyed) for number in (1, 2)}
    assert len(made) == 6
    assert seals.state((1,)) != seals.entry(1, b"", ())
    total = sum_of(share for _, share in made)
    for changes in (0, 1):
        assert seals.unpadded(seals.padded(total, changes), changes) == total
    assert seals.padded(total, 0) != seals.padded(total, 1)


@pytest.mark.parametrize("document", ["{}", "[]", '{"contract": 5}', '{"contract": {}}', '{"contract": {"dim": 4}}'])
def test_forged_settings_are_damaged_settings(path: Path, document: str) -> None:
    fill(path)
    with closing(sqlite3.connect(path)) as plain:
        plain.execute("UPDATE settings SET document = ?, digest = ?", (document, text_digest(document)))
        plain.commit()
    with pytest.raises((GalleryDamaged, ValueError), match=r"people\.db: .*(settings|input_size|contract)"):
        open_gallery(path, contract=CONTRACT)
