"""Requests a second and their times, of clients that ask at once: `python benchmarks/recognition.py service`.

The service is `hypersphere serve` in processes of its own, with MTCNN, the starter model and a SQLite gallery; clients
are threads here that ask again as soon as they are answered, each over one connection. `identify` is the whole chain of
a photo of 200 x 200 with one drawn face: upload, detection, alignment, embedding, exact search. `gallery` asks for
counts alone, so it is what HTTP, token, limits and logs cost. Server CPU is that of all its processes, in milliseconds
a request: unlike the times it does not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import http.client
import os
import platform
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from bench import append_row, device_name

import hypersphere as hs
from hypersphere.recognition.gallery.stored_template import Record, packed

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "recognition_service.csv"
TOKEN = "the token of a benchmark"
TASKS = ("gallery", "identify")
Round = tuple[float, list[float], float]
"""Seconds in all and of each request, and milliseconds of the server's processor for one."""


def fill(path: Path, count: int) -> None:
    """Make a gallery of random templates of the starter's width."""
    contract = hs.load_model("starter").contract
    rows = np.random.default_rng(0).standard_normal((count, contract.width), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    with hs.open_gallery(path, contract=contract, create=True) as gallery:
        gallery.store((Record(id=f"{n:09}", subject=f"p{n}", vector=packed(row)) for n, row in enumerate(rows)), "")


@contextmanager
def served(templates: int, workers: int) -> Iterator[tuple[int, int]]:
    """A service that listens: its port, and its process."""
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder) / "people.db", templates)
        words = ["serve", "--gallery", "people.db", "--port", "0", "--rate", "0", "--workers", str(workers), "-q"]
        environment = {**os.environ, "HYPERSPHERE_TOKEN": TOKEN, "PYTHONPATH": str(ROOT / "src")}
        with (
            open(os.devnull, "w") as nowhere,
            subprocess.Popen(
                [sys.executable, "-m", "hypersphere", *words],
                cwd=folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=nowhere,
                text=True,
            ) as process,
        ):
            found = re.search(r":(\d+)/", process.stdout.readline() if process.stdout else "")
            if found is None:
                raise SystemExit("the service did not start")
            port = int(found[1])
            for _ in range(4 * workers):
                ask(http.client.HTTPConnection("127.0.0.1", port), "identify", photo())
            yield port, process.pid
            process.terminate()


def photo() -> bytes:
    """A drawn face that MTCNN finds, as JPEG."""
    sys.path.insert(0, str(ROOT))
    from hypersphere.data import encode
    from tests.recognition.drawn import drawn_photo

    return encode(drawn_photo(), 90)


def ask(connection: http.client.HTTPConnection, task: str, image: bytes) -> float:
    """Ask once; the seconds it took."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    start = time.perf_counter()
    if task == "identify":
        body = b'--x\r\nContent-Disposition: form-data; name="photo"; filename="p"\r\n\r\n' + image + b"\r\n--x--\r\n"
        connection.request("POST", "/v1/identify", body, {**headers, "Content-Type": "multipart/form-data; boundary=x"})
    else:
        connection.request("GET", "/v1/gallery", headers=headers)
    answer = connection.getresponse()
    answer.read()
    if answer.status != 200:
        raise SystemExit(f"{task}: status {answer.status}")
    return time.perf_counter() - start


def measure(port: int, task: str, clients: int, requests: int) -> tuple[float, list[float]]:
    """Seconds in all, and of each request."""
    image, taken, lock = photo(), [], threading.Lock()
    left = iter(range(requests))

    def client() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        while True:
            with lock:
                if next(left, None) is None:
                    return
            seconds = ask(connection, task, image)
            with lock:
                taken.append(seconds)

    threads = [threading.Thread(target=client) for _ in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start, taken


def cpu_seconds(process: int) -> float:
    """What a process and those that it started have computed so far; nan where /proc does not tell."""
    children: dict[int, list[int]] = {}
    used: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        number = int(stat.parent.name)
        children.setdefault(int(fields[1]), []).append(number)
        used[number] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    total, waiting = 0.0 if used else float("nan"), [process]
    while waiting:
        number = waiting.pop()
        total += used.get(number, 0.0)
        waiting += children.get(number, [])
    return total


def main(arguments: list[str]) -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(prog="recognition.py service", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--clients", type=int, nargs="*", default=[1, 8, 32], help="at once (%(default)s)")
    parser.add_argument("--requests", type=int, default=400, help="of each kind, in each round (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="in which all kinds take turns (%(default)s)")
    parser.add_argument("--templates", type=int, default=10_000, help="in the gallery (%(default)s)")
    parser.add_argument("--workers", type=int, default=1, help="processes of the service (%(default)s)")
    parser.add_argument("--csv", type=Path, default=RESULTS, help="file to append to (results/recognition_service.csv)")
    options = parser.parse_args(arguments)
    measured: dict[tuple[str, int], list[Round]] = {}
    with served(options.templates, options.workers) as (port, process):
        for _ in range(options.rounds):
            for task in TASKS:
                for clients in options.clients:
                    before = cpu_seconds(process)
                    seconds, taken = measure(port, task, clients, options.requests)
                    used = 1000 * (cpu_seconds(process) - before) / len(taken)
                    measured.setdefault((task, clients), []).append((seconds, taken, used))
    for (task, clients), rounds in measured.items():
        report(task, clients, options, rounds)


def report(task: str, clients: int, options: argparse.Namespace, rounds: list[Round]) -> None:
    """Print a row and append it to the file: medians over rounds."""
    middle, late = (
        1000 * float(np.median([np.quantile(taken, share) for _, taken, _ in rounds])) for share in (0.5, 0.99)
    )
    rate = float(np.median([len(taken) / seconds for seconds, taken, _ in rounds]))
    cpu = float(np.median([used for _, _, used in rounds]))
    times = f"p50 {middle:8.1f} ms  p99 {late:8.1f} ms  server CPU {cpu:6.2f} ms"
    print(f"{task:9} {clients:3} clients {rate:8.1f} requests/s  {times}", flush=True)
    row: dict[str, Any] = {
        "date_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "task": task,
        "clients": clients,
        "workers": options.workers,
        "templates": options.templates,
        "requests": sum(len(taken) for _, taken, _ in rounds),
        "rounds": len(rounds),
        "load": f"{os.getloadavg()[0]:.1f}",
        "per_s": f"{rate:.1f}",
        "p50_ms": f"{middle:.1f}",
        "p99_ms": f"{late:.1f}",
        "server_cpu_ms": f"{cpu:.2f}",
        "hypersphere": hs.__version__,
        "uvicorn": version("uvicorn"),
        "fastapi": version("fastapi"),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu": device_name("cpu"),
        "cores": os.cpu_count(),
    }
    append_row(options.csv, row)
