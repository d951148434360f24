"""Syncs that do not wait for the disk: a test ends processes, it cannot cut the power.

Tests write thousands of small files, and a real sync of each takes milliseconds in which its worker does nothing. What
the library syncs, and when, `tests/training/test_power_loss.py` and `tests/core/test_atomic_files.py` watch.
"""

import os

REAL = {name: getattr(os, name) for name in ("fsync", "sync") if hasattr(os, name)}


def _fsync(handle: int) -> None:
    os.fstat(handle)  # a closed handle is an error all the same


def skip_syncs() -> None:
    """Let `os.fsync` and `os.sync` of this process return at once."""
    os.fsync = _fsync  # type: ignore[assignment]
    os.sync = lambda: None
