"""The explorer's page in a headless browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hypersphere.theory import save_explorer
from tests.browser import Browser


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    page: Path = save_explorer(tmp_path_factory.mktemp("page") / "explore.html")
    return page.as_uri()


@pytest.fixture
def browser(chromium: Browser, address: str) -> Iterator[Browser]:
    """The page freshly loaded; after the test it must not have complained, nor asked for anything but itself."""
    chromium.screen(1280, 900)
    chromium.open("about:blank")
    for watched in _watched(chromium, address):
        watched.open(address)
        yield watched


@pytest.fixture
def maths(chromium: Browser, address: str) -> Iterator[Browser]:
    """The page for tests of its functions alone, loaded once."""
    if not chromium.run("location.href").startswith(address):
        chromium.open(address)
    yield from _watched(chromium, address)


def _watched(browser: Browser, address: str) -> Iterator[Browser]:
    browser.complaints.clear()
    browser.requests.clear()
    yield browser
    assert browser.complaints == []
    assert [url for url in browser.requests if not url.startswith((address, "about:", "data:", "blob:"))] == []
