"""A folder belongs to one process, until it ends or is killed."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hypersphere.core import Failure, hold_folder

HOLDER = """
import os, sys, time
from hypersphere.core import hold_folder
with hold_folder(sys.argv[1]):
    child = os.fork() if sys.argv[2] == "fork" else -1
    if child != 0:
        print(child, flush=True)
    time.sleep(100)
"""


def wait_until_free(folder: Path) -> None:
    """A fork that was slow to start lets go of its parent's lock as its first act."""
    for _ in range(200):
        try:
            with hold_folder(folder):
                return
        except Failure:
            time.sleep(0.05)


@pytest.mark.parametrize("way", ["fork", "alone"])
def test_a_killed_holder_lets_go_and_a_living_one_is_named(tmp_path: Path, way: str) -> None:
    source = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    command = [sys.executable, "-W", "ignore", "-c", HOLDER, str(tmp_path / "run"), way]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=source)
    assert holder.stdout is not None
    child = int(holder.stdout.readline())
    try:
        who = rf"run is in use by process {holder.pid} on {re.escape(socket.gethostname())} since 2\d+-.* UTC: wait"
        for _ in range(2):
            with pytest.raises(Failure, match=who), hold_folder(tmp_path / "run"):
                pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        wait_until_free(tmp_path / "run")
        with hold_folder(tmp_path / "run"):
            pass
    finally:
        holder.kill()
        holder.stdout.close()
        if child > 0:
            os.kill(child, signal.SIGKILL)


def test_one_process_holds_a_folder_once(tmp_path: Path) -> None:
    with (
        hold_folder(tmp_path),
        pytest.raises(Failure, match=f"in use by process {os.getpid()} "),
        hold_folder(tmp_path),
    ):
        pass
    with pytest.raises(KeyError), hold_folder(tmp_path):
        raise KeyError
    with hold_folder(tmp_path), hold_folder(tmp_path / "second"):
        pass


def test_a_lock_follows_no_link_and_shows_no_control_characters(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / ".lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match=r"\.lock"), hold_folder(tmp_path):
        pass
    assert (tmp_path / "victim").read_text() == "precious"
    (tmp_path / ".lock").unlink()
    with hold_folder(tmp_path):
        (tmp_path / ".lock").write_bytes(b"\x1b[2J\xff me")
        with pytest.raises(Failure) as caught, hold_folder(tmp_path):
            pass
    assert "\x1b" not in str(caught.value)


def test_without_locks_there_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unable(handle: int, how: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", unable)
    with pytest.warns(RuntimeWarning, match=r"cannot be locked \(Operation not supported\)"), hold_folder(tmp_path):
        pass
