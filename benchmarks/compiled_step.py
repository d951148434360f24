"""What a compiled training step of network and head costs beside the eager one: time and peak memory.

    python benchmarks/compiled_step.py [--device cuda|cpu] [--classes C ...] [--batch B] [--backbone NAME] [--csv FILE]

A step is forward and backward of the network and ArcFace under bfloat16 autocast (float32 on a CPU), without the
optimizer. Each way runs alone: the eager step; the network compiled and the head not; both in one graph
(`fullgraph=True`) with the default engine, which stays what it is in eager mode; and both with `dense`, which holds the
N x C scores. Times are those of steps among others, the host included: the median of rounds. Memory is the peak beyond
parameters and inputs, gradients included. The ratio is over the eager step: at most 1 is what compiling is for.
"""

from __future__ import annotations

import argparse
import gc
import platform
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import torch
from bench import append_row, choose_measured_device, device_name
from torch import Tensor

import hypersphere as hs

RESULTS = Path(__file__).parent / "results" / "compiled.csv"
DIM, ROUNDS = 512, 5
EAGER = "eager"
WAYS = {
    EAGER: "auto",
    "network compiled, head eager": "auto",
    "compiled in one graph": "auto",
    "compiled in one graph, dense": "dense",
}
AGREEMENT = 0.02
"""Of the losses of all ways, relative: a compiled network rounds bfloat16 in other places."""


class Measured(NamedTuple):
    """Milliseconds of a step, GiB at its peak (None on a CPU), and the loss."""

    ms: float
    gib: float | None
    loss: float


def make_step(way: str, classes: int, options: argparse.Namespace, device: str) -> Callable[[], Tensor]:
    """Forward and backward on one batch; returns the loss."""
    torch.manual_seed(0)
    network = hs.create_backbone(options.backbone, dim=DIM, input_size=(options.size, options.size)).to(device)
    network.to(memory_format=torch.channels_last)
    head = hs.create_head(
        "arcface", dim=DIM, num_classes=classes, engine=WAYS[way], validate=False, device=device, prototype_norm=1.0
    )
    images = torch.randn(options.batch, 3, options.size, options.size, device=device)
    images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(classes, (options.batch,), device=device)
    parameters = [*network.parameters(), *head.parameters()]
    compiled = {"fullgraph": True, "backend": options.backend} | ({"mode": options.mode} if options.mode else {})
    run = torch.compile(network, **compiled) if way == "network compiled, head eager" else network

    def loss_of(images: Tensor, labels: Tensor) -> Tensor:
        return head(run(images), labels)

    whole = torch.compile(loss_of, **compiled) if way.startswith("compiled") else loss_of

    def step() -> Tensor:
        for parameter in parameters:
            parameter.grad = None
        if way != EAGER and device == "cuda":
            torch.compiler.cudagraph_mark_step_begin()
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            loss = whole(images, labels)
        loss.backward()
        return loss.detach()

    return step


def measure(way: str, classes: int, options: argparse.Namespace, device: str) -> Measured | None:
    """One way alone, after steps that compile and warm up; None if it does not fit the device."""
    cuda = device == "cuda"
    try:
        step = make_step(way, classes, options, device)
        held = torch.cuda.memory_allocated() if cuda else 0
        loss = float(step())
        for _ in range(3):
            step()
        if cuda:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        rounds = [seconds_of(step, options.repeats, cuda) for _ in range(ROUNDS)]
        peak = (torch.cuda.max_memory_allocated() - held) / 2**30 if cuda else None
        return Measured(1000 * statistics.median(rounds) / options.repeats, peak, loss)
    except torch.cuda.OutOfMemoryError:
        return None
    finally:
        step = None
        if way != EAGER:
            torch.compiler.reset()
        gc.collect()
        if cuda:
            torch.cuda.empty_cache()


def seconds_of(step: Callable[[], object], repeats: int, cuda: bool) -> float:
    began = time.perf_counter()
    for _ in range(repeats):
        step()
    if cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", help="cuda or cpu; by default the best there is")
    parser.add_argument("--classes", type=int, nargs="+", default=[85_742, 1_000_000], help="numbers of classes")
    parser.add_argument("--batch", type=int, default=256, help="images (%(default)s)")
    parser.add_argument("--size", type=int, default=112, help="their height and width (%(default)s)")
    parser.add_argument("--backbone", default="iresnet18", help="the network (%(default)s)")
    parser.add_argument("--backend", default="inductor", help="of torch.compile (%(default)s)")
    parser.add_argument("--mode", help="of torch.compile, for example reduce-overhead")
    parser.add_argument("--repeats", type=int, default=20, help=f"steps of each of {ROUNDS} rounds (%(default)s)")
    parser.add_argument("--csv", type=Path, default=RESULTS, help="file to append to (results/compiled.csv)")
    options = parser.parse_args()
    device = choose_measured_device(options.device)
    print(
        f"{options.backbone} and ArcFace, {options.batch} images of {options.size} x {options.size}, on"
        f" {device_name(device)}, torch {torch.__version__}, {options.backend}, mode {options.mode or 'default'}"
    )
    common = {
        "batch": options.batch,
        "size": options.size,
        "backbone": options.backbone,
        "backend": options.backend,
        "mode": options.mode or "default",
        "torch": torch.__version__,
        "hypersphere": hs.__version__,
        "python": platform.python_version(),
        "device": device_name(device),
    }
    for classes in options.classes:
        print(f"\n{f'{classes:,} classes':<34}{'ms':>10}{'/ eager':>9}{'peak GiB':>10}{'loss':>10}")
        eager: Measured | None = None
        for way, engine in WAYS.items():
            found = measure(way, classes, options, device)
            if found is None:
                print(f"{way:<34}{'out of memory':>29}")
                continue
            eager = eager or found
            gib = "-" if found.gib is None else f"{found.gib:.2f}"
            print(f"{way:<34}{found.ms:>10.2f}{found.ms / eager.ms:>9.3f}{gib:>10}{found.loss:>10.4f}", flush=True)
            if abs(found.loss - eager.loss) > AGREEMENT * abs(eager.loss):
                raise SystemExit(f"{way}: the loss {found.loss} is not the eager one, {eager.loss}")
            row = {
                "date_utc": datetime.now(UTC).isoformat(timespec="seconds"),
                "way": way,
                "engine": engine,
                "classes": classes,
                "ms": f"{found.ms:.3f}",
                "over_eager": f"{found.ms / eager.ms:.4f}",
                "peak_gib": gib,
            }
            append_row(options.csv, row | common)


if __name__ == "__main__":
    main()
