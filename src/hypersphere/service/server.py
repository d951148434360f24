"""Start the service: a process that answers, and others that look at photos."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hypersphere.core import import_extra
from hypersphere.data import encode
from hypersphere.recognition import Recognizer, load_detector, pool_template, read_photo
from hypersphere.service.app import create_app
from hypersphere.service.connections import BACKLOG, Connections, bounded_protocol, most_connections
from hypersphere.service.photo_processes import Nursery
from hypersphere.service.request_log import log_to_stderr
from hypersphere.service.service_settings import ServiceSettings


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """What to serve.

    Args:
        gallery: its address.
        model: as `load_model` takes it.
        detector: as `load_detector` takes it; empty where photos are aligned crops.
        calibration: as `load_calibration` takes it; empty for that of the model.
        proxy: address of a proxy whose `X-Forwarded-For` says who the client is; nobody's is believed by default.
    """

    gallery: str
    model: str = "starter"
    detector: str = "mtcnn"
    calibration: str = ""
    proxy: str = ""


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
    most = most_connections(settings.connections)
    with _listen(settings) as listening, contextlib.ExitStack() as stack:
        host, port = settings.host, listening.getsockname()[1]
        chosen = dataclasses.replace(settings, port=port)
        log_to_stderr()
        recognizer = stack.enter_context(load_recognizer(options))
        warm_up(recognizer)
        nursery = Nursery(recognizer, chosen.work_seconds)  # before there are threads and a gallery
        stack.callback(nursery.close)
        warm_gallery(recognizer)
        connections = Connections(most=most, most_of_address=chosen.address_connections, proxy=options.proxy)
        if ready is not None:
            ready(f"http://{f'[{host}]' if ':' in host else host}:{port}/")
        uvicorn.run(
            create_app(recognizer, chosen, nursery=nursery),
            http=bounded_protocol(chosen, connections),
            backlog=BACKLOG,
            fd=listening.fileno(),
            access_log=False,
            log_config=None,
            server_header=False,
            ws="none",
            proxy_headers=bool(options.proxy),
            forwarded_allow_ips=options.proxy or None,
            timeout_graceful_shutdown=10,
        )


def load_recognizer(options: ServeOptions) -> Recognizer:
    """The recognizer of the options, which computes a photo with one thread: several photos are computed at once."""
    import torch

    torch.set_num_threads(1)
    detector: Any = load_detector(options.detector, threads=1) if options.detector else None
    gallery = options.gallery
    if "://" not in gallery:
        Path(gallery).parent.mkdir(parents=True, exist_ok=True)
    return Recognizer(options.model, detector=detector, gallery=gallery, calibration=options.calibration or None)


def warm_up(recognizer: Recognizer) -> None:
    """Compute a blank photo: the processes that look at photos then import nothing, and share what was made."""
    height, width = recognizer.contract.input_size
    blank = np.full((height, width, 3), 128, np.uint8)
    for quality in (None, 90):
        photo = read_photo(encode(blank, quality))
    if recognizer.detector is not None:
        recognizer.detector([photo])
    recognizer.portraits_at(photo, [None])


def warm_gallery(recognizer: Recognizer) -> None:
    """Open the gallery, and search in it: one of a file is then in memory, and one of another model is refused."""
    if recognizer.gallery.size():
        recognizer.gallery.search(pool_template(np.ones((1, recognizer.contract.width), np.float32))[None], k=1)


def _listen(settings: ServiceSettings) -> socket.socket:
    """A socket that listens; its connections send at once, not when 40 ms later an earlier packet is acknowledged."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listening = socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        raise OSError(error.errno, error.strerror, f"{settings.host}:{settings.port}") from None
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
