"""The work behind requests, off the event loop: photos in a queue with an end, a gallery that must answer in time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from hypersphere.recognition import AuditEntry, Gallery, GalleryInfo, IdentificationDecision, Recognizer, decide_search
from hypersphere.service.photo_faces import PhotoFace, photo_faces
from hypersphere.service.photo_processes import Nursery, Worker
from hypersphere.service.problems import refused, unavailable
from hypersphere.service.request_log import log_line
from hypersphere.service.service_settings import ServiceSettings
from hypersphere.service.service_state import ServiceState

T = TypeVar("T")
Unit = npt.NDArray[np.float32]
Found = tuple[list[tuple[str, float]], int, float]
"""Subjects with their scores, the gallery's size, and the share of best matches that its index misses."""
_INFO_SECONDS = 1.0
_GALLERY_THREADS = 16
_MOST_PROBES, _CANDIDATES = 64, 10
_MOST_ENTRIES = 100_000
_CLOCK_TIMES = 3
"""A worker is given up after so many times its seconds of a processor, by the clock."""


class Work:
    """Looks at photos, and asks the gallery.

    Args:
        recognizer: with a gallery.
        settings: of the service.
        nursery: of the processes that look at photos; without one, threads of this process do, which nothing can end.
    """

    def __init__(self, recognizer: Recognizer, settings: ServiceSettings, nursery: Nursery | None = None) -> None:
        import anyio

        self.recognizer = recognizer
        self.settings = settings
        self.inside = 0
        self.busy = 0
        self._nursery = nursery
        self._workers: list[Worker | None] = [None] * settings.workers
        self._cores = asyncio.Semaphore(settings.workers)
        self._askers = anyio.CapacityLimiter(_GALLERY_THREADS)
        self._opening = threading.Lock()
        self._info: tuple[float, GalleryInfo] | None = None
        self._entries: list[AuditEntry] = []
        self._searching = asyncio.Lock()
        self._probes: list[tuple[Unit, asyncio.Future[Found]]] = []

    @asynccontextmanager
    async def admitted(self) -> AsyncIterator[None]:
        """A place among the requests whose photos are read or wait for that; a refusal where all are taken."""
        if self.inside >= self.settings.waiting + self.settings.workers:
            raise refused(503, "busy", "too many requests wait already", wait=1)
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1

    async def faces(self, photos: Sequence[bytes]) -> list[PhotoFace]:
        """The one face of each photo; a refusal says which photo it is about."""
        from anyio import to_thread

        try:
            async with asyncio.timeout(self.settings.queue_seconds):
                await self._cores.acquire()
        except TimeoutError:
            raise refused(503, "busy", "the photos waited too long for a processor", wait=5) from None
        self.busy += 1
        try:
            return await to_thread.run_sync(self._look, photos)
        finally:
            self.busy -= 1
            self._cores.release()

    def _look(self, photos: Sequence[bytes]) -> list[PhotoFace]:
        if self._nursery is None:
            return photo_faces(self.recognizer, photos)
        worker = self._workers.pop()
        try:
            if worker is None:
                worker = self._nursery.worker()
            return worker.look(photos, _CLOCK_TIMES * self.settings.work_seconds)
        except (EOFError, OSError):
            log_line("worker_ended", photos=len(photos))
            if worker is None:
                raise refused(503, "no_worker", "no process can look at photos; start the service again") from None
            worker.close()
            worker = None
            seconds = f"{self.settings.work_seconds:g} s of a processor"
            raise refused(422, "too_much_work", f"the photos took more than {seconds}; send smaller ones") from None
        finally:
            self._workers.append(worker)

    def close(self) -> None:
        """End the processes that look at photos, whatever they do."""
        if self._nursery is not None:
            self._nursery.close()

    def can_look(self) -> bool:
        """Whether photos can be looked at."""
        return self._nursery is None or self._nursery.alive()

    async def search(self, unit: Unit, fpir: float) -> IdentificationDecision:
        """Search the gallery for a face; faces that come during a search are searched together after it.

        One pass over a large gallery takes about as long for sixteen faces as for one.
        """
        answer: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        self._probes.append((unit, answer))
        try:
            async with asyncio.timeout(self.settings.gallery_seconds):
                async with self._searching:
                    if not answer.done():
                        await self._search_together()
                candidates, size, miss_rate = await answer
        except TimeoutError:
            raise unavailable() from None
        return decide_search(candidates, size, self.recognizer.calibration, fpir, miss_rate=miss_rate)

    async def _search_together(self) -> None:
        """Answer the probes that wait; one that is not answered is told why."""
        probes, self._probes = self._probes[:_MOST_PROBES], self._probes[_MOST_PROBES:]
        try:
            searches = await self.ask(lambda gallery: _search(gallery, [unit for unit, _ in probes]))
        except BaseException as error:
            reason = error if isinstance(error, Exception) else unavailable()
            for _, answer in probes:
                if not answer.done():
                    answer.set_exception(reason)
                    answer.exception()  # whoever gave up does not ask for it
            raise
        for (_, answer), each in zip(probes, searches, strict=True):
            if not answer.done():
                answer.set_result(each)

    async def ask(self, question: Callable[[Gallery], T]) -> T:
        """Ask the gallery; one that takes too long does not answer."""
        import anyio

        try:
            with anyio.fail_after(self.settings.gallery_seconds):
                return await anyio.to_thread.run_sync(
                    lambda: question(self._gallery()), abandon_on_cancel=True, limiter=self._askers
                )
        except TimeoutError:
            raise unavailable() from None

    async def gallery_info(self) -> GalleryInfo:
        """What the gallery holds, asked at most once a second."""
        now = time.monotonic()
        if self._info is None or now - self._info[0] > _INFO_SECONDS:
            self._info = None
            self._info = (now, await self.ask(lambda gallery: gallery.info()))
        return self._info[1]

    def trail(self, entry: AuditEntry) -> None:
        """Add an entry to the gallery's audit trail, within a second: a search waits for no disk."""
        self._entries.append(entry)

    async def keep_trail(self, every: float = 1.0) -> None:
        """Write the entries of searches, every second; those of a gallery that does not answer are tried again."""
        while True:
            await asyncio.sleep(every)
            await self.write_trail()

    async def write_trail(self) -> None:
        """Write the entries that wait."""
        entries, self._entries = self._entries, []
        if not entries:
            return
        try:
            await self.ask(lambda gallery: gallery.note(entries))
        except Exception as error:
            self._entries = [*entries, *self._entries][-_MOST_ENTRIES:]
            log_line("trail_not_written", kind=type(error).__name__, waiting=len(self._entries))

    async def save(self, state: ServiceState) -> None:
        """Keep what was used of daily allowances, off the event loop."""
        from anyio import to_thread

        await to_thread.run_sync(state.save)

    async def keep_clean(self, every: float = 3600.0) -> None:
        """Remove templates that have expired, now and every hour."""
        import anyio

        while True:
            try:
                count = await anyio.to_thread.run_sync(self._purge)
                log_line("purge", removed=count)
            except Exception as error:
                log_line("purge_failed", kind=type(error).__name__)
            await anyio.sleep(every)

    def _purge(self) -> int:
        return self._gallery().purge()

    def _gallery(self) -> Gallery:
        """The gallery, which the first of several threads opens."""
        with self._opening:
            return self.recognizer.gallery


def _search(gallery: Gallery, units: Sequence[Unit]) -> list[Found]:
    """What a gallery has for each of several faces."""
    size = gallery.size()
    searches = gallery.search(np.stack(units), k=_CANDIDATES) if size else [[] for _ in units]
    miss_rate = gallery.miss_rate()
    return [([(each.subject, each.score) for each in candidates], size, miss_rate) for candidates in searches]
