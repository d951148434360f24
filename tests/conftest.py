"""Without a CUDA device, Triton's kernels run in its interpreter: it has to know before anything imports it."""

import os
from collections import Counter
from collections.abc import Iterator

import pytest
import torch

from tests.browser import NAMES, Browser, find_browser

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One headless browser per worker."""
    program = find_browser()
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed")
    browser = Browser(program, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end what was skipped and why, a line for each reason."""
    skipped = terminalreporter.stats.get("skipped", [])
    for line in skipped_lines([report.longrepr[2] for report in skipped]):
        terminalreporter.write_line(line)


def skipped_lines(reasons: list[str]) -> list[str]:
    """The reasons of skipped tests, each once with its count, the most frequent first."""
    counted = Counter(reason.removeprefix("Skipped: ") for reason in reasons)
    return [f"skipped {count:,}: {reason}" for reason, count in counted.most_common()]
