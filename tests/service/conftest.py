"""A service with the starter model, a fake detector and a gallery of its own."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import hypersphere as hs
from hypersphere.recognition import Recognizer
from hypersphere.service import ServiceSettings, create_app
from hypersphere.service.service_state import ServiceState
from tests.service.photos import ByWidth

pytest.importorskip("fastapi", reason="needs the package fastapi")

from fastapi.testclient import TestClient

Service = Callable[..., TestClient]


@pytest.fixture(scope="session")
def starter() -> hs.Embedder:
    return hs.load_model("starter")


@pytest.fixture
def recognizer(starter: hs.Embedder, tmp_path: Path) -> Iterator[Recognizer]:
    with Recognizer(
        starter, detector=ByWidth(), calibration="albums", gallery=str(tmp_path / "people.db")
    ) as recognizer:
        assert recognizer.gallery.info().size == 0
        yield recognizer


@pytest.fixture
def service(recognizer: Recognizer) -> Iterator[Service]:
    """Make a client of a new service: `service(settings..., state=..., recognizer=...)`."""
    with ExitStack() as stack:

        def make(
            *, recognizer: Recognizer = recognizer, state: ServiceState | None = None, **settings: Any
        ) -> TestClient:
            app = create_app(recognizer, ServiceSettings(**{"rate": 0, **settings}), state=state)
            return stack.enter_context(TestClient(app, base_url="http://127.0.0.1:8000"))

        yield make


@pytest.fixture
def client(service: Service) -> TestClient:
    return service()
