"""Galleries on servers: their connection, and approximate indexes that were checked against exact search."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersphere.core import Failure, build, parse_json
from hypersphere.models import Contract
from hypersphere.recognition.gallery.driver import AuditEntry, Candidate, Gallery, IndexCheck
from hypersphere.recognition.gallery.gallery_settings import read_settings
from hypersphere.recognition.gallery.stored_template import check_vectors

LEAST_PROBES = 1000
MOST_MISSED = 1e-3
_EFFORTS = (100, 200, 400, 1000)
"""`ef_search` of HNSW, tried from the cheapest on."""


def read_check(text: str | None, where: str) -> IndexCheck | None:
    """The check that is stored beside an index."""
    return None if text is None else build(IndexCheck, parse_json(text, where))


class ServerGallery(Gallery):
    """A gallery on a server that can keep an approximate index (HNSW)."""

    def __init__(self, address: str, contract: Contract | None, *, create: bool) -> None:
        self._lock = threading.RLock()
        self._client: Any = None
        try:
            super().__init__(address, read_settings(self._settings(contract, create), address), contract)
        except BaseException:
            self.close()
            raise

    def note(self, entries: Iterable[AuditEntry]) -> None:
        """See `Gallery.note`."""
        with self._session() as client:
            self._note(client, entries)

    def close(self) -> None:
        """See `Gallery.close`."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    @abstractmethod
    def _settings(self, contract: Contract | None, create: bool) -> Sequence[Sequence[Any]]:
        """The rows of settings of the gallery, which is made if there is none and that is wanted."""

    @abstractmethod
    def _session(self) -> AbstractContextManager[Any]:
        """Lend the client to one call; where the server does not answer, `GalleryUnavailable`."""

    @abstractmethod
    def _note(self, client: Any, entries: Iterable[AuditEntry]) -> None:
        """Add entries to the audit trail."""

    def use_approximate(self, probes: NDArray[np.float32]) -> IndexCheck:
        """See `Gallery.use_approximate`: the cheapest effort at which HNSW misses few enough."""
        rows = check_vectors("probes", probes, self.dim)
        if len(rows) < LEAST_PROBES:
            raise ValueError(f"probes has {len(rows)} rows; an index is checked on at least {LEAST_PROBES:,}")
        size = self.size()
        exact = _best(self.find_exactly(rows, 1, {}))
        self.build_index()
        try:
            for effort in _EFFORTS:
                found = _best(self.find_by_index(rows, 1, {}, effort))
                check = IndexCheck(effort, sum(map(str.__ne__, exact, found)), len(rows), size)
                if check.miss_rate <= MOST_MISSED:
                    self.keep_check(check)
                    return check
        except BaseException:
            self.use_exact()
            raise
        self.use_exact()
        raise Failure(
            f"{self.address}: the index misses {check.misses:,} of {len(rows):,} best matches at ef_search {effort}, "
            f"more than 1 in {1 / MOST_MISSED:,.0f}; search stays exact"
        )

    def find(self, probes: NDArray[np.float32], k: int, where: Mapping[str, str]) -> list[list[Candidate]]:
        """See `Gallery.find`."""
        check = self.index_check()
        if check is None:
            return self.find_exactly(probes, k, where)
        return self.find_by_index(probes, k, where, check.effort)

    def miss_rate(self) -> float:
        """See `Gallery.miss_rate`."""
        check = self.index_check()
        return 0.0 if check is None else check.miss_rate

    def index_info(self) -> dict[str, Any]:
        """The fields of `GalleryInfo` about the index."""
        check = self.index_check()
        if check is None:
            return {}
        index = f"hnsw, ef_search {check.effort}"
        return {"index": index, "miss_rate": check.miss_rate, "miss_probes": check.probes}

    @abstractmethod
    def find_exactly(self, probes: NDArray[np.float32], k: int, where: Mapping[str, str]) -> list[list[Candidate]]:
        """Search by comparing with every template."""

    @abstractmethod
    def find_by_index(
        self, probes: NDArray[np.float32], k: int, where: Mapping[str, str], effort: int
    ) -> list[list[Candidate]]:
        """Search by the index."""

    @abstractmethod
    def build_index(self) -> None:
        """Build the index; nobody searches by it yet."""

    @abstractmethod
    def keep_check(self, check: IndexCheck) -> None:
        """Store the check: every process searches by the index from now on."""

    @abstractmethod
    def index_check(self) -> IndexCheck | None:
        """The check of the index in use; None if search is exact."""


def _best(found: list[list[Candidate]]) -> list[str]:
    return [candidates[0].template_id if candidates else "" for candidates in found]
