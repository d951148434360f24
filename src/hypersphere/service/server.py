"""Start the service: one process, or several that share a port, a gallery and their counts."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hypersphere.core import build, check_integer, import_extra
from hypersphere.data import encode
from hypersphere.recognition import Recognizer, load_detector, read_photo
from hypersphere.service.app import create_app
from hypersphere.service.request_log import log_to_stderr
from hypersphere.service.service_settings import ServiceSettings

if TYPE_CHECKING:
    from fastapi import FastAPI

_VARIABLE = "HYPERSPHERE_SERVICE_PROCESS"


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """What to serve.

    Args:
        gallery: its address.
        model: as `load_model` takes it.
        detector: as `load_detector` takes it; empty where photos are aligned crops.
        workers: processes.
        proxy: address of a proxy whose `X-Forwarded-For` says who the client is; nobody's is believed by default.
    """

    gallery: str
    model: str = "starter"
    detector: str = "mtcnn"
    workers: int = 1
    proxy: str = ""

    def __post_init__(self) -> None:
        check_integer("workers", self.workers, 1)


def serve(options: ServeOptions, settings: ServiceSettings, ready: Callable[[str], None] | None = None) -> None:
    """Serve until a signal ends it.

    Args:
        options: what to serve.
        settings: to whom.
        ready: called with the address when the port is taken and the model loaded.

    Raises:
        GalleryMismatch: the gallery is another model's.
        OSError: the port is taken.
    """
    uvicorn = import_extra("uvicorn", "the service")
    with tempfile.TemporaryDirectory(prefix="hypersphere-") as folder, _listen(settings) as listening:
        port = listening.getsockname()[1]
        shared = {"port": port, "parallel": max(1, settings.parallel // options.workers)}
        if options.workers > 1:
            shared["state"] = str(Path(folder) / "state.db")
        chosen = dataclasses.replace(settings, **shared)
        several = options.workers > 1
        if several:
            with load_recognizer(options) as recognizer:
                recognizer.gallery.info()
            os.environ[_VARIABLE] = json.dumps([dataclasses.asdict(options), dataclasses.asdict(chosen)])
        app = None if several else make_app(options, chosen)
        if ready is not None:
            host = f"[{settings.host}]" if ":" in settings.host else settings.host
            ready(f"http://{host}:{port}/")
        uvicorn.run(
            "hypersphere.service.server:process_app" if several else app,
            factory=several,
            workers=options.workers,
            fd=listening.fileno(),
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=bool(options.proxy),
            forwarded_allow_ips=options.proxy or None,
            timeout_graceful_shutdown=10,
        )


def load_recognizer(options: ServeOptions) -> Recognizer:
    """The recognizer of the options, which computes a photo with one thread: several photos are computed at once."""
    import torch

    torch.set_num_threads(1)
    detector: Any = load_detector(options.detector, threads=1) if options.detector == "mtcnn" else options.detector
    gallery = options.gallery
    if "://" not in gallery:
        Path(gallery).parent.mkdir(parents=True, exist_ok=True)
    return Recognizer(options.model, detector=detector or None, gallery=gallery)


def make_app(options: ServeOptions, settings: ServiceSettings) -> FastAPI:
    """The application of one process; a gallery that is another model's is refused here."""
    log_to_stderr()
    recognizer = load_recognizer(options)
    warm_up(recognizer)
    return create_app(recognizer, settings)


def warm_up(recognizer: Recognizer) -> None:
    """Compute a blank photo and search for it, before requests come.

    No package is then imported first in their threads, where two could meet, and a gallery of a file is in memory.
    """
    height, width = recognizer.contract.input_size
    blank = np.full((height, width, 3), 128, np.uint8)
    for quality in (None, 90):
        photo = read_photo(encode(blank, quality))
    if recognizer.detector is not None:
        recognizer.detector([photo])
    [portrait] = recognizer.portraits_at(photo, [None])
    recognizer.gallery.search(portrait.unit[None], k=1)


def process_app() -> FastAPI:
    """The application of one of several processes, by what `serve` left in the environment."""
    options, settings = json.loads(os.environ[_VARIABLE])
    return make_app(build(ServeOptions, options), build(ServiceSettings, settings))


def _listen(settings: ServiceSettings) -> socket.socket:
    """A socket that listens; its connections send at once, not when 40 ms later an earlier packet is acknowledged."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listening = socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        raise OSError(error.errno, error.strerror, f"{settings.host}:{settings.port}") from None
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
