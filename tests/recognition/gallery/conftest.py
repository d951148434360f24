"""Engines for the tests of galleries: each gives a new address whenever it is asked."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.recognition.gallery.people import Made

ENGINES = ("sqlite",)


@pytest.fixture(params=ENGINES)
def new_address(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Addresses of galleries that do not exist yet, of each engine in turn."""
    numbers = count()
    return lambda: str(tmp_path / f"people{next(numbers)}.db")


@pytest.fixture
def made(new_address: Callable[[], str]) -> Iterator[Made]:
    """A new gallery that is closed at the end."""
    gallery = Made(new_address())
    yield gallery
    gallery.close()
