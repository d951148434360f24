"""How long the service and galleries take under faults, beside the limits: `python benchmarks/recognition.py faults`.

Times by the clock, which no test asserts: eight processes that enrol at once, a gallery opened after kills, photos that
are refused by their header, engines that are down or hang, and ordinary requests beside 200 slow clients (a ratio to
those without, rounds in turn). docs/reliability.md has the table of faults.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import platform
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import recognition_service
from bench import append_row, device_name

import hypersphere as hs

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "recognition_faults.csv"
SLOW_CLIENTS = 200
Row = tuple[str, str, float, float]
"""A fault, what was measured, the value and its limit."""


def writers(scale: float) -> Iterator[Row]:
    """Eight processes enrol at once; an enrolment is half of a pair of them."""
    from tests.recognition.gallery.people import CONTRACT
    from tests.recognition.gallery.test_contract_of_engines import write_at_once

    with tempfile.TemporaryDirectory() as folder:
        hs.open_gallery(f"{folder}/people.db", contract=CONTRACT, create=True).close()
        taken = write_at_once(f"{folder}/people.db", 8, max(1, round(500 * scale)))
    for name, share in (("p50", 0.5), ("p95", 0.95)):
        yield (
            "8 processes x 500 enrolments",
            f"two enrolments, {name}, ms",
            1000 * float(np.quantile(taken, share)),
            200,
        )


def kills(scale: float) -> Iterator[Row]:
    """Kill a process that enrols, and open its gallery."""
    import multiprocessing

    from tests.recognition.gallery.people import CONTRACT
    from tests.recognition.gallery.test_sqlite import _enrol_until_killed

    context, taken = multiprocessing.get_context("fork"), []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.db"
        hs.open_gallery(path, contract=CONTRACT, create=True).close()
        for number in range(max(1, round(50 * scale))):
            reader, writer = os.pipe()
            process = context.Process(target=_enrol_until_killed, args=(path, number * 100_000, writer))
            process.start()
            os.read(reader, 9)
            time.sleep(0.01)
            os.kill(process.pid or 0, signal.SIGKILL)
            process.join()
            start = time.perf_counter()
            with hs.open_gallery(path, contract=CONTRACT) as gallery:
                gallery.info()
            taken.append(time.perf_counter() - start)
            os.close(reader)
            os.close(writer)
    yield "SIGKILL while enrolling", "opened again, longest, ms", 1000 * max(taken), 2000


@contextlib.contextmanager
def client_of(address: str) -> Iterator[Any]:
    """A client of a service on a gallery, with a fake detector."""
    from fastapi.testclient import TestClient

    from hypersphere.service import ServiceSettings, create_app
    from tests.service.photos import ByWidth, painted
    from tests.service.test_api import enroll

    recognizer = hs.Recognizer(detector=ByWidth(), gallery=address)
    app = create_app(recognizer, ServiceSettings(rate=0))
    with recognizer, TestClient(app, base_url="http://127.0.0.1:8000") as client:
        enroll(client, "Ada", painted(2))
        yield client


def large_photos(scale: float) -> Iterator[Row]:
    """Photos of 81 megapixels in 10 kB."""
    from tests.service.photos import huge
    from tests.service.test_api import identify

    photo, taken = huge(9000, 9000), []
    with tempfile.TemporaryDirectory() as folder, client_of(f"{folder}/people.db") as client:
        for _ in range(max(2, round(50 * scale))):
            start = time.perf_counter()
            if identify(client, photo).status_code != 413:
                raise SystemExit("a large photo was taken")
            taken.append(time.perf_counter() - start)
    yield "photo above 40 MP", "413, median, ms", 1000 * float(np.median(taken)), 50


def engines_down(scale: float) -> Iterator[Row]:
    """Kill and freeze the engine behind a service, and ask."""
    from tests.recognition.gallery.servers import Milvus, Postgres
    from tests.service.photos import painted
    from tests.service.test_api import identify

    def seconds(client: Any) -> float:
        start = time.perf_counter()
        if identify(client, painted(2)).status_code != 503:
            raise SystemExit("an engine that is down was not noticed")
        return time.perf_counter() - start

    for kind in (Postgres, Milvus)[: 2 if scale >= 1 else 1]:
        with contextlib.closing(kind()) as server, client_of(server.address_of("people")) as client:
            name = kind.__name__
            with server.frozen():
                yield f"{name} hangs", "503, ms", 1000 * seconds(client), 2000
            time.sleep(2)
            server.kill()
            yield f"{name} is down", "503, ms", 1000 * seconds(client), 2000
            server.start()


def slow_clients(scale: float) -> Iterator[Row]:
    """Ordinary requests with and without clients that never end theirs, in turn."""
    begun = (
        b"POST /v1/identify HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
        + recognition_service.TOKEN.encode()
        + b"\r\n"
    )
    late: dict[bool, list[float]] = {False: [], True: []}
    requests = max(5, round(200 * scale))
    with recognition_service.served(100, 1) as (port, _):
        for number in range(max(2, round(10 * scale))):
            for slow in (False, True) if number % 2 else (True, False):
                with contextlib.ExitStack() as stack:
                    waiting = [
                        stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                        for _ in range(SLOW_CLIENTS if slow else 0)
                    ]
                    for place, client in enumerate(waiting):
                        client.sendall(begun + b"Content-Length: 1000\r\n\r\n--x" * (place % 2))
                    time.sleep(1)  # until what came before, and the new connections, are dealt with
                    connection = http.client.HTTPConnection("127.0.0.1", port)
                    taken = []
                    for place in range(requests):
                        if slow:
                            waiting[place % SLOW_CLIENTS].sendall(b"X")
                        taken.append(recognition_service.ask(connection, "gallery", b""))
                    connection.close()
                late[slow].append(float(np.quantile(taken, 0.99)))
    ratios = np.array(late[True]) / np.array(late[False])
    yield f"{SLOW_CLIENTS} slow clients", "p99 of others, ms", 1000 * float(np.median(late[True])), float("nan")
    yield f"{SLOW_CLIENTS} slow clients", "p99 of others to that without, median", float(np.median(ratios)), 2


PARTS = (writers, kills, large_photos, engines_down, slow_clients)


def main(arguments: list[str]) -> None:
    """Measure all of it."""
    parser = argparse.ArgumentParser(prog="recognition.py faults", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of repetitions (%(default)s)")
    parser.add_argument("--only", nargs="*", choices=[part.__name__ for part in PARTS], help="all by default")
    parser.add_argument("--csv", type=Path, default=RESULTS, help="file to append to (results/recognition_faults.csv)")
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(ROOT))
    for part in PARTS:
        if options.only is None or part.__name__ in options.only:
            for fault, measured, value, limit in part(options.scale):
                verdict = "" if np.isnan(limit) else f"(limit {limit:g}) " + ("ok" if value <= limit else "OVER")
                print(f"{fault:30} {measured:40} {value:9.2f} {verdict}", flush=True)
                row = {
                    "date_utc": datetime.now(UTC).isoformat(timespec="seconds"),
                    "fault": fault,
                    "measured": measured,
                    "value": f"{value:.3f}",
                    "limit": "" if np.isnan(limit) else f"{limit:g}",
                    "load": f"{os.getloadavg()[0]:.1f}",
                    "hypersphere": hs.__version__,
                    "python": platform.python_version(),
                    "cpu": device_name("cpu"),
                    "cores": os.cpu_count(),
                }
                append_row(options.csv, row)


if __name__ == "__main__":
    main(sys.argv[1:])
