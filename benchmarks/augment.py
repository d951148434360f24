"""What augmentation costs: each kind alone and all together, beside a training step of a network.

    python benchmarks/augment.py [--device cuda|cpu] [--batch B] [--size S] [--backbone NAME] [--compile] [--csv FILE]

Every kind has probability 1 here, the dearest case, with its own defaults; "AdaFace's" and "small data" are sets as one
trains with. A row is the time on the device, the host running ahead as it does in training; the host's own time; and
the kernels launched. The share is of a training step without augmentation: bfloat16, channels-last, CosFace with 5,741
classes and SGD, its network compiled with `--compile` as the trainer compiles it. The last rows are whole steps with
augmentation in them, their share what that adds to steps measured just before. On a CPU times are of the call itself,
and the step is in float32.
"""

from __future__ import annotations

import argparse
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
from hypersphere.data import Augmentation

RESULTS = Path(__file__).parent / "results" / "augment.csv"
CLASSES = 5741
SLEEP = 20_000_000
"""Cycles that the GPU sleeps, some 10 ms, while the host sends what is then timed."""
LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx")
ADAFACE = {"flip": 0.5, "crop": 0.2, "low_resolution": 0.2, "photometric": 0.2}
KINDS: dict[str, dict[str, float]] = {
    "none (normalisation)": {},
    "flip": {"flip": 1.0},
    "flip + shift": {"flip": 1.0, "shift": 1.0},
    "crop": {"crop": 1.0},
    "rotate": {"rotate": 1.0},
    "zoom": {"zoom": 1.0},
    "rotate + zoom + shift + flip": {"rotate": 1.0, "zoom": 1.0, "shift": 1.0, "flip": 1.0},
    "low_resolution": {"low_resolution": 1.0},
    "photometric": {"photometric": 1.0},
    "grey": {"grey": 1.0},
    "erase": {"erase": 1.0},
    "AdaFace's": ADAFACE,
    "small data": {**ADAFACE, "rotate": 0.5, "zoom": 0.5, "shift": 0.5, "grey": 0.2, "erase": 0.5},
}
EVERYTHING = "all kinds"
KINDS[EVERYTHING] = {name: 1.0 for kinds in list(KINDS.values()) for name in kinds}
Run = Callable[[], object]


class Measured(NamedTuple):
    """Milliseconds on the device and on the host, and kernels launched (0 on a CPU)."""

    device_ms: float
    host_ms: float
    kernels: int


def measure(run: Run, device: str, repeats: int) -> Measured:
    """Medians over calls, after three that warm up."""
    for _ in range(3):
        run()
    if device == "cpu":
        times = [seconds_of(run) for _ in range(repeats)]
        return Measured(1000 * statistics.median(times), 1000 * statistics.median(times), 0)
    host, events = [], []
    for _ in range(repeats):
        torch.cuda.synchronize()
        torch.cuda._sleep(SLEEP)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        host.append(seconds_of(run))
        end.record()
        events.append((begin, end))
    torch.cuda.synchronize()
    device_ms = statistics.median(begin.elapsed_time(end) for begin, end in events)
    return Measured(device_ms, 1000 * statistics.median(host), kernels_of(run))


def seconds_of(run: Run) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def kernels_of(run: Run) -> int:
    """How many kernels a call launches."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        run()
        torch.cuda.synchronize()
    return sum(event.count for event in profile.key_averages() if event.key in LAUNCHES)


def steps_ms(step: Run, device: str, repeats: int) -> float:
    """Milliseconds of a step among others: all of them, the host included, over their number."""
    for _ in range(3):
        step()
    if device == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(repeats):
        step()
    if device == "cuda":
        torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - began) / repeats


def training_step(options: argparse.Namespace, device: str) -> Callable[[Tensor], None]:
    """A step of the optimizer on a batch of normalised images, as the trainer makes it."""
    torch.manual_seed(0)
    network = hs.create_backbone(options.backbone, dim=512, input_size=(options.size, options.size)).to(device)
    network.to(memory_format=torch.channels_last)
    head = hs.create_head("cosface", dim=512, num_classes=CLASSES, validate=False).to(device)
    parameters = [*network.parameters(), *head.parameters()]
    optimizer = hs.RowSGD(parameters, 0.001, momentum=0.9, weight_decay=5e-4, fused=device == "cuda")
    labels = torch.randint(CLASSES, (options.batch,), device=device)
    mode = "reduce-overhead" if device == "cuda" else "default"
    run = torch.compile(network, mode=mode) if options.compile else network

    def step(images: Tensor) -> None:
        if options.compile and device == "cuda":
            torch.compiler.cudagraph_mark_step_begin()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            embeddings = run(images.contiguous(memory_format=torch.channels_last))
        head(embeddings, labels).backward()
        optimizer.step()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", help="cuda or cpu; by default the best there is")
    parser.add_argument("--batch", type=int, default=256, help="images (%(default)s)")
    parser.add_argument("--size", type=int, default=112, help="their height and width (%(default)s)")
    parser.add_argument("--backbone", default="iresnet18", help="of the training step (%(default)s)")
    parser.add_argument("--compile", action="store_true", help="compile the network of the training step")
    parser.add_argument("--eager", action="store_true", help="leave the compiled augmentation out")
    parser.add_argument("--repeats", type=int, default=30, help="timed calls (%(default)s)")
    parser.add_argument("--csv", type=Path, default=RESULTS, help="file to append to (results/augment.csv)")
    options = parser.parse_args()
    device = choose_measured_device(options.device)
    torch._dynamo.config.recompile_limit = 8 * len(KINDS)  # all of them are one function to torch.compile
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (options.batch, 3, options.size, options.size), generator=generator).to(torch.uint8)
    images = images.to(device)
    print(
        f"{options.batch} images of {options.size} x {options.size} on {device_name(device)}; training step of"
        f" {options.backbone}, {'compiled' if options.compile else 'not compiled'}"
    )
    step = training_step(options, device)
    plain = Augmentation()(images, generator)
    step_ms = steps_ms(lambda: step(plain), device, options.repeats)
    common = {"date_utc": datetime.now(UTC).isoformat(timespec="seconds")}
    setup = {
        "batch": options.batch,
        "size": options.size,
        "backbone": options.backbone,
        "network_compiled": options.compile,
        "step_ms": f"{step_ms:.3f}",
        "torch": torch.__version__,
        "hypersphere": hs.__version__,
        "python": platform.python_version(),
        "device": device_name(device),
    }

    def report(kind: str, way: str, ms: float, extra: float, measured: Measured | None = None) -> None:
        share, kernels = extra / step_ms, measured.kernels if measured else ""
        host = f"{measured.host_ms:.3f}" if measured else ""
        print(f"{kind:<34}{way:<10}{ms:>10.3f}{host:>10}{kernels:>9}{share:>9.1%}", flush=True)
        row = {
            "kind": kind,
            "way": way,
            "ms": f"{ms:.4f}",
            "host_ms": host,
            "kernels": kernels,
            "share": f"{share:.4f}",
        }
        append_row(options.csv, {**common, **row, **setup})

    print(f"{'':<34}{'':<10}{'ms':>10}{'host ms':>10}{'kernels':>9}{'of step':>9}")
    ways = {"eager": lambda augment: augment}
    if not options.eager:
        ways["compiled"] = lambda augment: augment.compiled()
    for kind, settings in KINDS.items():
        for way, made in ways.items():
            augment = made(Augmentation(**settings))
            measured = measure(lambda augment=augment: augment(images, generator), device, options.repeats)
            report(kind, way, measured.device_ms, measured.device_ms, measured)
    for kind in ("flip + shift", "small data", EVERYTHING):
        for way, made in ways.items():
            augment = made(Augmentation(**KINDS[kind]))
            alone = steps_ms(lambda: step(plain), device, options.repeats)
            ms = steps_ms(lambda augment=augment: step(augment(images, generator)), device, options.repeats)
            report(f"whole step, {kind}", way, ms, ms - alone)
    print(f"\n{1000 * options.batch / step_ms:,.0f} images/s without augmentation")


if __name__ == "__main__":
    main()
