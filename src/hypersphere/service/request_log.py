"""A line of JSON for each request: never a name, a photo or a number of a template."""

from __future__ import annotations

import json
import logging
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

LOGGER = logging.getLogger("hypersphere.service")


def log_line(event: str, **values: Any) -> None:
    """Write a line: the time, what happened, and plain values."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    LOGGER.info(json.dumps({"time": now, "event": event, **values}))


def log_error(error: BaseException, **values: Any) -> None:
    """Write a line about an error that nobody foresaw: its kind and where it came from.

    Its message is left out: it may hold what a client sent.
    """
    places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
    log_line("error", kind=type(error).__name__, places=places[-8:], **values)


def log_to_stderr() -> None:
    """Let the lines go to standard error, and what Python and libraries log as lines of that kind."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    LOGGER.handlers = [handler]
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False
    logging.captureWarnings(True)
    logging.getLogger().handlers = [_Json()]
    logging.getLogger().setLevel(logging.WARNING)


class _Json(logging.Handler):
    """Writes what others log as a line, without a traceback: its kind and where it came from."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            log_error(error, logger=record.name)
        else:
            log_line("log", logger=record.name, level=record.levelname.lower(), message=record.getMessage()[:500])
