"""ArcFace, forward and backward, side by side: time and peak memory against pytorch-metric-learning.

    python benchmarks/heads.py [--rows N] [--dim d] [--classes C] [--repeats R] [--threads T] [--csv FILE]

All contestants compute in float32 on the same inputs, and must agree on the loss. They are timed in one process, in
turn, round after round. Peak memory is measured for each in a process of its own.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import math
import multiprocessing
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear, normalize

import hypersphere as hs
from hypersphere.core import Progress

SCALE, MARGIN = 64.0, 0.5
PEER = "pytorch-metric-learning"
RESULTS = Path(__file__).parent / "results" / "heads.csv"
MIB = 2**20

Step = Callable[[], float]


@dataclass(frozen=True)
class Size:
    """How large the problem is, and how many threads work on it."""

    rows: int
    dim: int
    classes: int
    threads: int


class Inputs(NamedTuple):
    """Embeddings (N, d) within 45 degrees of their prototypes, labels (N,) and prototypes (C, d)."""

    embeddings: Tensor
    labels: Tensor
    prototypes: Tensor


class Measured(NamedTuple):
    """Median and interquartile range of the time of a step, and its peak memory."""

    median_ms: float
    iqr_ms: float
    peak_mib: float


def draw(size: Size) -> Inputs:
    """The same inputs for everybody."""
    generator = torch.Generator().manual_seed(0)
    prototypes = torch.randn(size.classes, size.dim, generator=generator)
    labels = torch.randint(size.classes, (size.rows,), generator=generator)
    noise = torch.randn(size.rows, size.dim, generator=generator)
    return Inputs(normalize(prototypes[labels]) + 0.7 * normalize(noise), labels, prototypes)


class PlainArcFace(nn.Module):
    """ArcFace as it is usually written in torch."""

    def __init__(self, prototypes: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(prototypes.clone())

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        cosines = linear(normalize(embeddings), normalize(self.weight))
        own = labels[:, None]
        angle = torch.arccos(cosines.gather(1, own).clamp(-1 + 1e-7, 1 - 1e-7))
        return cross_entropy(SCALE * cosines.scatter(1, own, torch.cos(angle + MARGIN)), labels)


def plain_step(inputs: Inputs) -> Step:
    """A step of plain torch."""
    loss = PlainArcFace(inputs.prototypes)
    return make_step(loss, loss.weight, inputs)


def head_step(engine: str) -> Callable[[Inputs], Step]:
    """Makes a step of hypersphere's head on one engine."""

    def make(inputs: Inputs) -> Step:
        classes, dim = inputs.prototypes.shape
        head = hs.create_head("arcface", dim=dim, num_classes=classes, engine=engine, scale=SCALE, margin=MARGIN)
        return make_step(head, give(head.weight, inputs.prototypes), inputs)

    return make


def peer_step(inputs: Inputs) -> Step:
    """A step of pytorch-metric-learning; its margin is in degrees, its weight (d, C)."""
    from pytorch_metric_learning.losses import ArcFaceLoss

    classes, dim = inputs.prototypes.shape
    loss = ArcFaceLoss(num_classes=classes, embedding_size=dim, margin=math.degrees(MARGIN), scale=SCALE)
    return make_step(loss, give(loss.W, inputs.prototypes.T), inputs)


CONTESTANTS: dict[str, Callable[[Inputs], Step]] = {
    "hypersphere chunked": head_step("chunked"),
    "hypersphere dense": head_step("dense"),
    "plain torch": plain_step,
    PEER: peer_step,
}


def give(weight: Tensor, prototypes: Tensor) -> Tensor:
    """The weight, holding these prototypes."""
    with torch.no_grad():
        return weight.copy_(prototypes)


def make_step(loss: nn.Module, weight: Tensor, inputs: Inputs) -> Step:
    """Forward and backward to embeddings and prototypes, from gradients set to None; returns the loss."""
    embeddings = inputs.embeddings.clone().requires_grad_()

    def step() -> float:
        weight.grad = embeddings.grad = None
        value: Tensor = loss(embeddings, inputs.labels)
        value.backward()  # type: ignore[no-untyped-call]
        return value.item()

    return step


def resident_bytes() -> int:
    """Memory that this process holds now; the most it ever held where the system does not say."""
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[1]) * resource.getpagesize() if pages.exists() else peak_bytes()


def peak_bytes() -> int:
    """The most memory this process ever held."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def peak_of_step(contestant: str, size: Size) -> float:
    """MiB that one step takes beyond what the process, with inputs and prototypes, held before; for a fresh process."""
    torch.set_num_threads(size.threads)
    make = CONTESTANTS[contestant]
    make(draw(replace(size, rows=8, classes=64)))()
    inputs = draw(size)
    step = make(inputs)
    before = resident_bytes()
    step()
    return max(peak_bytes() - before, resource.getpagesize()) / MIB


def measure_memory(size: Size) -> dict[str, float]:
    """Peak MiB of every contestant, each in a new process."""
    context = multiprocessing.get_context("spawn")
    peaks = {}
    with (
        Progress("measuring memory", "contestants") as report,
        ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool,
    ):
        for name in CONTESTANTS:
            peaks[name] = pool.submit(peak_of_step, name, size).result()
            report(len(peaks), len(CONTESTANTS))
    return peaks


def measure_times(size: Size, repeats: int) -> dict[str, list[float]]:
    """Milliseconds of every step of every contestant, in interleaved rounds after one of warm-up."""
    torch.set_num_threads(size.threads)
    inputs = draw(size)
    steps = {name: make(inputs) for name, make in CONTESTANTS.items()}
    check_agreement({name: step() for name, step in steps.items()})
    times: dict[str, list[float]] = {name: [] for name in steps}
    with Progress("timing", "rounds") as report:
        for done in range(1, repeats + 1):
            for name, step in steps.items():
                start = time.perf_counter()
                step()
                times[name].append(1000 * (time.perf_counter() - start))
            report(done, repeats)
    return times


def check_agreement(losses: dict[str, float]) -> None:
    """All contestants must compute the same loss."""
    if any(not math.isclose(loss, losses[PEER], rel_tol=1e-3, abs_tol=1e-5) for loss in losses.values()):
        raise SystemExit(f"the contestants do not compute the same loss: {losses}")


def summarise(times: dict[str, list[float]], peaks: dict[str, float]) -> dict[str, Measured]:
    """Median, interquartile range and peak of every contestant."""
    measured = {}
    for name, own in times.items():
        low, _, high = statistics.quantiles(own, n=4, method="inclusive")
        measured[name] = Measured(statistics.median(own), high - low, peaks[name])
    return measured


def print_table(size: Size, repeats: int, measured: dict[str, Measured]) -> None:
    """Time and memory, and how many times less of each than pytorch-metric-learning takes."""
    peer = measured[PEER]
    print(f"ArcFace, forward + backward, float32: {size.rows} x {size.dim}, {size.classes:,} classes,", end=" ")
    print(f"{size.threads} thread{'s' * (size.threads != 1)}, median of {repeats} rounds (interquartile range)")
    print(f"{'':24} {'ms':>7} {'(iqr)':>7} {'faster':>7} {'MiB':>7} {'smaller':>8}")
    for name, own in measured.items():
        faster, smaller = peer.median_ms / own.median_ms, peer.peak_mib / own.peak_mib
        print(f"{name:24} {own.median_ms:7.0f} {f'({own.iqr_ms:.0f})':>7}", end=" ")
        print(f"{faster:6.2f}x {own.peak_mib:7.0f} {smaller:7.2f}x")
    print(f"faster, smaller: than {PEER}. MiB: peak resident memory of one step in a process of its own, beyond the")
    gradient = size.classes * size.dim * 4 / MIB
    print(f"parameters and inputs; the gradient of the prototypes ({gradient:.0f} MiB) is counted for everybody.")


def append_rows(path: Path, size: Size, measured: dict[str, Measured]) -> None:
    """Add one row per contestant to the CSV file, with the versions and the machine."""
    start = {"date_utc": datetime.now(UTC).isoformat(timespec="seconds")}
    end = {
        "torch": torch.__version__,
        "hypersphere": hs.__version__,
        "pytorch_metric_learning": version(PEER),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu": cpu_model(),
    }
    rows = []
    for name, own in measured.items():
        numbers = {key: f"{value:.1f}" for key, value in own._asdict().items()}
        rows.append({**start, "contestant": name, **asdict(size), **numbers, **end})
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        if file.tell() == 0:
            writer.writeheader()
        writer.writerows(rows)


def cpu_model() -> str:
    """The processor's name."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=at_least(1), default=256, help="embeddings in the batch (%(default)s)")
    parser.add_argument("--dim", type=at_least(1), default=512, help="width of the embeddings (%(default)s)")
    parser.add_argument("--classes", type=at_least(2), default=50_000, help="number of prototypes (%(default)s)")
    parser.add_argument("--repeats", type=at_least(2), default=15, help="timed rounds (%(default)s)")
    parser.add_argument(
        "--threads", type=at_least(1), default=torch.get_num_threads(), help="threads to compute with (%(default)s)"
    )
    parser.add_argument("--csv", type=Path, default=RESULTS, help="file to append to (benchmarks/results/heads.csv)")
    return parser.parse_args()


def at_least(least: int) -> Callable[[str], int]:
    """Reads an integer of at least `least`."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} must be an integer of at least {least}")
        return int(text)

    return read


def main() -> None:
    options = arguments()
    if importlib.util.find_spec("pytorch_metric_learning") is None:
        raise SystemExit(f"{PEER} is not installed; this benchmark needs it: pip install 'hypersphere[bench]'")
    size = Size(options.rows, options.dim, options.classes, options.threads)
    peaks = measure_memory(size)
    measured = summarise(measure_times(size, options.repeats), peaks)
    print_table(size, options.repeats, measured)
    append_rows(options.csv, size, measured)


if __name__ == "__main__":
    main()
