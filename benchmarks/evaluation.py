"""Large protocols beside the dense NumPy and scikit-learn way: IJB-C's 1:1 and MegaFace's search.

    python benchmarks/evaluation.py [--scale S] [--peer-scale S] [--threads T] [--task ijb|megaface] [--csv FILE]

Scale 1 is the real size: 23,124 templates and 15.7 million pairs; 3,530 probes and a million distractors; 512-d. The
dense way runs at `--peer-scale` (0.1), where it fits, and hypersphere at both; ratios are of the same size. Inputs are
random people, the same for everybody, and the figures must agree. Every run is a process of its own, which reports the
time from embeddings in memory to figures, and the most memory that the whole process ever held, inputs included. Scale
shrinks pairs and distractors, and templates and probes by its square root.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench import append_row, device_name, peak_bytes

import hypersphere as hs

RESULTS = Path(__file__).parent / "results" / "evaluation.csv"
DIM = 512
MIB = 2**20
OURS, DENSE = "hypersphere", "numpy + scikit-learn"
TARGETS = {"ijb": (30, 2048), "megaface": (240, 4096)}
"""Seconds and MiB that the real size should stay below, on two cores."""

Figures = dict[str, float]


@dataclass(frozen=True)
class Measured:
    """What one run of one contestant took, and what it found."""

    task: str
    contestant: str
    scale: float
    size: str
    seconds: float
    peak_mib: float
    figures: Figures


def draw_people(people: int, each: int, seed: int) -> Any:
    """(people x each, DIM) float32 unit vectors; two of one person have a cosine near 0.5."""
    import numpy as np

    rng = np.random.default_rng(seed)
    rows = np.empty((people * each, DIM), dtype=np.float32)
    for first in range(0, people, 4096):
        part = rows[first * each : (first + 4096) * each]
        part[:] = np.repeat(rng.standard_normal((len(part) // each, DIM), dtype=np.float32), each, axis=0)
        part += rng.standard_normal(part.shape, dtype=np.float32)
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return rows


def draw_pairs(scale: float) -> tuple[Any, Any, Any, Any]:
    """Templates, and pairs of a gallery and a probe template: left, right, same."""
    import numpy as np

    people = max(8, round(3531 * math.sqrt(scale)))
    probes = max(8, round(19_593 * math.sqrt(scale)))
    owner = np.concatenate([np.arange(people), np.arange(probes) % people]).astype(np.int32)
    rng = np.random.default_rng(0)
    units = rng.standard_normal((people, DIM), dtype=np.float32)[owner]
    units += rng.standard_normal(units.shape, dtype=np.float32)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    count = round(15_658_489 * scale)
    left = np.append(owner[people:], rng.integers(0, people, count))
    right = np.append(np.arange(people, people + probes), rng.integers(people, people + probes, count))
    order = rng.permutation(len(left))
    left, right = left[order].astype(np.int32), right[order].astype(np.int32)
    return units, left, right, owner[left] == owner[right]


def ijb_ours(scale: float) -> tuple[str, float, Figures]:
    """1:1 by matrix products and scores sorted in place."""
    import numpy as np

    from hypersphere.evaluation.protocols.ijb.files import TemplatePairs
    from hypersphere.evaluation.protocols.ijb.search import Templates
    from hypersphere.evaluation.protocols.ijb.template_pairs import verify_templates

    units, left, right, same = draw_pairs(scale)
    pairs = TemplatePairs(Path("pairs"), left, right, same, 0, np.empty(0, dtype=np.int64))
    templates = Templates(np.arange(len(units)), units, dict.fromkeys(range(len(units)), ""))
    start = time.perf_counter()
    found = verify_templates(pairs, templates, "at_most", [1e-2, 1e-4, 1e-5])
    seconds = time.perf_counter() - start
    figures = {name: found.metrics[name].value for name in ("auc", "tar@far=1e-2", "tar@far=1e-4")}
    return f"{len(units):,} templates, {len(left):,} pairs", seconds, figures


def ijb_dense(scale: float) -> tuple[str, float, Figures]:
    """1:1 as evaluation scripts do it: rows gathered by batches of pairs, all scores sorted by scikit-learn."""
    import numpy as np
    from sklearn.metrics import auc, roc_curve

    units, left, right, same = draw_pairs(scale)
    start = time.perf_counter()
    scores = np.zeros(len(left))
    for top in range(0, len(left), 100_000):
        part = slice(top, top + 100_000)
        scores[part] = np.sum(units[left[part]] * units[right[part]], axis=-1)
    fpr, tpr, _ = roc_curve(same, scores)
    figures = {"auc": float(auc(fpr, tpr))}
    for far in (1e-2, 1e-4):
        figures[f"tar@far=1e-{round(-math.log10(far))}"] = float(tpr[np.searchsorted(fpr, far, side="right") - 1])
    return f"{len(units):,} templates, {len(left):,} pairs", time.perf_counter() - start, figures


def draw_search(scale: float) -> tuple[Any, Any, int]:
    """Probes of 80 people, and distractors."""
    each = max(3, round(3530 / 80 * math.sqrt(scale)))
    return draw_people(80, each, 2), draw_people(round(1_000_000 * scale), 1, 3), each


def megaface_ours(scale: float) -> tuple[str, float, Figures]:
    """The protocol: blocks of distractors, the best of every probe, the highest scores of all."""
    import numpy as np

    from hypersphere.evaluation import Embeddings
    from hypersphere.evaluation.protocols import Megaface

    probes, distractors, each = draw_search(scale)
    near = Embeddings([f"p{k}" for k in range(len(probes))], probes)
    far = Embeddings([f"d{k}" for k in range(len(distractors))], distractors)
    people = np.repeat(np.arange(80), each)
    protocol = Megaface(Path("probes"), Path("distractors"), tuple(near.names), people, tuple(far.names), None, None, 0)
    start = time.perf_counter()
    found = protocol.evaluate(near, far, fars=[1e-4, 1e-6])
    seconds = time.perf_counter() - start
    figures = {name: found.metrics[name].value for name in ("rank-1", "rank-10", "tar@far=1e-6")}
    return f"{len(probes):,} probes, {len(distractors):,} distractors", seconds, figures


def megaface_dense(scale: float) -> tuple[str, float, Figures]:
    """All scores in one matrix, the k-th best by partition, the threshold from all of them sorted."""
    import numpy as np

    probes, distractors, each = draw_search(scale)
    start = time.perf_counter()
    scores = probes @ distractors.T
    own = (probes.reshape(80, each, DIM) @ probes.reshape(80, each, DIM).transpose(0, 2, 1)).reshape(len(probes), each)
    mates = own[np.tile(~np.eye(each, dtype=bool), (80, 1))].reshape(len(probes), each - 1)
    figures = {}
    for rank in (1, 10):
        bar = np.partition(scores, -rank, axis=1)[:, -rank, None]
        figures[f"rank-{rank}"] = float((mates > bar).mean())
    ordered = np.sort(scores, axis=None)
    figures["tar@far=1e-6"] = float((mates > ordered[-int(1e-6 * ordered.size) - 1]).mean())
    seconds = time.perf_counter() - start
    return f"{len(probes):,} probes, {len(distractors):,} distractors", seconds, figures


CONTESTANTS: dict[tuple[str, str], Callable[[float], tuple[str, float, Figures]]] = {
    ("ijb", OURS): ijb_ours,
    ("ijb", DENSE): ijb_dense,
    ("megaface", OURS): megaface_ours,
    ("megaface", DENSE): megaface_dense,
}


def run(task: str, contestant: str, scale: float) -> Measured:
    """One run; for a fresh process."""
    size, seconds, figures = CONTESTANTS[task, contestant](scale)
    return Measured(task, contestant, scale, size, seconds, peak_bytes() / MIB, figures)


def measure(task: str, contestant: str, scale: float) -> Measured:
    """One run in a process of its own."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(run, task, contestant, scale).result()


def check_agreement(first: Measured, second: Measured) -> None:
    """Both must find the same figures, but for rounding of scores at a threshold."""
    for name, value in first.figures.items():
        if abs(value - second.figures[name]) > 2e-3:
            raise SystemExit(f"{first.task}: {name} is {value} and {second.figures[name]}")


def print_run(measured: Measured, peer: Measured | None = None) -> None:
    """One line: what it took, and how many times less than the dense way."""
    print(f"{measured.task:9} {measured.contestant:21} {measured.seconds:8.1f} s {measured.peak_mib:8.0f} MiB", end="")
    if peer is not None:
        faster, smaller = peer.seconds / measured.seconds, peer.peak_mib / measured.peak_mib
        print(f"   {faster:5.2f}x faster, {smaller:5.2f}x smaller", end="")
    print(f"   {measured.size}")


def append_rows(path: Path, threads: int, rows: list[Measured]) -> None:
    """Add the runs to the CSV file, with the versions and the machine."""
    end = {
        "hypersphere": hs.__version__,
        "numpy": version("numpy"),
        "scikit_learn": version("scikit-learn"),
        "torch": version("torch"),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu": device_name("cpu"),
    }
    for row in rows:
        table = {
            "date_utc": datetime.now(UTC).isoformat(timespec="seconds"),
            "task": row.task,
            "contestant": row.contestant,
            "scale": row.scale,
            "size": row.size.replace(",", ""),
            "dim": DIM,
            "threads": threads,
            "seconds": f"{row.seconds:.2f}",
            "peak_mib": f"{row.peak_mib:.0f}",
            **end,
        }
        append_row(path, table)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--scale", type=share, default=1.0, help="of the real size (%(default)s)")
    parser.add_argument("--peer-scale", type=share, default=0.1, help="where the dense way runs too (%(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads of BLAS (%(default)s)")
    parser.add_argument("--task", choices=tuple(TARGETS), help="only this one")
    parser.add_argument("--csv", type=Path, default=RESULTS, help="file to append to (results/evaluation.csv)")
    return parser.parse_args()


def share(text: str) -> float:
    """Reads a number above 0 and at most 1."""
    try:
        number = float(text)
    except ValueError:
        number = 0
    if not 0 < number <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be above 0 and at most 1")
    return number


def main() -> None:
    options = arguments()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(options.threads)
    rows = []
    for task in [options.task] if options.task else TARGETS:
        ours, peer = (measure(task, contestant, options.peer_scale) for contestant in (OURS, DENSE))
        check_agreement(ours, peer)
        print_run(peer)
        print_run(ours, peer)
        rows += [peer, ours]
        if options.scale > options.peer_scale:
            rows.append(measure(task, OURS, options.scale))
            print_run(rows[-1])
        if options.scale == 1:
            seconds, mebibytes = TARGETS[task]
            print(f"{task:9} {'to stay below':21} {seconds:8.1f} s {mebibytes:8.0f} MiB")
    append_rows(options.csv, options.threads, rows)


if __name__ == "__main__":
    main()
