"""Galleries on servers under faults: a server that is not there, one that is killed, rows that somebody has changed."""

import socket
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from hypersphere.core import Failure
from hypersphere.recognition.gallery import Damage, Gallery, GalleryUnavailable, open_gallery, server_gallery
from hypersphere.recognition.gallery import milvus as milvus_gallery
from hypersphere.recognition.gallery import postgres as postgres_gallery
from hypersphere.recognition.gallery.addresses import without_password
from hypersphere.recognition.gallery.rescoring import Near, exact_top
from hypersphere.recognition.gallery.stored_template import Record, packed
from tests.recognition.gallery.people import CONTRACT, DIM, units
from tests.recognition.gallery.servers import Milvus, Postgres, Server


@pytest.fixture(params=["postgres", "milvus"])
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


def refused(act: Callable[[], object]) -> None:
    """A call says that the engine does not answer."""
    with pytest.raises(GalleryUnavailable, match="does not answer"):
        act()


def test_nobody_waits_for_a_server_for_more_than_two_seconds() -> None:
    assert max(postgres_gallery._CONNECT_SECONDS, milvus_gallery._CONNECT_SECONDS) <= 2


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    pytest.importorskip("pymilvus")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for address in (
        f"postgresql:///people?host={tmp_path}",
        f"postgresql://user:secret@127.0.0.1:{port}/people",
        f"milvus://user:secret@127.0.0.1:{port}/people",
    ):
        refused(partial(open_gallery, address, contract=CONTRACT, create=True))
        with pytest.raises(GalleryUnavailable) as caught:
            open_gallery(address, contract=CONTRACT)
        assert "secret" not in str(caught.value)


def test_a_killed_server_is_no_missing_match_and_loses_nothing(server: Server) -> None:
    rows = units(4)
    with open_gallery(server.address_of("killed"), contract=CONTRACT, create=True) as gallery:
        for number, row in enumerate(rows[:3]):
            gallery.enroll(f"p{number}", row, key=f"k{number}")
        server.kill()
        try:
            for act in (lambda: gallery.search(rows), lambda: gallery.enroll("late", rows[3]), gallery.info):
                refused(act)
        finally:
            server.start()
        assert [found[0].subject for found in gallery.search(rows[:3], 1)] == ["p0", "p1", "p2"]
        gallery.enroll("late", rows[3], key="late")
        assert gallery.info().size == 4


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_milvus_does_not_hang_up_on_a_quiet_client(milvus: Server, capfd: pytest.CaptureFixture[str]) -> None:
    with open_gallery(milvus.address_of("quiet"), contract=CONTRACT, create=True) as gallery:
        gallery.enroll("ada", units(1)[0])
        time.sleep(200)
        assert gallery.info().size == 1
    assert "too_many_pings" not in capfd.readouterr().err


def change(server: Server, gallery: Gallery, column: str) -> None:
    """Change the row of template k1 behind the gallery's back."""
    if isinstance(server, Postgres):
        import psycopg

        values = {"subject": "'Eve'", "vector": f"(SELECT vector FROM {gallery._name}.templates WHERE id = 'k2')"}  # type: ignore[attr-defined]
        with psycopg.connect(server.address) as sql:
            sql.execute(f"UPDATE {gallery._name}.templates SET {column} = {values[column]} WHERE id = 'k1'")  # type: ignore[attr-defined]
    else:
        client = gallery._client  # type: ignore[attr-defined]
        [row] = [
            row
            for row in client.query(gallery._name, filter='id != ""', output_fields=["*", "vector"])  # type: ignore[attr-defined]
            if '"k1"' in row["document"]
        ]
        new = {"subject": {"document": row["document"].replace("p1", "Eve")}, "vector": {"vector": units(3)[2]}}
        client.upsert(gallery._name, [{**row, **new[column]}])  # type: ignore[attr-defined]


@pytest.mark.parametrize("column", ["subject", "vector"])
def test_a_row_that_was_changed_matches_nothing_and_is_quarantined(server: Server, column: str) -> None:
    rows = units(3)
    with open_gallery(server.address_of(f"changed_{column}"), contract=CONTRACT, create=True) as gallery:
        for number, row in enumerate(rows):
            gallery.enroll(f"p{number}", row, key=f"k{number}")
        change(server, gallery, column)
        with pytest.warns(RuntimeWarning, match="1 damaged template left out"):
            [found] = gallery.search(rows[:1], 3)
        assert {each.template_id for each in found} == {"k0", "k2"}
        [damage] = gallery.verify()
        assert damage.kind == "template"
        assert isinstance(server, Milvus) or damage == Damage("template", "k1")
        assert gallery.verify() == []
        info = gallery.info()
        assert (info.size, info.quarantined) == (2, 1)
        gallery.enroll("p1", rows[1], key="k1")
        assert {each.template_id for each in gallery.search(rows[:1], 3)[0]} == {"k0", "k1", "k2"}
        gallery.purge()
        assert gallery.info().quarantined == 0


def test_more_rows_are_asked_for_until_the_answer_is_certain() -> None:
    """An engine whose scores are off by as much as it may be still gives the exact answer, ties by id included."""
    draw = np.random.default_rng(0)
    near = units(1) + 1e-3 * draw.normal(size=(300, DIM))
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    records = [
        Record(id=f"{number:03}", subject="s", vector=packed(row.astype(np.float32))) for number, row in enumerate(near)
    ]
    records += [Record(id=f"tie{number}", subject="s", vector=records[5].vector) for number in range(9, 0, -1)]
    probe = units(1)[0]
    stored = np.stack([np.frombuffer(record.vector, "<f2") for record in records]).astype(np.float64)
    exact = stored @ probe.astype(np.float64)
    rough = exact + draw.uniform(-1e-3, 1e-3, len(exact))
    order = np.argsort(-rough)
    asked = []

    def fetch(limit: int) -> list[Near]:
        asked.append(limit)
        return [Near(records[place], float(rough[place])) for place in order[:limit]]

    found = exact_top(fetch, probe, 10, off=1e-3, most=1000)
    best = sorted(range(len(records)), key=lambda place: (-exact[place].round(12), records[place].id))[:10]
    assert [each.template_id for each in found] == [records[place].id for place in best]
    assert len(asked) > 1


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("people", "no address of a gallery"),
        ("mysql://u:secret@h/x", "u:\\*\\*\\*@h"),
        ("postgresql://h/db#People", "must be up to 40"),
        ("postgresql://h/db#p;drop", "must be up to 40"),
        ("milvus:///x", "expected milvus://host:port/name"),
        ("milvus://h:x/x", "expected milvus://host:port/name"),
        ("milvus://h:1/A", "must be up to 40"),
    ],
)
def test_addresses_that_are_none(address: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        open_gallery(address, contract=CONTRACT)


def mates(rows: np.ndarray, cosine: float, seed: int) -> np.ndarray:
    """Unit vectors at this cosine from rows, in random directions."""
    draw = np.random.default_rng(seed).normal(size=rows.shape)
    draw -= (draw * rows).sum(axis=1, keepdims=True) * rows
    draw /= np.linalg.norm(draw, axis=1, keepdims=True)
    return (cosine * rows + np.sqrt(1 - cosine**2) * draw).astype(np.float32)


def filled(server: Server, name: str, count: int) -> tuple[Gallery, np.ndarray]:
    rows = units(count)
    gallery = open_gallery(server.address_of(name), contract=CONTRACT, create=True)
    records = [Record(id=f"{n:05}", subject=f"p{n}", vector=packed(row)) for n, row in enumerate(rows)]
    gallery.store(records, "enroll")
    return gallery, rows


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_an_approximate_index_is_used_after_a_check(
    server: Server, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_gallery, "LEAST_PROBES", count)
    gallery, rows = filled(server, f"approximate{count}", count + 20)
    with gallery:
        probes = mates(rows[:count], 0.95, 1)
        exact = gallery.search(probes[:20], 5)
        check = gallery.use_approximate(probes)
        assert check.probes == count
        assert check.size == count + 20
        assert check.miss_rate <= 1e-3
        info = gallery.info()
        assert info.index == f"hnsw, ef_search {check.effort}"
        assert (info.miss_rate, info.miss_probes) == (check.miss_rate, count)
        assert gallery.miss_rate() == check.miss_rate
        found = gallery.search(probes[:20], 5)
        assert [each[0].template_id for each in found] == [each[0].template_id for each in exact]
        gallery.enroll("late", mates(rows[:1], 0.99, 2)[0], key="late")
        assert gallery.search(mates(rows[:1], 0.99, 2), 1)[0][0].template_id == "late"
        gallery.use_exact()
        assert gallery.info().index == "exact"
        assert gallery.forget("late") == 1
        assert gallery.search(probes[:20], 5) == exact


def test_an_index_that_misses_is_not_used(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_gallery, "LEAST_PROBES", 20)
    gallery, rows = filled(server, "missing", 30)
    with gallery:
        probes = mates(rows, 0.9, 1)
        monkeypatch.setattr(type(gallery), "find_by_index", lambda _, probes, *rest: [[] for _ in probes])
        with pytest.raises(Failure, match="misses 30 of 30 best matches"):
            gallery.use_approximate(probes)
        with pytest.raises(ValueError, match="at least 20"):
            gallery.use_approximate(probes[:19])
        monkeypatch.undo()
        assert gallery.info().index == "exact"
        assert gallery.search(rows[:1], 1)[0][0].template_id == "00000"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://ada:secret@db/people#x", "postgresql://ada:***@db/people#x"),
        ("postgresql://ada:se@cret@db:5432/people", "postgresql://ada:***@db:5432/people"),
        ("postgresql://ada:se#cret@db/people", "postgresql://ada:***@db/people"),
        ("postgresql://ada:secret", "postgresql://ada:***"),
        ("postgresql://ada@db/x?password=secret&sslmode=require", "postgresql://ada@db/x?password=***&sslmode=require"),
        ("postgresql://ada@db/people?PASSWORD=secret#x", "postgresql://ada@db/people?PASSWORD=***#x"),
        ("milvus://root:secret@[::1", "milvus://root:***@[::1"),
        ("postgresql://db:5432/people", "postgresql://db:5432/people"),
        ("people.db", "people.db"),
    ],
)  # fmt: skip
def test_no_password_is_shown(address: str, shown: str) -> None:
    assert without_password(address) == shown


@pytest.mark.parametrize("address", ["postgresql://ada:se#cret@db/people", "postgresql://ada:se/cret@db/people"])
def test_an_address_that_cannot_be_read_shows_no_password(address: str) -> None:
    with pytest.raises((ValueError, Failure), match=r"ada:\*\*\*@db") as refused:
        open_gallery(address)
    assert "cret" not in str(refused.value)
