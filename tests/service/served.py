"""A service that `hypersphere serve` started, what its processes take, and clients on several addresses."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass
class Served:
    """A service: its port, its first process, and what it wrote to standard error when it has ended."""

    port: int
    process: subprocess.Popen[str]
    folder: Path
    lines: list[str] = field(default_factory=list)

    def processes(self) -> list[int]:
        """The service and its descendants."""
        found = [self.process.pid]
        for pid in found:
            with contextlib.suppress(OSError):
                for thread in os.listdir(f"/proc/{pid}/task"):
                    found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
        return found

    def mebibytes(self) -> float:
        """Memory of all processes, what they share counted once."""
        total = 0
        for pid in self.processes():
            with contextlib.suppress(OSError):
                for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                    total += int(line.split()[1]) if line.startswith("Pss:") else 0
        return total / 1024

    def kill(self) -> None:
        """End the first process with SIGKILL."""
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def service(folder: Path, *options: str, files: int = 0, **environment: str) -> Iterator[Served]:
    """A service of the command; every line that it writes to standard error must be JSON.

    Args:
        folder: with its gallery.
        options: of the command.
        files: that it may open; as many as this process by default.
        environment: variables.
    """
    words = [sys.executable, "-m", "hypersphere", "serve", "--gallery", "people.db", "--port", "0", "-q", *options]
    if files:
        words = ["sh", "-c", f'ulimit -n {files} && exec "$@"', "sh", *words]
    variables = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", **environment}
    errors = (folder / "errors").open("w+")
    with (
        errors,
        subprocess.Popen(
            words,
            cwd=folder,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("http://"), (folder / "errors").read_text()
        served = Served(int(line.split()[0].rstrip("/").rpartition(":")[2]), process, folder)
        try:
            yield served
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(60)
            served.lines = (folder / "errors").read_text().splitlines()
            for line in served.lines:
                assert line.startswith("{"), line
                json.loads(line)


@contextlib.contextmanager
def most_memory(served: Served) -> Iterator[list[float]]:
    """The largest memory of a service's processes while this runs, in mebibytes: the last number of the list."""
    most, done = [0.0], threading.Event()

    def look() -> None:
        while not done.wait(0.05):
            most.append(max(most[-1], served.mebibytes()))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield most
    finally:
        done.set()
        thread.join()


def connect(port: int, address: str = "127.0.0.1") -> socket.socket:
    """A connection from an address of this machine."""
    return socket.create_connection(("127.0.0.1", port), timeout=60, source_address=(address, 0))


def told(client: socket.socket) -> bytes:
    """All that is sent until the connection is closed."""
    pieces = []
    with contextlib.suppress(ConnectionResetError):
        while piece := client.recv(65_536):
            pieces.append(piece)
    return b"".join(pieces)
