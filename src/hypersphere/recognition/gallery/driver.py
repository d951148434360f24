"""The contract of galleries: what every engine promises, and the checks that all of them share."""

from __future__ import annotations

import json
import os
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from hypersphere.core import Failure, check_integer
from hypersphere.models.contract import Contract
from hypersphere.recognition.gallery.stored_template import (
    Record,
    as_json,
    check_metadata,
    check_time,
    check_vectors,
    check_words,
    packed,
)


class GalleryMismatch(ValueError):
    """The gallery holds templates of another embedding contract: another model, or another alignment."""


class GalleryUnavailable(Failure):
    """The engine does not answer. It is not known whether there is a match."""


class GalleryDamaged(GalleryUnavailable):
    """The gallery's file or its settings are damaged; restore a backup."""


class DuplicateTemplate(ValueError):
    """Another template has this key already."""


@dataclass(frozen=True)
class Candidate:
    """A template that a search found; `score` is the cosine of probe and template."""

    subject: str
    template_id: str
    score: float


@dataclass(frozen=True)
class AuditEntry:
    """What was done to a gallery, and when (seconds since 1970): never a template's numbers."""

    time: float
    action: str
    subject: str
    detail: str


@dataclass(frozen=True)
class Damage:
    """What `verify` found: a `template` (quarantined), an entry of the `audit` trail, or an `index` (made anew)."""

    kind: str
    name: str


@dataclass(frozen=True, kw_only=True)
class GalleryInfo:
    """What a gallery holds.

    Args:
        engine: `sqlite`, `postgres` or `milvus`.
        address: where it is, without a password.
        size: templates that can match: neither expired nor quarantined.
        subjects: people who have one.
        expired: templates that have expired and wait to be purged.
        quarantined: damaged rows that were taken out of use.
        dim: width of the templates.
        contract: of the model, as plain values.
        contract_digest: of all of it.
        index: `exact`, or the approximate index in use.
        miss_rate: share of probes whose best match the index misses, measured against exact search; 0 if exact. A
            decision adds it to its false-negative identification rate.
        miss_probes: how many probes that was measured on.
    """

    engine: str
    address: str
    size: int
    subjects: int
    expired: int
    quarantined: int
    dim: int
    contract: Mapping[str, Any] = field(repr=False)
    contract_digest: str
    index: str = "exact"
    miss_rate: float = 0.0
    miss_probes: int = 0


@dataclass(frozen=True)
class IndexCheck:
    """What the check of an index found.

    Args:
        effort: the number of nearest rows that the index keeps while it searches (`ef_search`).
        misses: probes whose best template by exact search the index does not return as the best.
        probes: how many were asked.
        size: templates that the gallery had.
    """

    effort: int
    misses: int
    probes: int
    size: int

    @property
    def miss_rate(self) -> float:
        """Share of probes that the index missed."""
        return self.misses / self.probes

    def to_json(self) -> str:
        """As it is stored beside the index."""
        return json.dumps(asdict(self))


class Gallery(ABC):
    """Templates of people: enrol, search, forget. Made by `open_gallery`; a context manager that closes it.

    What every engine promises: `enroll` returns when the template is durable; a key is enrolled once, however often
    and by however many processes it is sent; `search` sees everything that was acknowledged before it, in any process,
    and nothing that was forgotten or has expired; an engine that does not answer is `GalleryUnavailable`, never an
    empty answer. A gallery opened without a contract can be looked at, copied and cleaned, not enrolled into or
    searched.
    """

    engine: ClassVar[str]

    def __init__(self, address: str, stored: Contract, contract: Contract | None) -> None:
        self.address = address
        self.stored_contract = stored
        self.contract: Contract | None = None
        self.dim = stored.width
        if contract is not None:
            self.use_contract(contract)

    def use_contract(self, contract: Contract) -> None:
        """Enrol and search with embeddings of this contract from now on; GalleryMismatch if it is another one.

        So a gallery can be opened and looked at before its model is loaded, which takes seconds.
        """
        if contract != self.stored_contract:
            mine, other = contract.table(), self.stored_contract.table()
            keys = [key for key in {**other, **mine} if mine.get(key) != other.get(key)]
            words = ", ".join(f"{key} {other.get(key)!r} and not {mine.get(key)!r}" for key in keys)
            raise GalleryMismatch(
                f"{self.address}: holds templates of another contract ({words}); enrol into a new gallery"
            )
        self.contract = contract

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def enroll(
        self,
        subject: str,
        template: NDArray[np.float32],
        *,
        key: str | None = None,
        metadata: Mapping[str, str] | None = None,
        consent: str = "",
        expires: float | None = None,
    ) -> str:
        """Store a template and return its id; when this returns, it is durable.

        Args:
            subject: whose it is.
            template: (dim,), a unit vector.
            key: idempotency key, which becomes the id: the same template under the same key is stored once, however
                often it is sent. A new id by default, later ones sort after earlier ones.
            metadata: names to words, for `search(where=...)`.
            consent: what the person agreed to, in words.
            expires: seconds since 1970; from then on the template matches nothing, and `purge` removes it.

        Raises:
            DuplicateTemplate: the key is that of a template that differs.
            ValueError: not a unit vector of this width, or not finite; the gallery is as it was.
        """
        self._check_use()
        row = check_vectors("template", np.asarray(template)[None], self.dim)[0]
        now = time.time()
        record = Record(
            id=new_id(now) if key is None else check_words("key", key),
            subject=check_words("subject", subject),
            vector=packed(row),
            metadata=as_json(check_metadata("metadata", metadata)),
            consent=check_words("consent", consent, longest=1000, least=0),
            enrolled=now,
            expires=check_time("expires", expires),
        )
        self.store([record], "enroll")
        return record.id

    def enroll_many(
        self,
        subjects: Sequence[str],
        templates: NDArray[np.float32],
        *,
        keys: Sequence[str] | None = None,
        consent: str = "",
        expires: float | None = None,
    ) -> list[str]:
        """Store many templates at once, all or none in SQLite and PostgreSQL, and return their ids.

        Args:
            subjects: whose each is.
            templates: (n, dim), unit vectors.
            keys: idempotency keys; see `enroll`.
            consent, expires: of each; see `enroll`.
        """
        self._check_use()
        rows = check_vectors("templates", templates, self.dim).astype("<f2")
        now, size = time.time(), len(rows)
        names = [check_words(f"subjects[{place}]", name) for place, name in enumerate(subjects)]
        ids = [new_id(now) for _ in names] if keys is None else [check_words("keys", key) for key in keys]
        if not len(names) == len(ids) == size:
            raise ValueError(f"{size} templates, {len(names)} subjects and {len(ids)} keys; expected as many of each")
        words, end = check_words("consent", consent, longest=1000, least=0), check_time("expires", expires)
        self.store(
            (
                Record(id=key, subject=name, vector=row.tobytes(), consent=words, enrolled=now, expires=end)
                for key, name, row in zip(ids, names, rows, strict=True)
            ),
            "enroll",
        )
        return ids

    def search(
        self, probes: NDArray[np.float32], k: int = 10, *, where: Mapping[str, str] | None = None
    ) -> list[list[Candidate]]:
        """For each probe the k templates of largest cosine, largest first; ties by the lowest template id.

        Args:
            probes: (n, dim), unit vectors.
            k: how many templates at most.
            where: only templates whose metadata have these values.
        """
        self._check_use()
        rows = check_vectors("probes", probes, self.dim)
        check_integer("k", k, 1)
        return self.find(rows, k, check_metadata("where", where)) if len(rows) else []

    def _check_use(self) -> None:
        if self.contract is None:
            raise ValueError(f"{self.address}: was opened without a contract; enrolling and searching need the model's")

    @abstractmethod
    def store(self, records: Iterable[Record], action: str) -> None:
        """Store records and an audit entry, all or none, durably; a key that holds the same template is left as it is.

        Args:
            records: checked ones.
            action: of the audit entry; none is written if it is empty.
        """

    @abstractmethod
    def find(self, probes: NDArray[np.float32], k: int, where: Mapping[str, str]) -> list[list[Candidate]]:
        """Search with checked probes."""

    @abstractmethod
    def forget(self, subject: str) -> int:
        """Remove all templates of a subject; return how many there were."""

    @abstractmethod
    def templates(self, subject: str) -> list[Record]:
        """All templates of a subject that are stored, expired ones included, by rising id."""

    @abstractmethod
    def forget_template(self, template_id: str) -> bool:
        """Remove one template; return whether there was one of this id."""

    def replace_with(self, records: Iterable[Record]) -> int:
        """Put records in the place of all that the gallery holds, in one transaction; return how many there are.

        Whoever has the gallery open goes on with them. Its audit trail is kept.
        """
        raise ValueError(f"{self.address}: {self.engine} cannot replace what it holds; restore into a new gallery")

    @abstractmethod
    def purge(self) -> int:
        """Remove templates that have expired; return how many there were."""

    @abstractmethod
    def subjects(self, after: str = "", limit: int | None = None) -> list[str]:
        """Names of the people who have a template that can match, sorted.

        Args:
            after: only names after this one.
            limit: how many at most; all by default.
        """

    @abstractmethod
    def size(self) -> int:
        """How many templates can match: neither expired nor quarantined."""

    @abstractmethod
    def stored(self) -> int:
        """How many templates it holds, expired ones included, as the engine keeps it: PostgreSQL about, all at once."""

    def use_approximate(self, probes: NDArray[np.float32]) -> IndexCheck:
        """Build an approximate index, and search by it from now on if it misses at most one best match in a thousand.

        Check again when the gallery has grown by a tenth, or when its people have changed.

        Args:
            probes: at least 1,000 unit vectors as searches will have them: of other photos of enrolled people.

        Raises:
            Failure: it misses more at any effort; the index is removed, and search stays exact.
            ValueError: the engine has none.
        """
        raise ValueError(f"{self.address}: {self.engine} searches exactly, without an index")

    @abstractmethod
    def use_exact(self) -> None:
        """Remove the approximate index, if there is one: search is exact from now on."""

    def miss_rate(self) -> float:
        """Share of searches whose best match an approximate index misses; 0 where search is exact."""
        return 0.0

    @abstractmethod
    def info(self) -> GalleryInfo:
        """What the gallery holds."""

    @abstractmethod
    def verify(self) -> list[Damage]:
        """Check every row against its digest; quarantine damaged ones, which then match nothing."""

    @abstractmethod
    def records(self) -> Iterator[Record]:
        """All records whose digests hold, expired ones included, by rising id."""

    @abstractmethod
    def audit(self) -> list[AuditEntry]:
        """What was done, oldest first."""

    @abstractmethod
    def note(self, entries: Iterable[AuditEntry]) -> None:
        """Add entries to the audit trail."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections."""

    def backup(self, path: str | os.PathLike[str]) -> int:
        """Write all records and the audit trail to a new SQLite gallery, whole or not at all, and read it back.

        Returns:
            how many records it holds.
        """
        from hypersphere.recognition.gallery.backup import write_backup

        return write_backup(self, path)


def stored_entry(action: str, count: int, last: Record) -> AuditEntry:
    """The audit entry of stored templates: whose, where it is one, or how many."""
    words = (last.subject, last.id) if count == 1 else ("", f"{count} templates")
    return AuditEntry(time.time(), action, *words)


def new_id(now: float) -> str:
    """A new template id, 32 hexadecimal digits: microseconds since 1970, then chance."""
    return f"{int(now * 1e6):016x}{secrets.token_hex(8)}"
