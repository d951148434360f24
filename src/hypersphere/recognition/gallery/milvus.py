"""The gallery beyond one machine: Milvus, by the address of a server or a cluster."""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersphere.core import counted, import_extra, parse_json
from hypersphere.models import Contract
from hypersphere.recognition.gallery.driver import (
    AuditEntry,
    Candidate,
    Damage,
    DuplicateTemplate,
    GalleryInfo,
    GalleryUnavailable,
    IndexCheck,
    new_id,
    stored_entry,
)
from hypersphere.recognition.gallery.gallery_settings import contract_digest, settings_row
from hypersphere.recognition.gallery.milvus_rows import as_entry, as_record, as_row, tag_key, text_key, trail_row
from hypersphere.recognition.gallery.rescoring import Near, exact_top
from hypersphere.recognition.gallery.server_gallery import ServerGallery, read_check
from hypersphere.recognition.gallery.stored_template import Record, audit_digest, spellings

_CONNECT_SECONDS = 1.0
_PING = {"grpc.keepalive_time_ms": 330_000}
"""Seldom enough for a gRPC server's own limit of one in 300 s, beyond which it hangs up; pymilvus pings every 10 s."""
_ANSWER_SECONDS = 60.0
_BATCH = 1000
_MOST = 16384
"""Rows that Milvus returns at most."""
_SETTINGS = "settings"
_CHECK, _CHECKING = "check", "checking"
_ENTRIES = f'id not in ["{_SETTINGS}", "{_CHECK}"]'
_LONGEST = 65535
_OFF = 1e-4
"""How far Milvus's float32 scores are from exact ones at most: far more than rounding."""
_WANTED = ("document", "vector")


class MilvusGallery(ServerGallery):
    """Templates in a collection of Milvus, and their audit trail in another.

    Reads are strongly consistent: a search sees whatever was acknowledged. Milvus has no transactions: a record and its
    audit entry are two writes, and two processes that send different templates under one key at the same moment may
    both be acknowledged (one is kept). Texts are compared by their digests: no name can be taken for an expression.

    Args:
        host, port: of the server.
        name: of the gallery.
        shown: the address as it may be shown.
        token: `user:password`, or empty.
        contract: see `open_gallery`.
        create: see `open_gallery`.
    """

    engine = "milvus"

    def __init__(
        self, host: str, port: int, name: str, shown: str, *, token: str, contract: Contract | None, create: bool
    ):
        self._milvus = import_extra("pymilvus", "a gallery in Milvus")
        self._place, self._token, self._shown = (host, port), token, shown
        self._name, self._trail = f"hypersphere_{name}", f"hypersphere_{name}_audit"
        super().__init__(shown, contract, create=create)

    def store(self, records: Iterable[Record], action: str) -> None:
        """See `Gallery.store`; batches are stored one after the other."""
        waiting, count, last = iter(records), 0, None
        with self._session() as client:
            while batch := list(islice(waiting, _BATCH)):
                new = self._new_ones(client, batch)
                if new:
                    client.upsert(self._name, [as_row(record) for record in new])
                    count, last = count + len(new), new[-1]
            if count >= _BATCH:
                client.flush(self._name)
            if last is not None and action:
                self._note(client, [stored_entry(action, count, last)])

    def find_exactly(self, probes: NDArray[np.float32], k: int, where: Mapping[str, str]) -> list[list[Candidate]]:
        """See `ServerGallery.find_exactly`."""
        return self._find(probes, k, where, 0)

    def find_by_index(
        self, probes: NDArray[np.float32], k: int, where: Mapping[str, str], effort: int
    ) -> list[list[Candidate]]:
        """See `ServerGallery.find_by_index`."""
        return self._find(probes, k, where, effort)

    def _find(
        self, probes: NDArray[np.float32], k: int, where: Mapping[str, str], effort: int
    ) -> list[list[Candidate]]:
        condition = f"damaged == false and expires > {time.time()!r}"
        if where:
            keys = ", ".join(f'"{tag_key(key, value)}"' for key, value in sorted(where.items()))
            condition += f" and ARRAY_CONTAINS_ALL(tags, [{keys}])"
        with self._session() as client:
            return [self._find_one(client, probe, k, condition, effort) for probe in probes]

    def _find_one(
        self, client: Any, probe: NDArray[np.float32], k: int, condition: str, effort: int
    ) -> list[Candidate]:
        def fetch(limit: int) -> list[Near]:
            [rows] = client.search(
                self._name,
                data=[probe],
                limit=limit,
                filter=condition,
                output_fields=list(_WANTED),
                search_params={"metric_type": "IP", "params": {"ef": max(effort, limit)} if effort else {}},
                consistency_level="Strong",
                timeout=_ANSWER_SECONDS,
            )
            return [Near(as_record(row["entity"]), row["distance"]) for row in rows]

        return exact_top(fetch, probe, k, off=_OFF, most=_MOST)

    def forget(self, subject: str) -> int:
        """See `Gallery.forget`. Milvus frees the space of removed rows later, when it compacts its segments."""
        return self._remove(_of_subject(subject), "forget", subject)

    def forget_template(self, template_id: str) -> bool:
        """See `Gallery.forget_template`."""
        return bool(self._remove(f'id == "{text_key(template_id)}"', "forget", template_id))

    def templates(self, subject: str) -> list[Record]:
        """See `Gallery.templates`."""
        with self._session() as client:
            rows = self._stream(client, self._name, f"damaged == false and {_of_subject(subject)}", list(_WANTED))
            records = [record for row in rows if (record := as_record(row)) is not None]
        return sorted(records, key=lambda record: record.id)

    def purge(self) -> int:
        """See `Gallery.purge`; quarantined rows go too."""
        with self._session() as client:
            self._delete(client, "damaged == true")
        return self._remove(f"expires <= {time.time()!r}", "purge", "")

    def subjects(self, after: str = "", limit: int | None = None) -> list[str]:
        """See `Gallery.subjects`: reads the names of all templates."""
        condition = f"damaged == false and expires > {time.time()!r}"
        with self._session() as client:
            documents = self._stream(client, self._name, condition, ["document"])
            names = {parse_json(row["document"], self.address)["subject"] for row in documents}
        return sorted(name for name in names if name > after)[:limit]

    def size(self) -> int:
        """See `Gallery.size`."""
        with self._session() as client:
            return self._count(client, f"damaged == false and expires > {time.time()!r}")

    def stored(self) -> int:
        """See `Gallery.stored`."""
        with self._session() as client:
            return self._count(client, "damaged == false")

    def info(self) -> GalleryInfo:
        """See `Gallery.info`: counts people by reading the names of all templates."""
        now = time.time()
        with self._session() as client:
            counts = [
                self._count(client, condition)
                for condition in (
                    f"damaged == false and expires > {now!r}",
                    f"damaged == false and expires <= {now!r}",
                    "damaged == true",
                )
            ]
        return GalleryInfo(
            engine=self.engine,
            address=self.address,
            size=counts[0],
            subjects=len(self.subjects()),
            expired=counts[1],
            quarantined=counts[2],
            dim=self.dim,
            contract=self.stored_contract.table(),
            contract_digest=contract_digest(self.stored_contract),
            **self.index_info(),
        )

    def verify(self) -> list[Damage]:
        """See `Gallery.verify`."""
        found = []
        with self._session() as client:
            for row in self._stream(client, self._name, "damaged == false", ["*"]):
                if as_record(row) is None:
                    found.append(Damage("template", row["id"]))
                    client.upsert(self._name, [{**row, "damaged": True}])
            entries = self._stream(client, self._trail, _ENTRIES, ["document"])
            found += [Damage("audit", row["id"]) for row in entries if as_entry(row) is None]
            if found:
                self._note(client, [AuditEntry(time.time(), "verify", "", f"{len(found)} damaged")])
        return found

    def records(self) -> Iterator[Record]:
        """See `Gallery.records`; what is written meanwhile may or may not be among them."""
        with self._session() as client:
            rows = self._stream(client, self._name, "damaged == false", list(_WANTED))
            found = [record for row in rows if (record := as_record(row)) is not None]
        yield from sorted(found, key=lambda record: record.id)

    def build_index(self) -> None:
        """See `ServerGallery.build_index`: Milvus has one index, so that other processes must wait for its check."""
        with self._session() as client:
            client.upsert(self._trail, [trail_row(_CHECK, _CHECKING)])
        self._replace_index("HNSW", {"M": 16, "efConstruction": 200})

    def keep_check(self, check: IndexCheck) -> None:
        """See `ServerGallery.keep_check`: it is a row of the audit trail's collection."""
        with self._session() as client:
            client.upsert(self._trail, [trail_row(_CHECK, check.to_json())])
            self._note(client, [AuditEntry(time.time(), "index", "", check.to_json())])

    def index_check(self) -> IndexCheck | None:
        """See `ServerGallery.index_check`."""
        with self._session() as client:
            document = self._document(client, _CHECK)
        if document == _CHECKING:
            raise GalleryUnavailable(f"{self.address}: its index is being checked; search again later")
        return read_check(document, self.address)

    def use_exact(self) -> None:
        """See `Gallery.use_exact`."""
        self._replace_index("FLAT", {})
        with self._session() as client:
            client.delete(self._trail, filter=f'id == "{_CHECK}"')

    def _replace_index(self, kind: str, params: dict[str, int]) -> None:
        with self._session() as client:
            client.release_collection(self._name)
            client.drop_index(self._name, "vector")
            index = client.prepare_index_params()
            index.add_index(field_name="vector", index_type=kind, metric_type="IP", params=params)
            client.create_index(self._name, index)
            client.load_collection(self._name)

    def _document(self, client: Any, name: str) -> str | None:
        rows = client.query(
            self._trail, filter=f'id in ["{name}"]', output_fields=["document"], consistency_level="Strong"
        )
        return rows[0]["document"] if rows else None

    def audit(self) -> list[AuditEntry]:
        """See `Gallery.audit`."""
        with self._session() as client:
            rows = sorted(self._stream(client, self._trail, _ENTRIES, ["document"]), key=lambda row: str(row["id"]))
        return [entry for row in rows if (entry := as_entry(row)) is not None]

    def _settings(self, contract: Contract | None, create: bool) -> list[tuple[str, bytes]]:
        """See `ServerGallery._settings`."""
        with self._session() as client:
            if not client.has_collection(self._name):
                if not create or contract is None:
                    raise ValueError(f"{self._shown}: there is no such gallery")
                self._create(client, contract)
            document, _, digest = (self._document(client, _SETTINGS) or "").rpartition(" ")
        return [(document, bytes.fromhex(digest))]

    def _create(self, client: Any, contract: Contract) -> None:
        kinds = self._milvus.DataType
        main = client.create_schema(auto_id=False, enable_dynamic_field=False)
        main.add_field("id", kinds.VARCHAR, is_primary=True, max_length=64)
        main.add_field("vector", kinds.FLOAT_VECTOR, dim=contract.width)
        main.add_field("document", kinds.VARCHAR, max_length=_LONGEST)
        main.add_field("subject", kinds.VARCHAR, max_length=64)
        main.add_field("tags", kinds.ARRAY, element_type=kinds.VARCHAR, max_capacity=64, max_length=64)
        main.add_field("expires", kinds.DOUBLE)
        main.add_field("damaged", kinds.BOOL)
        trail = client.create_schema(auto_id=False, enable_dynamic_field=False)
        trail.add_field("id", kinds.VARCHAR, is_primary=True, max_length=64)
        trail.add_field("vector", kinds.FLOAT_VECTOR, dim=2)
        trail.add_field("document", kinds.VARCHAR, max_length=_LONGEST)
        index = client.prepare_index_params()
        index.add_index(field_name="vector", index_type="FLAT", metric_type="IP")
        document, digest = settings_row(contract)
        for name, schema in ((self._trail, trail), (self._name, main)):
            client.create_collection(name, schema=schema, consistency_level="Strong")
            client.create_index(name, index, sync=False)
            client.load_collection(name)
            if name == self._trail:
                client.upsert(name, [trail_row(_SETTINGS, f"{document} {digest.hex()}")])

    def _new_ones(self, client: Any, batch: Sequence[Record]) -> list[Record]:
        """Records whose keys are free; one whose key holds something else is refused."""
        wanted = {text_key(record.id): record for record in batch}
        keys = ", ".join(f'"{key}"' for key in wanted)
        rows = client.query(
            self._name,
            filter=f"id in [{keys}]",
            output_fields=["id", "damaged", *_WANTED],
            consistency_level="Strong",
            timeout=_ANSWER_SECONDS,
        )
        for row in rows:
            if row["damaged"]:
                continue
            known, mine = as_record(row), wanted.pop(row["id"])
            if known is None or not known.same_template(mine):
                raise DuplicateTemplate(f"{self.address}: the key {mine.id!r} is that of another template")
        return list(wanted.values())

    def _note(self, client: Any, entries: Iterable[AuditEntry]) -> None:
        rows = []
        for entry in entries:
            values = (entry.time, entry.action, entry.subject, entry.detail)
            document = json.dumps([*values, audit_digest(*values).hex()])
            rows.append(trail_row(new_id(entry.time), document))
        if rows:
            client.upsert(self._trail, rows)

    def _remove(self, condition: str, action: str, subject: str) -> int:
        with self._session() as client:
            count = self._count(client, f"damaged == false and {condition}")
            self._delete(client, condition)
            if count:
                self._note(client, [AuditEntry(time.time(), action, subject, counted(count, "template"))])
        return count

    def _delete(self, client: Any, condition: str) -> None:
        client.delete(self._name, filter=condition)

    def _count(self, client: Any, condition: str) -> int:
        [row] = client.query(
            self._name,
            filter=condition,
            output_fields=["count(*)"],
            consistency_level="Strong",
            timeout=_ANSWER_SECONDS,
        )
        return int(row["count(*)"])

    def _stream(self, client: Any, name: str, condition: str, fields: list[str]) -> Iterator[dict[str, Any]]:
        rows = client.query_iterator(
            name, batch_size=_BATCH, filter=condition, output_fields=["id", *fields], consistency_level="Strong"
        )
        try:
            while batch := rows.next():
                yield from batch
        finally:
            rows.close()

    @contextmanager
    def _session(self) -> Iterator[Any]:
        """The client, if somebody listens at the address: pymilvus itself would try again for a minute."""
        with self._lock:
            try:
                socket.create_connection(self._place, timeout=_CONNECT_SECONDS).close()
                with _quiet():
                    if self._client is None:
                        self._client = self._connect()
                    yield self._client
            except (OSError, self._milvus.MilvusException) as error:
                self.close()
                words = " ".join(str(error).split())
                raise GalleryUnavailable(f"{self._shown}: Milvus does not answer ({words:.200})") from error

    def _connect(self) -> Any:
        host, port = self._place
        client = self._milvus.MilvusClient(
            uri=f"http://{host}:{port}", token=self._token, timeout=_CONNECT_SECONDS, grpc_options=_PING
        )
        if client.has_collection(self._name):
            for name in (self._trail, self._name):
                client.load_collection(name)
        return client


def _of_subject(subject: str) -> str:
    return f"subject in {json.dumps([text_key(name) for name in spellings(subject)])}"


@contextmanager
def _quiet() -> Iterator[None]:
    """pymilvus logs an error and its traceback besides raising it."""
    logger = logging.getLogger("pymilvus")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
