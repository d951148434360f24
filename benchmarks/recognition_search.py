"""Exact 1:N search against FAISS flat on one thread, and the engines of galleries: search and acknowledged enrolments.

Contestants search the same unit vectors (rounded to float16) for the same probes, in turn, round after round; ratios
are medians over rounds, so that what else the machine does falls on all of them. Every answer must have FAISS's ids.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench import append_row, device_name

import hypersphere as hs
from hypersphere.recognition.gallery.stored_template import Record, packed

RESULTS = Path(__file__).parent / "results" / "recognition_search.csv"
PEER = "FAISS flat"
K = 10
_BLOCK = 50_000


def draw(count: int, dim: int, seed: int) -> Iterator[Any]:
    """Blocks of random unit vectors, rounded to float16: the hardest case, nothing is near anything."""
    draws = np.random.default_rng(seed)
    for top in range(0, count, _BLOCK):
        rows = draws.standard_normal((min(_BLOCK, count - top), dim), dtype=np.float32)
        yield (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16)


def unit(rows: Any) -> Any:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def build(count: int, dim: int) -> dict[str, Callable[[Any], list[list[int]]]]:
    """The contestants, each a function from probes to ids."""
    import faiss

    faiss.omp_set_num_threads(1)
    torch.set_num_threads(1)
    flat = faiss.IndexFlatIP(dim)
    ours = {name: hs.recognition.ExactSearch(dim, first_pass=name) for name in ("float32", "int8")}
    for block in draw(count, dim, 0):
        flat.add(block.astype(np.float32))
        for search in ours.values():
            search.append(block)

    def by(search: Any) -> Callable[[Any], list[list[int]]]:
        return lambda probes: [positions[:K].tolist() for positions, _ in search.search(probes, K)]

    return {
        PEER: lambda probes: flat.search(probes, K)[1].tolist(),
        **{f"hypersphere {name}": by(search) for name, search in ours.items()},
    }


def measure_search(count: int, dim: int, rounds: int) -> Iterator[dict[str, Any]]:
    """One and many probes at a time, all contestants in turn."""
    contestants = build(count, dim)
    draws = np.random.default_rng(1)
    for probes in (1, 16):
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
        for number in range(rounds + 1):
            asked = unit(draws.standard_normal((probes, dim)))
            answers = {}
            for name, search in contestants.items():
                start, cpu = time.perf_counter(), time.thread_time()
                answers[name] = search(asked)
                if number:
                    taken[name].append((time.perf_counter() - start, time.thread_time() - cpu))
            different = [name for name, ids in answers.items() if ids != answers[PEER]]
            if different:
                raise SystemExit(f"{different[0]} does not find what {PEER} finds")
        peer = np.array(taken[PEER])
        for name, seconds in taken.items():
            wall, cpu_time = np.array(seconds).T
            yield {
                "task": "search",
                "contestant": name,
                "templates": count,
                "probes": probes,
                "ms": 1000 * float(np.median(wall)),
                "least_ms": 1000 * float(wall.min()),
                "cpu_ms": 1000 * float(np.median(cpu_time)),
                "of_peer": float(np.median(wall / peer[:, 0])),
                "cpu_of_peer": float(np.median(cpu_time / peer[:, 1])),
            }


@contextmanager
def started(engine: str, folder: str) -> Iterator[str]:
    """The address of a new gallery of an engine."""
    if engine == "sqlite":
        yield f"{folder}/people.db"
        return
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.recognition.gallery.servers import Milvus, Postgres

    with closing(Postgres(fsync=True) if engine == "postgres" else Milvus()) as server:
        yield server.address_of("people")


def measure_engines(engines: list[str], count: int, dim: int, rounds: int) -> Iterator[dict[str, Any]]:
    """Fill a gallery of each engine, then search them and enrol one by one, in turn; ratios are to the first engine."""
    contract = hs.models.Contract(input_size=(112, 112), dim=dim, digest="0123456789abcdef")
    searched: dict[str, list[float]] = {engine: [] for engine in engines}
    enrolled: dict[str, list[float]] = {engine: [] for engine in engines}
    with ExitStack() as stack:
        galleries = {}
        for engine in engines:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            address = stack.enter_context(started(engine, folder))
            with hs.open_gallery(address, contract=contract, create=True) as gallery:
                rate = count / _seconds(lambda gallery=gallery: gallery.store(_records(count, dim), ""))
            galleries[engine] = stack.enter_context(hs.open_gallery(address, contract=contract))
            first = _seconds(lambda engine=engine: galleries[engine].search(unit(np.ones((1, dim))), K))
            common = {"contestant": engine, "templates": count, "probes": 1}
            yield {**common, "task": "gallery bulk", "per_s": rate}
            yield {**common, "task": "gallery open and first search", **_times([first])}
        draws = np.random.default_rng(2)
        for number in range(rounds + 1):
            probe, rows = unit(draws.standard_normal((1, dim))), unit(draws.standard_normal((10, dim)))
            for engine, gallery in galleries.items():
                seconds = _seconds(lambda gallery=gallery, probe=probe: gallery.search(probe, K))
                if number:
                    searched[engine].append(seconds)
            for row in rows:
                for engine, gallery in galleries.items():
                    enrolled[engine].append(_seconds(lambda gallery=gallery, row=row: gallery.enroll("new", row)))
    for task, taken in (("gallery search", searched), ("gallery enroll", enrolled)):
        for engine, each in taken.items():
            ratio = float(np.median(np.array(each) / np.array(taken[engines[0]])))
            row = {"task": task, "contestant": engine, "templates": count, "probes": 1, **_times(each)}
            yield {**row, "of_peer": ratio, "per_s": len(each) / sum(each)}


def _records(count: int, dim: int) -> Iterator[Record]:
    for number, row in enumerate(row for block in draw(count, dim, 0) for row in block):
        yield Record(id=f"{number:09}", subject=f"p{number // 4}", vector=packed(row))


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _times(seconds: list[float]) -> dict[str, float]:
    return {
        "ms": 1000 * float(np.median(seconds)),
        "least_ms": 1000 * min(seconds),
        "p95_ms": 1000 * float(np.quantile(seconds, 0.95)),
    }


COLUMNS = ("ms", "least_ms", "p95_ms", "cpu_ms", "of_peer", "cpu_of_peer", "per_s")


def report(row: dict[str, Any], dim: int, path: Path) -> None:
    """Print a row and append it to the file."""
    numbers = "  ".join(f"{name} {row[name]:.2f}" for name in COLUMNS if name in row)
    print(f"{row['task']:30} {row['contestant']:20} {row['templates']:>9,} x {row['probes']:<3} {numbers}", flush=True)
    append_row(
        path,
        {
            "date_utc": datetime.now(UTC).isoformat(timespec="seconds"),
            **{name: row[name] for name in ("task", "contestant", "templates", "probes")},
            "dim": dim,
            "threads": 1,
            "load": f"{os.getloadavg()[0]:.1f}",
            **{name: f"{row[name]:.3f}" if name in row else "" for name in COLUMNS},
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            "hypersphere": hs.__version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "faiss": version("faiss-cpu"),
            "python": platform.python_version(),
            "platform": f"{platform.system()} {platform.machine()}",
            "cpu": device_name("cpu"),
        },
    )


def main(arguments: list[str]) -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(prog="recognition.py search", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--templates", type=int, nargs="*", default=[100_000, 1_000_000], help="sizes (%(default)s)")
    parser.add_argument("--engines", nargs="*", default=["sqlite", "postgres", "milvus"], help="%(default)s")
    parser.add_argument("--engine-templates", type=int, default=100_000, help="in each engine (%(default)s)")
    parser.add_argument("--dim", type=int, default=512, help="width of the templates (%(default)s)")
    parser.add_argument("--rounds", type=int, default=15, help="of each measurement (%(default)s)")
    parser.add_argument("--csv", type=Path, default=RESULTS, help="file to append to (results/recognition_search.csv)")
    options = parser.parse_args(arguments)
    for count in options.templates:
        for row in measure_search(count, options.dim, options.rounds):
            report(row, options.dim, options.csv)
    if options.engines:
        for row in measure_engines(options.engines, options.engine_templates, options.dim, options.rounds):
            report(row, options.dim, options.csv)


if __name__ == "__main__":
    main(sys.argv[1:])
