"""The contract of galleries, on every engine."""

import dataclasses
import multiprocessing
import time
import unicodedata
from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest

from hypersphere.recognition.gallery import (
    DuplicateTemplate,
    GalleryMismatch,
    contract_digest,
    open_gallery,
    restore_gallery,
)
from hypersphere.recognition.gallery.stored_template import Record, packed
from tests.recognition.gallery.people import CONTRACT, DIM, Made, units

Form = Literal["NFC", "NFD"]


def enroll(made: Made, count: int, seed: int = 0) -> np.ndarray:
    """Two templates for each person, with keys of their own."""
    rows = units(count, seed)
    for number, row in enumerate(rows):
        made.gallery.enroll(f"person {number // 2}", row, key=f"k{seed}-{number:03}")
    return rows


def test_search_returns_the_nearest_templates_in_order(made: Made) -> None:
    rows, probes = enroll(made, 40), units(5, 1)
    stored = rows.astype(np.float16).astype(np.float64)
    for found, probe in zip(made.gallery.search(probes, 7), probes, strict=True):
        scores = stored @ probe.astype(np.float64)
        best = np.argsort(-scores)[:7]
        assert [each.template_id for each in found] == [f"k0-{number:03}" for number in best]
        assert [each.subject for each in found] == [f"person {number // 2}" for number in best]
        np.testing.assert_allclose([each.score for each in found], scores[best], rtol=0, atol=1e-4)
        assert all(type(each.score) is float for each in found)


def test_fewer_templates_than_asked_for(made: Made) -> None:
    assert made.gallery.search(units(2), 3) == [[], []]
    enroll(made, 2)
    assert [len(found) for found in made.gallery.search(units(2), 30)] == [2, 2]
    assert made.gallery.search(units(0), 3) == []


def test_ties_go_to_the_lowest_template_id(made: Made) -> None:
    row = units(1)[0]
    for key in ("m", "b", "z", "a", "é", "B", "k"):
        made.gallery.enroll(f"subject of {key}", row, key=key)
    [found] = made.gallery.search(row[None], 4)
    assert [each.template_id for each in found] == ["B", "a", "b", "k"]
    assert len({each.score for each in found}) == 1
    assert found[0].score == pytest.approx(1, abs=1e-3)
    assert found[0].score <= 1


def test_new_ids_are_unique_and_rise(made: Made) -> None:
    ids = [made.gallery.enroll("Ada", row) for row in units(5)]
    assert len(set(ids)) == 5
    assert ids == sorted(ids)


def test_a_key_is_enrolled_once(made: Made) -> None:
    row = units(1)[0]
    ids = {made.gallery.enroll("Ada", row, key="first", metadata={"site": "x"}) for _ in range(100)}
    assert ids == {"first"}
    assert made.gallery.info().size == 1
    assert [entry.action for entry in made.gallery.audit()] == ["enroll"]


def test_the_audit_trail_names_the_one_that_was_new(made: Made) -> None:
    records = [Record(id=f"k{number}", subject=f"p{number}", vector=packed(row)) for number, row in enumerate(units(5))]
    made.gallery.store(records[::4], "enroll")
    made.gallery.store(records[:3:2] + records[4:], "enroll")
    made.gallery.store(records, "enroll")
    made.gallery.store(records, "enroll")
    told = [(entry.subject, entry.detail) for entry in made.gallery.audit()]
    assert told == [("", "2 templates"), ("p2", "k2"), ("", "2 templates")]


def test_a_key_of_another_template_is_refused(made: Made) -> None:
    rows = units(2)
    made.gallery.enroll("Ada", rows[0], key="first")
    for subject, row, options in (
        ("Bob", rows[0], {}),
        ("Ada", rows[1], {}),
        ("Ada", rows[0], {"metadata": {"site": "x"}}),
        ("Ada", rows[0], {"expires": time.time() + 100}),
        ("Ada", rows[0], {"consent": "all"}),
    ):
        with pytest.raises(DuplicateTemplate, match="'first'"):
            made.gallery.enroll(subject, row, key="first", **options)
    assert made.gallery.info().size == 1


@pytest.mark.parametrize(
    ("template", "words"),
    [
        (np.full(DIM, np.nan, np.float32), "not finite"),
        (np.full(DIM, np.inf, np.float32), "not finite"),
        (np.ones(DIM, np.float32), "norm 4"),
        (np.zeros(DIM, np.float32), "norm 0"),
        (units(1, dim=DIM + 1)[0], f"rows of {DIM} numbers"),
        (units(2), f"rows of {DIM} numbers"),
        (np.ones(DIM, np.int64), "floating-point"),
        (np.array(["x"] * DIM), "floating-point"),
    ],
)
def test_what_is_no_unit_vector_is_never_enrolled(made: Made, template: np.ndarray, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        made.gallery.enroll("Ada", template)
    if template.ndim == 1:
        with pytest.raises(ValueError, match=words):
            made.gallery.search(template[None])
    assert made.gallery.info().size == 0
    assert made.gallery.audit() == []


def test_words_are_checked(made: Made) -> None:
    row = units(1)[0]
    for subject in ("", "a\nb", "x" * 201, 3, "\ud800"):
        with pytest.raises(ValueError, match="subject="):
            made.gallery.enroll(subject, row)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="key="):
        made.gallery.enroll("Ada", row, key="")
    with pytest.raises(ValueError, match="metadata: the key 'a b'"):
        made.gallery.enroll("Ada", row, metadata={"a b": "x"})
    with pytest.raises(ValueError, match="metadata\\['a'\\]=3"):
        made.gallery.enroll("Ada", row, metadata={"a": 3})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="expires=nan"):
        made.gallery.enroll("Ada", row, expires=float("nan"))
    with pytest.raises(ValueError, match="where: the key"):
        made.gallery.search(row[None], where={"a') OR 1=1 --": "x"})
    assert made.gallery.info().size == 0


@pytest.mark.parametrize(
    "name", ["Zoë '; DROP TABLE templates; --", '<img src=x onerror="alert(1)">', "名前 🙂", "%s $1 {x}"]
)
def test_any_name_is_only_a_name(made: Made, name: str) -> None:
    row = units(1)[0]
    made.gallery.enroll(name, row, key=name, metadata={"note": name}, consent=name)
    [[found]] = made.gallery.search(row[None], where={"note": name})
    assert (found.subject, found.template_id) == (name, name)
    assert made.gallery.search(row[None], where={"note": "other"}) == [[]]
    assert made.gallery.subjects() == [name]
    assert made.gallery.forget(name) == 1


def test_forgotten_people_are_not_found(made: Made) -> None:
    rows = enroll(made, 8)
    other = made.open()
    assert other.search(rows[:1], 1)[0][0].subject == "person 0"
    assert made.gallery.forget("person 0") == 2
    assert made.gallery.forget("person 0") == 0
    assert made.gallery.forget("nobody") == 0
    for gallery in (made.gallery, other):
        found = {each.subject for each in gallery.search(rows[:1], 8)[0]}
        assert found == {"person 1", "person 2", "person 3"}
    assert made.gallery.info().size == 6
    assert made.gallery.subjects() == ["person 1", "person 2", "person 3"]
    made.gallery.enroll("person 0", rows[0], key="k0-000")
    assert other.search(rows[:1], 1)[0][0].subject == "person 0"


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_name_is_one_name_however_its_accents_are_written(made: Made, form: Form) -> None:
    rows = units(2)
    made.gallery.enroll(unicodedata.normalize("NFC", "Zoë Müller"), rows[0])
    made.gallery.enroll(unicodedata.normalize("NFD", "Zoë Müller"), rows[1])
    assert made.gallery.subjects() == [unicodedata.normalize("NFC", "Zoë Müller")]
    old = Record(id="old", subject=unicodedata.normalize("NFD", "Zoë Müller"), vector=packed(rows[0]))
    made.gallery.store([old], "enroll")
    assert made.gallery.forget(unicodedata.normalize(form, "Zoë Müller")) == 3
    assert made.gallery.subjects() == []


def test_names_and_consent_are_not_blank(made: Made) -> None:
    row = units(1)[0]
    for act in (
        lambda: made.gallery.enroll(" ", row),
        lambda: made.gallery.enroll("Ada", row, consent="  "),
        lambda: made.gallery.enroll("Ada", row, key=" "),
    ):
        with pytest.raises(ValueError, match="is blank"):
            act()
    assert made.gallery.size() == 0


def test_a_page_of_names(made: Made) -> None:
    enroll(made, 12)
    names = [f"person {number}" for number in range(6)]
    assert made.gallery.subjects(limit=2) == names[:2]
    assert made.gallery.subjects(after="person 3", limit=5) == names[4:]
    assert made.gallery.subjects(after="person 1") == names[2:]


def test_single_templates(made: Made) -> None:
    rows = enroll(made, 4)
    assert [record.id for record in made.gallery.templates("person 0")] == ["k0-000", "k0-001"]
    assert made.gallery.templates("nobody") == []
    assert made.gallery.forget_template("k0-000")
    assert not made.gallery.forget_template("k0-000")
    assert [record.id for record in made.gallery.templates("person 0")] == ["k0-001"]
    assert made.gallery.search(rows[:1], 1)[0][0].template_id != "k0-000"
    assert made.gallery.audit()[-1].action == "forget"


def test_many_templates_at_once(made: Made) -> None:
    rows = units(2500)
    names = [f"p{number % 7}" for number in range(2500)]
    keys = [f"k{number:04}" for number in range(2500)]
    assert made.gallery.enroll_many(names, rows, keys=keys, consent="yes", expires=4e9) == keys
    assert made.gallery.enroll_many(names, rows, keys=keys, consent="yes", expires=4e9) == keys
    assert made.gallery.size() == 2500
    found = made.gallery.search(rows[::500], 1)
    assert [candidates[0].template_id for candidates in found] == keys[::500]
    assert [entry.detail for entry in made.gallery.audit()] == ["2500 templates"]
    assert len(set(made.gallery.enroll_many(["new"] * 3, units(3, 5)))) == 3
    for act in (
        lambda: made.gallery.enroll_many(["a"], units(2)),
        lambda: made.gallery.enroll_many(["a", "b"], units(2), keys=["x"]),
        lambda: made.gallery.enroll_many(["a", ""], units(2)),
        lambda: made.gallery.enroll_many(["a", "b"], 2 * units(2)),
    ):
        with pytest.raises(ValueError, match=r"expected as many|subjects\[1\]|unit vectors"):
            act()
    assert made.gallery.size() == 2503


def test_filter(made: Made) -> None:
    rows = units(12)
    for number, row in enumerate(rows):
        metadata = {"site": "north" if number % 3 else "south", "floor": str(number % 2)}
        made.gallery.enroll(f"p{number}", row, key=f"{number:02}", metadata=metadata)
    [found] = made.gallery.search(rows[:1], 12, where={"site": "south"})
    assert sorted(each.template_id for each in found) == ["00", "03", "06", "09"]
    [found] = made.gallery.search(rows[:1], 12, where={"site": "south", "floor": "1"})
    assert sorted(each.template_id for each in found) == ["03", "09"]
    assert made.gallery.search(rows[:1], where={"house": "1"}) == [[]]


def test_expired_templates_match_nothing_and_are_purged(made: Made) -> None:
    rows, now = units(3), time.time()
    made.gallery.enroll("gone", rows[0], key="a", expires=now - 1)
    made.gallery.enroll("going", rows[1], key="b", expires=now + 0.3)
    made.gallery.enroll("staying", rows[2], key="c", expires=now + 1000)
    time.sleep(max(0.0, now + 0.35 - time.time()))
    assert {each.subject for each in made.gallery.search(rows, 3)[0]} == {"staying"}
    info = made.gallery.info()
    assert (info.size, info.expired, info.subjects) == (1, 2, 1)
    assert made.gallery.subjects() == ["staying"]
    assert made.gallery.purge() == 2
    assert made.gallery.purge() == 0
    assert made.gallery.info().expired == 0
    assert [entry.action for entry in made.gallery.audit()][-1] == "purge"


def test_other_processes_see_what_was_acknowledged(made: Made) -> None:
    other = made.open()
    rows = units(6)
    for number, row in enumerate(rows):
        writer, reader = (made.gallery, other) if number % 2 else (other, made.gallery)
        writer.enroll(f"p{number}", row)
        assert reader.search(row[None], 1)[0][0].subject == f"p{number}"


def test_reopened(made: Made) -> None:
    rows = enroll(made, 6)
    before = made.gallery.search(rows, 3)
    made.gallery.close()
    again = made.open()
    assert again.search(rows, 3) == before
    assert again.info().size == 6
    assert [entry.action for entry in again.audit()] == ["enroll"] * 6


def test_another_contract_is_refused(made: Made) -> None:
    enroll(made, 2)
    for change, words in (
        ({"digest": "fedcba9876543210"}, "digest '0123456789abcdef' and not 'fedcba9876543210'"),
        ({"alignment": "sphereface-112x96"}, "alignment 'insightface-112' and not 'sphereface-112x96'"),
        ({"dim": DIM * 2}, "dim 16 and not 32"),
        ({"flip": "sum"}, "flip 'none' and not 'sum'"),
    ):
        other = dataclasses.replace(CONTRACT, **change)
        for create in (False, True):
            with pytest.raises(GalleryMismatch, match=words):
                made.open(contract=other, create=create)


def test_without_a_contract_it_can_only_be_looked_at(made: Made) -> None:
    rows = enroll(made, 2)
    looked = made.open(contract=None)
    info = looked.info()
    assert (info.size, info.subjects, info.dim, info.quarantined) == (2, 1, DIM, 0)
    assert info.contract_digest == contract_digest(CONTRACT)
    assert info.contract == CONTRACT.table()
    assert (info.index, info.miss_rate) == ("exact", 0)
    assert looked.verify() == []
    for act in (lambda: looked.enroll("Ada", rows[0]), lambda: looked.search(rows)):
        with pytest.raises(ValueError, match="opened without a contract"):
            act()


def test_no_such_gallery(new_address: Callable[[], str]) -> None:
    for contract in (None, CONTRACT):
        with pytest.raises(ValueError, match="no such gallery"):
            open_gallery(new_address(), contract=contract)
    with pytest.raises(ValueError, match="create=True needs the contract"):
        open_gallery(new_address(), create=True)
    for lacking in ({"dim": 0}, {"digest": ""}):
        with pytest.raises(ValueError, match="needs one with dim and digest"):
            open_gallery(new_address(), contract=dataclasses.replace(CONTRACT, **lacking), create=True)


def test_backup_and_restore(made: Made, new_address: Callable[[], str], tmp_path: object) -> None:
    rows = enroll(made, 9)
    made.gallery.enroll("late", rows[0], key="late", expires=1.0, consent="c", metadata={"a": "b"})
    path = f"{tmp_path}/copy.db"
    assert made.gallery.backup(path) == 10
    with pytest.raises(ValueError, match="exists already"):
        made.gallery.backup(path)
    before = made.gallery.search(rows, 9), list(made.gallery.records())
    target = new_address()
    assert restore_gallery(path, target) == 10
    with open_gallery(target, contract=CONTRACT) as again:
        assert [[each.template_id for each in found] for found in again.search(rows, 9)] == [
            [each.template_id for each in found] for found in before[0]
        ]
        assert list(again.records()) == before[1]
        assert "enroll" in {entry.action for entry in again.audit()}
    with pytest.raises(ValueError, match=r"exists already|holds templates already"):
        restore_gallery(path, target)


def _write(address: str, process: int, count: int, results: "multiprocessing.Queue[list[float]]") -> None:
    taken = []
    with open_gallery(address, contract=CONTRACT) as gallery:
        for number, row in enumerate(units(count, process)):
            start = time.perf_counter()
            gallery.enroll(f"p{process}", row, key=f"{process}-{number}")
            gallery.enroll("shared", units(1, 99)[0], key="shared")
            taken.append(time.perf_counter() - start)
    results.put(taken)


def write_at_once(address: str, processes: int, count: int) -> list[float]:
    """Enrol from several processes at once; returns seconds of each pair of enrolments."""
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    running = [context.Process(target=_write, args=(address, process, count, results)) for process in range(processes)]
    for process in running:
        process.start()
    taken = [seconds for _ in running for seconds in results.get(timeout=250)]
    for process in running:
        process.join()
        assert process.exitcode == 0
    return taken


def test_eight_processes_write_at_once(made: Made) -> None:
    made.gallery.close()
    write_at_once(made.address, 8, 5)
    gallery = made.open()
    assert gallery.info().size == 8 * 5 + 1
    assert sorted(record.id for record in gallery.records()) == sorted(
        ["shared", *(f"{process}-{number}" for process in range(8) for number in range(5))]
    )
    assert gallery.search(units(1, 3), 1)[0][0].template_id == "3-0"
    assert gallery.verify() == []
