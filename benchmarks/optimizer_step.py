"""One optimizer step of the prototypes on this GPU: ours beside torch's fused ones, and beside the bytes it must move.

    python benchmarks/optimizer_step.py [--classes C ...] [--dim d] [--share q] [--repeats R] [--csv FILE] [--sweep]

Float32 rows, momentum and decay. The floor is the time in which this GPU copies as many bytes as the step reads and
writes once. Contestants take turns, each is timed by CUDA events; all must agree with torch first. `--sweep` times the
kernel with other launches, and writes nothing.

    all rows      torch.optim.SGD(fused=True), and our kernel on the same dense gradient
    unit          the gradient is that of the unit vectors: a compiled pass through the normalisation and torch's step,
                  or one pass of our kernel
    sampled       only a share of the rows has a gradient: `RowSGD` and `RowAdamW`, as a kernel and in plain torch
    ArcFace       forward, backward and step of a whole head in bf16, N = 1024: all classes, and a share of them, with
                  the memory beyond prototypes and momentum
"""

from __future__ import annotations

import argparse
import platform
import statistics
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import torch
from bench import append_row
from torch import Tensor, nn

import hypersphere as hs
from hypersphere.engines import use_triton
from hypersphere.geometry import EPS, normalize
from hypersphere.optim import row_steps as steps
from hypersphere.optim.row_steps import AdamState, adamw_rows, sgd_rows

RESULTS = Path(__file__).parent / "results" / "optimizer.csv"
CLASSES = (85_742, 1_000_000, 4_000_000)
SGD: dict[str, float] = {"lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4}
ADAMW: dict[str, float] = {"lr": 1e-3, "weight_decay": 5e-4}
ROWS = 1024
PLAIN = "torch SGD fused, all rows"
SPEED_BYTES = 2**32
NUMBERS = ("median_ms", "iqr_ms", "of_torch", "floor_ms", "of_floor", "peak_gib")
LAUNCHES = [steps.Launch(numbers, warps) for numbers in (512, 1024, 2048, 4096, 8192) for warps in (4, 8)]


class Tensors(NamedTuple):
    """One set for all contestants: the step goes on from whatever the one before left."""

    weight: nn.Parameter
    grad: Tensor
    buffer: Tensor
    square: Tensor
    step: Tensor
    index: Tensor
    rows: Tensor


class Contestant(NamedTuple):
    """A step, and how many numbers per entry of how many rows it must read and write."""

    run: Callable[[], object]
    moves: int
    rows: int


def draw(classes: int, dim: int, share: float) -> Tensors:
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(classes, dim, device="cuda"))
    count = max(1, round(share * classes))
    index = torch.randperm(classes, device="cuda")[:count].sort().values
    grad = torch.randn_like(weight)
    zeros = torch.zeros_like(weight), torch.zeros_like(weight), torch.zeros(classes, device="cuda")
    return Tensors(weight, grad.detach(), *(zero.detach() for zero in zeros), index, grad.detach()[index])


def torch_step(optimizer: torch.optim.Optimizer, weight: nn.Parameter, grad: Tensor) -> Callable[[], object]:
    def run() -> None:
        weight.grad = grad
        optimizer.step()
        weight.grad = None

    return run


def torch_sgd(t: Tensors) -> torch.optim.Optimizer:
    optimizer = torch.optim.SGD([t.weight], **SGD, fused=True)
    optimizer.state[t.weight]["momentum_buffer"] = t.buffer
    return optimizer


def torch_adamw(t: Tensors) -> torch.optim.Optimizer:
    optimizer = torch.optim.AdamW([t.weight], **ADAMW, fused=True)
    state = {"step": torch.zeros((), device="cuda"), "exp_avg": t.buffer, "exp_avg_sq": t.square}
    optimizer.state[t.weight].update(state)
    return optimizer


def row_optimizer(t: Tensors, kind: Callable[..., torch.optim.Optimizer], **options: Any) -> torch.optim.Optimizer:
    optimizer = kind([t.weight], **options)
    own = {"momentum_buffer": t.buffer, "exp_avg": t.buffer, "exp_avg_sq": t.square, "step": t.step}
    kept = ("momentum_buffer",) if kind is hs.RowSGD else ("exp_avg", "exp_avg_sq", "step")
    optimizer.state[t.weight].update({name: own[name] for name in kept})
    return optimizer


def through_norm(weight: Tensor, grad: Tensor) -> Tensor:
    """The gradient of the weight from that of its unit rows, as a pass of its own."""
    inverse = (weight.square().sum(1, keepdim=True) + EPS).rsqrt()
    unit = weight * inverse
    return (grad - unit * (unit * grad).sum(1, keepdim=True)) * inverse


def contestants(t: Tensors) -> dict[str, Contestant]:
    sgd, whole, part = torch_sgd(t), len(t.weight), len(t.index)
    compiled = torch.compile(through_norm)
    sparse = torch.sparse_coo_tensor(t.index[None], t.rows, t.weight.shape, is_coalesced=True, check_invariants=False)
    options = {"index": t.index, **SGD}
    state = AdamState(t.buffer, t.square, t.step)

    def unit_then_torch() -> None:
        t.weight.grad = compiled(t.weight.detach(), t.grad)
        sgd.step()
        t.weight.grad = None

    def without_kernel(run: Callable[[], object]) -> Callable[[], None]:
        def plain() -> None:
            with use_triton(False):
                run()

        return plain

    def sgd_part() -> None:
        sgd_rows(t.weight.detach(), t.rows, t.buffer, **options)

    def adamw_part() -> None:
        adamw_rows(t.weight.detach(), t.rows, state, t.index, **ADAMW)

    made = {
        PLAIN: (torch_step(sgd, t.weight, t.grad), 5, whole),
        "kernel SGD, all rows": (lambda: sgd_rows(t.weight.detach(), t.grad, t.buffer, **SGD), 5, whole),
        "unit: compiled pass + torch SGD fused": (unit_then_torch, 5, whole),
        "unit: kernel SGD": (
            lambda: sgd_rows(t.weight.detach(), t.grad, t.buffer, **SGD, unit_eps=EPS),
            5,
            whole,
        ),
        "sampled: kernel SGD": (sgd_part, 5, part),
        "sampled: RowSGD": (torch_step(row_optimizer(t, hs.RowSGD, **SGD), t.weight, sparse), 5, part),
        "sampled: SGD in plain torch": (without_kernel(sgd_part), 5, part),
        "torch AdamW fused, all rows": (torch_step(torch_adamw(t), t.weight, t.grad), 7, whole),
        "sampled: RowAdamW": (torch_step(row_optimizer(t, hs.RowAdamW, **ADAMW), t.weight, sparse), 7, part),
        "sampled: AdamW in plain torch": (without_kernel(adamw_part), 7, part),
    }
    return {name: Contestant(*entry) for name, entry in made.items()}


def check(dim: int) -> None:
    """Three steps of every kernel against torch's on the same rows, in float32."""
    for unit in (False, True):
        t = draw(1003, dim, 0.3)
        other = t.weight.detach().clone().requires_grad_()
        reference = torch.optim.SGD([other], **SGD)
        for _ in range(3):
            other.grad = None
            ((normalize(other) if unit else other) * t.grad).sum().backward()  # type: ignore[no-untyped-call]
            reference.step()
            sgd_rows(t.weight.detach(), t.grad, t.buffer, **SGD, unit_eps=EPS if unit else None)
        compare("SGD", t.weight, other)
        compare("SGD momentum", t.buffer, reference.state[other]["momentum_buffer"])
    for name, kind, torchs, options in (
        ("RowSGD", hs.RowSGD, torch.optim.SGD, SGD),
        ("RowAdamW", hs.RowAdamW, torch.optim.AdamW, ADAMW),
    ):
        t = draw(1003, dim, 0.3)
        before = t.weight.detach().clone()
        alone = nn.Parameter(before[t.index])
        optimizer, reference = kind([t.weight], **options), torchs([alone], **options)
        for _ in range(3):
            t.weight.grad = torch.sparse_coo_tensor(t.index[None], t.rows, t.weight.shape, check_invariants=False)
            alone.grad = t.rows.clone()
            optimizer.step()
            reference.step()
        wanted = before.index_copy(0, t.index, alone.detach())
        compare(name, t.weight, wanted)
        others = torch.ones(1003, dtype=torch.bool, device="cuda")
        others[t.index] = False
        if not torch.equal(t.weight[others], before[others]):
            raise SystemExit(f"{name} moved rows without a gradient")


def compare(name: str, mine: Tensor, theirs: Tensor) -> None:
    error = float((mine - theirs).detach().abs().max())
    print(f"{name}: largest difference from torch {error:.1e}")
    if not error < 1e-5:
        raise SystemExit(f"{name} does not agree with torch")


def copy_speed() -> float:
    """Bytes a second that a copy reads and writes."""
    source = torch.zeros(SPEED_BYTES // 4, device="cuda")
    target = torch.empty_like(source)
    return 2 * SPEED_BYTES / (statistics.median(times({"copy": lambda: target.copy_(source)}, 20)["copy"]) / 1000)


def times(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Milliseconds of every run, in interleaved rounds after three of warm-up."""
    events: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {name: [] for name in runs}
    for round_ in range(repeats + 3):
        for name, run in runs.items():
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            run()
            end.record()
            if round_ >= 3:
                events[name].append((start, end))
    torch.cuda.synchronize()
    return {name: [start.elapsed_time(end) for start, end in pairs] for name, pairs in events.items()}


def measure(classes: int, dim: int, share: float, repeats: int, speed: float) -> list[dict[str, Any]]:
    entries = contestants(draw(classes, dim, share))
    measured = times({name: entry.run for name, entry in entries.items()}, repeats)
    entries = {name: entry._replace(run=lambda: None) for name, entry in entries.items()}  # frees the tensors
    plain = statistics.median(measured[PLAIN])
    heads = {name: make(classes, dim) for name, make in head_steps(share).items()}
    peaks = {name: peak_gib(run) for name, run in heads.items()}
    measured.update(times(heads, repeats))
    print(
        f"\n{classes:,} classes, d = {dim}, {share:.0%} sampled{'ms':>20} {'(iqr)':>8} {'of floor':>9} {'of torch':>9}"
    )
    rows = []
    for name, own in measured.items():
        low, middle, high = statistics.quantiles(own, n=4, method="inclusive")
        numbers = {"median_ms": middle, "iqr_ms": high - low, "of_torch": middle / plain}
        print(f"{name:48} {middle:8.3f} {high - low:8.3f}", end=" ")
        if name in entries:
            floor = 1000 * entries[name].moves * 4 * dim * entries[name].rows / speed
            numbers |= {"floor_ms": floor, "of_floor": middle / floor}
            print(f"{middle / floor:8.2f}x {middle / plain:8.2f}x")
        else:
            numbers["peak_gib"] = peaks[name]
            print(f"{peaks[name]:8.2f} GiB")
        count = entries[name].rows if name in entries else round((share if "%" in name else 1) * classes)
        row = {"contestant": name, "classes": classes, "dim": dim, "rows": count}
        rows.append({**row, **{key: f"{numbers[key]:.4f}" if key in numbers else "" for key in NUMBERS}})
    return rows


def head_steps(share: float) -> dict[str, Callable[[int, int], Callable[[], object]]]:
    """Makers of whole steps of ArcFace."""

    def maker(sample: float | None, stepped: bool) -> Callable[[int, int], Callable[[], object]]:
        def make(classes: int, dim: int) -> Callable[[], object]:
            settings: dict[str, Any] = {"precision": "bfloat16", "sample": sample, "device": "cuda"}
            head = hs.create_head("arcface", dim=dim, num_classes=classes, validate=False, **settings)
            kind: Any = hs.RowSGD if sample is not None else torch.optim.SGD
            optimizer = kind(head.parameters(), **SGD, fused=True)
            x = torch.randn(ROWS, dim, device="cuda", requires_grad=True)
            labels = torch.randint(classes, (ROWS,), device="cuda")

            def run() -> None:
                head(x, labels).backward()
                if stepped:
                    optimizer.step()
                optimizer.zero_grad()
                x.grad = None

            return run

        return make

    some = f"{share:.0%} of the classes"
    return {
        "ArcFace, all classes": maker(None, False),
        "ArcFace + torch SGD fused, all classes": maker(None, True),
        f"ArcFace, {some}": maker(share, False),
        f"ArcFace + RowSGD, {some}": maker(share, True),
    }


def peak_gib(run: Callable[[], object]) -> float:
    """The most memory that a step takes beyond what there was, after one that made the optimizer's state."""
    run()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**30


def sweep(classes: int, dim: int, share: float, repeats: int) -> None:
    t = draw(classes, dim, share)
    print(f"\n{classes:,} classes: ms by launch, all rows / unit / sampled")
    for launch in LAUNCHES:
        steps.LAUNCH = launch
        runs: dict[str, Callable[[], object]] = {
            "all": lambda: sgd_rows(t.weight.detach(), t.grad, t.buffer, **SGD),
            "unit": lambda: sgd_rows(t.weight.detach(), t.grad, t.buffer, **SGD, unit_eps=EPS),
            "sampled": lambda: sgd_rows(t.weight.detach(), t.rows, t.buffer, t.index, **SGD),
        }
        medians = [statistics.median(own) for own in times(runs, repeats).values()]
        print(f"{launch.numbers:6} numbers, {launch.warps} warps: " + " ".join(f"{ms:8.3f}" for ms in medians))


def append_rows(path: Path, rows: list[dict[str, Any]], speed: float) -> None:
    """Add the rows to the CSV file, with the versions and the machine."""
    import triton

    start = {"date_utc": datetime.now(UTC).isoformat(timespec="seconds")}
    end = {
        "copy_tb_per_s": f"{speed / 1e12:.2f}",
        "torch": torch.__version__,
        "triton": triton.__version__,
        "hypersphere": hs.__version__,
        "python": platform.python_version(),
        "device": torch.cuda.get_device_name(),
    }
    for row in rows:
        append_row(path, {**start, **row, **end})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--classes", type=int, nargs="+", default=CLASSES, help="numbers of prototypes")
    parser.add_argument("--dim", type=int, default=512, help="their width (%(default)s)")
    parser.add_argument("--share", type=float, default=0.1, help="of the classes that are sampled (%(default)s)")
    parser.add_argument("--repeats", type=int, default=30, help="timed rounds (%(default)s)")
    parser.add_argument("--csv", type=Path, default=RESULTS, help="file to append to")
    parser.add_argument("--sweep", action="store_true", help="time other launches of the kernel instead")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("this benchmark needs a CUDA device")
    check(options.dim)
    speed = copy_speed()
    print(f"copies {speed / 1e12:.2f} TB/s on {torch.cuda.get_device_name()}")
    for classes in options.classes:
        if options.sweep:
            sweep(classes, options.dim, options.share, options.repeats)
        else:
            append_rows(options.csv, measure(classes, options.dim, options.share, options.repeats, speed), speed)


if __name__ == "__main__":
    main()
