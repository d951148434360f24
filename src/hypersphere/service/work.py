"""The work behind requests, off the event loop: so many photos at a time, and a gallery that must answer in time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from hypersphere.recognition import Gallery, GalleryInfo, Portrait, Recognizer, read_photo
from hypersphere.service.problems import refusal_of, refused, unavailable
from hypersphere.service.request_log import log_line
from hypersphere.service.service_settings import ServiceSettings

S = TypeVar("S")
T = TypeVar("T")
_INFO_SECONDS = 1.0
_GALLERY_THREADS = 16


class Work:
    """Computes and asks in threads.

    Args:
        recognizer: with a gallery.
        settings: of the service.
    """

    def __init__(self, recognizer: Recognizer, settings: ServiceSettings) -> None:
        import anyio

        self.recognizer = recognizer
        self.settings = settings
        self._cores = anyio.CapacityLimiter(settings.parallel)
        self._askers = anyio.CapacityLimiter(_GALLERY_THREADS)
        self._opening = threading.Lock()
        self._inside = 0
        self._info: tuple[float, GalleryInfo] | None = None

    async def portraits(self, photos: Sequence[bytes]) -> list[Portrait]:
        """The one face of each photo; a refusal says which photo it is about."""
        from anyio import to_thread

        if self._inside >= self.settings.waiting + self.settings.parallel:
            raise refused(503, "busy", "too many requests wait already", wait=1)
        self._inside += 1
        try:
            return await to_thread.run_sync(self._portraits, photos, limiter=self._cores)
        finally:
            self._inside -= 1

    def _portraits(self, photos: Sequence[bytes]) -> list[Portrait]:
        """All photos are read before the first is looked at: one that cannot be costs nothing."""
        return _each(self.recognizer.portrait, _each(read_photo, photos))

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


def _each(function: Callable[[S], T], photos: Sequence[S]) -> list[T]:
    """What a function makes of each photo; a refusal says which one it is about."""
    made = []
    for number, photo in enumerate(photos, start=1):
        try:
            made.append(function(photo))
        except Exception as error:
            raise refusal_of(error, number) or error from None
    return made
