"""Engines for the tests of galleries: each gives a new address whenever it is asked."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.recognition.gallery.people import Made
from tests.recognition.gallery.servers import Server

ENGINES = ("sqlite", "postgres", "milvus")
_NUMBERS = count()


@pytest.fixture(params=ENGINES)
def new_address(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Addresses of galleries that do not exist yet, of each engine in turn."""
    if request.param == "sqlite":
        return lambda: str(tmp_path / f"people{next(_NUMBERS)}.db")
    server: Server = request.getfixturevalue(request.param)
    return lambda: server.address_of(f"people{next(_NUMBERS)}")


@pytest.fixture
def made(new_address: Callable[[], str]) -> Iterator[Made]:
    """A new gallery that is closed at the end."""
    gallery = Made(new_address())
    yield gallery
    gallery.close()
