"""Whole steps of the fused engine on this GPU as it is set; then its tile sizes, kernel by kernel; then steps again.

    python benchmarks/fused_tune.py [--classes C] [--rows N] [--dim d] [--only PART ...] [--json FILE] [--workers W]

Parts: steps, stored, prototypes, embeddings, sphereface2, scores, unit, tuned (steps with the best tiles found).
Medians of CUDA events over runs that do not wait for each other, on random unit vectors; `host` is what Python takes to
launch a run. Other processes compile the kernels of the sweeps meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.engines import EngineOptions, Reduction, Similarity
from hypersphere.engines.spec import ReductionInputs
from hypersphere.engines.triton import launch, tiles
from hypersphere.engines.triton.kernels import rows as row_kernels
from hypersphere.engines.triton.launch import Launcher
from hypersphere.engines.triton.tiles import Tile

PARTS = ("steps", "stored", "prototypes", "embeddings", "sphereface2", "scores", "unit", "tuned")
GIB = 2**30
SIZES = (85_742, 1_000_000, 4_000_000, 10_000_000)
SOFTMAX = Reduction("logsumexp", normalize_embeddings=True)

SCORES = [
    Tile(m, n, 64, 8, stages, 1, bool(flatten), bool(branch), 4)
    for m, n in ((256, 128), (128, 256))
    for stages, flatten, branch in (
        (4, False, True),
        (4, True, True),
        (4, True, False),
        (4, False, False),
        (3, True, True),
    )
] + [
    Tile(256, 128, 64, 8, 3, 1, False, True, 2),
    Tile(128, 256, 64, 8, 3, 1, True, True, 2),
    Tile(256, 128, 128, 8, 2, 1, False, True, 4),
    Tile(128, 256, 128, 8, 2, 1, True, True, 4),
    Tile(128, 128, 64, 8, 3, 2, False, True, 4),
    Tile(128, 128, 64, 8, 3, 2, True, True, 4),
    Tile(128, 128, 64, 4, 3, 2, False, True, 4),
    Tile(128, 128, 64, 4, 3, 2, True, True, 4),
    Tile(128, 128, 128, 8, 2, 1, True, True, 4),
]


def milliseconds(run: Callable[[], Any], repeats: int = 10) -> float:
    """Median time of a run on the device, after two of warm-up; nothing waits in between, as in training."""
    for _ in range(2):
        run()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    events[0].record()
    for event in events[1:]:
        run()
        event.record()
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(stop) for start, stop in itertools.pairwise(events))


def host_milliseconds(run: Callable[[], Any]) -> float:
    """Median time until the call of a run comes back, on an idle device."""
    times = []
    for _ in range(5):
        torch.cuda.synchronize()
        started = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - started))
    torch.cuda.synchronize()
    return statistics.median(times)


def attempt(run: Callable[[], Any]) -> float | str:
    try:
        return milliseconds(run)
    except Exception as problem:
        torch.cuda.synchronize()
        return f"{type(problem).__name__}: {str(problem).strip().splitlines()[-1][:60] if str(problem).strip() else ''}"


def shown(time: float | str) -> str:
    return f"{time:8.3f}" if isinstance(time, float) else time


def make_problem(rows: int, classes: int, dim: int, reduction: Reduction, scale: float) -> ReductionInputs:
    generator = torch.Generator("cuda").manual_seed(0)
    w = torch.randn(classes, dim, device="cuda", generator=generator)
    labels = torch.randint(classes, (rows,), device="cuda", generator=generator)
    x = torch.randn(rows, dim, device="cuda", generator=generator)
    return ReductionInputs(x, w, torch.full((1, 1), scale, device="cuda"), None, None, labels, reduction, scale)


def sweep(name: str, tiles: Iterable[Tile], run: Callable[[], Any], flop: float) -> dict[str, float | str]:
    """Time `run` with every tile in turn, and leave the best one set."""
    results: dict[str, float | str] = {}
    kept, best = tiles.TILES[name], math.inf
    for tile in tiles:
        tiles.TILES[name] = tile
        time = attempt(run)
        key = f"{tile.m}x{tile.n}x{tile.k} w{tile.warps} s{tile.stages} p{tile.per_processor}"
        key += f" {'flat' if tile.flatten else '-'} {'branch' if tile.branch else '-'} pieces{tile.pieces}"
        results[key] = time
        rate = f"{flop / time / 1e9:6.0f} TFLOP/s" if isinstance(time, float) else ""
        print(f"  {name:12} {key:44} {shown(time)} ms {rate}", flush=True)
        if isinstance(time, float) and time < best:
            kept, best = tile, time
    tiles.TILES[name] = kept
    print(f"  {name:12} best {kept} {best:.3f} ms", flush=True)
    return results


def tune_unit(problem: ReductionInputs) -> dict[str, float | str]:
    w = problem.prototypes
    unit = torch.empty(w.shape, dtype=torch.bfloat16, device="cuda")
    inverse = torch.empty(len(w), device="cuda")
    results: dict[str, float | str] = {}
    for lines, warps in ((16, 4), (8, 4), (4, 4), (16, 8), (32, 8)):
        key = f"{lines} rows w{warps}"
        grid = (-(-len(w) // lines),)
        results[key] = attempt(
            lambda grid=grid, lines=lines, warps=warps: row_kernels.unit_rows[grid](
                w, unit, inverse, len(w), len(w), w.stride(0), w.shape[1], 1e-12,
                DIM=w.shape[1], NORMALIZE=True, TF32=False, BLOCK=w.shape[1], ROWS=lines, num_warps=warps,
            )
        )  # fmt: skip
        print(f"  unit         {key:44} {shown(results[key])} ms", flush=True)
    return results


def tune_scores(problem: ReductionInputs, name: str, tiles: Iterable[Tile] = SCORES) -> dict[str, float | str]:
    launcher = Launcher(problem, "bfloat16")
    g = launcher.new_g(launcher.width) if name == "stored" else None
    rows, dim = problem.embeddings.shape
    shift = torch.zeros(rows, device="cuda")
    want = problem.reduction.kind != "logsumexp"
    return sweep(
        name,
        tiles,
        lambda: launcher.reduce(g, None if want else shift, False, want),
        2 * rows * dim * len(problem.prototypes),
    )


def tune_backward(problem: ReductionInputs, parts: set[str]) -> dict[str, dict[str, float | str]]:
    launcher = Launcher(problem, "bfloat16")
    rows, dim = problem.embeddings.shape
    classes = len(problem.prototypes)
    g = torch.rand(rows, launcher.width, device="cuda", dtype=torch.bfloat16)
    out = torch.empty(classes, dim, device="cuda")
    grad, value = torch.ones(rows, device="cuda"), torch.zeros(rows, device="cuda")
    _, weighted = launcher._weighted(grad, None, value, None)
    found: dict[str, dict[str, float | str]] = {}
    if "prototypes" in parts:
        other: dict[str, float | str] = {}
        other["cuBLAS alone, no normalisation"] = attempt(
            lambda: torch.mm(g[:, :classes].T, weighted, out_dtype=torch.float32, out=out)
        )
        kept, best = launch.LIBRARY_WAVE, math.inf
        for wave in (2**23, 2**24, 2**25, 2**26, 2**27, 2**40):
            launch.LIBRARY_WAVE = wave
            time = attempt(lambda: launcher._prototypes(g, weighted, None, out, 0, classes))
            other[f"cuBLAS + pass, waves of {wave // dim} classes"] = time
            if isinstance(time, float) and time < best:
                kept, best = wave, time
        for key, time in other.items():
            print(f"  prototypes   {key:44} {shown(time)} ms", flush=True)
        launch.LIBRARY_WAVE = kept
        found["prototypes"] = other
    if "embeddings" in parts:
        results = {"cuBLAS, one product": attempt(lambda: torch.mm(g, launcher.unit, out_dtype=torch.float32))}
        for step in (2**16, 2**17, 2**18):
            results[f"cuBLAS, {step} classes at a time"] = attempt(lambda step=step: by_steps(g, launcher.unit, step))
        for key, time in results.items():
            print(f"  embeddings   {key:44} {shown(time)} ms", flush=True)
        found["embeddings"] = results
    return found


def by_steps(g: Tensor, unit: Tensor, step: int) -> Tensor:
    total = None
    for first in range(0, len(unit), step):
        part = torch.mm(g[:, first : first + step], unit[first : first + step], out_dtype=torch.float32)
        total = part if total is None else total.add_(part)
    assert total is not None
    return total


def binary_of(problem: ReductionInputs) -> ReductionInputs:
    """SphereFace2's reduction of the same vectors."""
    return problem._replace(
        reduction=Reduction("softplus_sum", Similarity(3.0), normalize_embeddings=True),
        scale=torch.full((1, 1), 40.0, device="cuda"),
        offset=torch.full((1, 1), -10.0, device="cuda"),
    )


def compile_tile(part: str, tile: Tile, rows: int, dim: int) -> None:
    """Run a kernel once on few classes, so that Triton's cache has it: what it compiles does not depend on N and C."""
    problem = make_problem(rows, 1024, dim, SOFTMAX, 64.0)
    with contextlib.redirect_stdout(None):
        name = "scores" if part == "scores" else "stored"
        tune_scores(binary_of(problem) if part == "sphereface2" else problem, name, [tile])


def whole_step(name: str, rows: int, dim: int, classes: int, budget: int | None, check: bool) -> dict[str, Any]:
    """Time and memory of forward and backward of a head, in GiB beyond parameters and inputs."""
    torch.cuda.empty_cache()
    options: dict[str, Any] = {"precision": "bfloat16", "budget": budget, "device": "cuda", "validate": False}
    head = hs.create_head(name, dim=dim, num_classes=classes, engine="triton", **options)
    x = torch.randn(rows, dim, device="cuda", requires_grad=True)
    labels = torch.randint(classes, (rows,), device="cuda")

    def forward() -> Tensor:
        head.weight.grad = x.grad = None
        loss: Tensor = head(x, labels)
        return loss

    def step() -> None:
        forward().backward()  # type: ignore[no-untyped-call]

    step()
    head.weight.grad = x.grad = None
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step()
    found = {
        "gib": (torch.cuda.max_memory_allocated() - before) / GIB,
        "ms": attempt(step),
        "forward_ms": attempt(forward),
        "host_ms": host_milliseconds(step),
    }
    if classes <= 1_000_000:
        captured = torch.cuda.make_graphed_callables(head, (x.detach().clone().requires_grad_(), labels))

        def replay() -> None:
            head.weight.grad = x.grad = None
            captured(x, labels).backward()

        found["captured_ms"] = attempt(replay)
        del captured, replay
    if check:
        results = []
        for head.engine_options in (EngineOptions(engine="triton"), EngineOptions(engine="chunked", chunk_size=2**16)):
            loss = forward()
            loss.backward()  # type: ignore[no-untyped-call]
            results.append((loss.detach(), x.grad, head.weight.grad))
        found["errors"] = [
            float(ours.sub_(theirs).norm() / theirs.norm()) for ours, theirs in zip(*results, strict=True)
        ]
    return found


def steps(rows: int, dim: int, sizes: Iterable[int], check: bool) -> dict[str, Any]:
    found = {}
    for name in ("arcface", "sphereface2"):
        for classes in sizes:
            for budget in (None, 2**28) if classes == 1_000_000 else (None,):
                key = f"{name} C={classes:,}{'' if budget is None else ', 256 MiB budget'}"
                try:
                    result = whole_step(name, rows, dim, classes, budget, check and classes == 10_000_000)
                except Exception as problem:
                    print(f"  {key:44} {type(problem).__name__}: {str(problem)[:200]}", flush=True)
                    continue
                found[key] = result
                line = f"{shown(result['ms'])} ms (forward {shown(result['forward_ms'])}, host {result['host_ms']:.3f},"
                line += f" captured {shown(result.get('captured_ms', '-'))})"
                print(f"  {key:44} {line} {result['gib']:6.2f} GiB", flush=True)
                if "errors" in result:
                    gaps = " ".join(f"{name} {gap:.1e}" for name, gap in zip("lxw", result["errors"], strict=True))
                    print(f"  {'':44} against the chunked engine in float32: {gaps}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1024)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--classes", type=int, default=1_000_000)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--workers", type=int, default=12)
    options = parser.parse_args()
    parts, rows, dim = set(options.only), options.rows, options.dim
    started = time.perf_counter()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, N={rows} C={options.classes:,} d={dim}")
    found: dict[str, Any] = {}

    def done(part: str, result: Any) -> None:
        found[part] = result
        print(f"  {part} after {time.perf_counter() - started:.0f} s", flush=True)
        if options.json is not None:
            options.json.write_text(json.dumps(found, indent=1))

    with ProcessPoolExecutor(options.workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        jobs = [
            pool.submit(compile_tile, part, tile, rows, dim)
            for part in ("stored", "sphereface2", "scores")
            for tile in SCORES
            if part in parts
        ]
        if "steps" in parts:
            done("steps", steps(rows, dim, SIZES, True))
        torch.cuda.empty_cache()
        wait(jobs, timeout=max(0.0, 70 - (time.perf_counter() - started)))
        print(f"  compiled after {time.perf_counter() - started:.0f} s", flush=True)
        for job in jobs:
            job.cancel()
    softmax = make_problem(rows, options.classes, dim, SOFTMAX, 64.0)
    if "stored" in parts:
        done("stored", tune_scores(softmax, "stored"))
    if parts & {"prototypes", "embeddings"}:
        done("backward", tune_backward(softmax, parts))
    if "sphereface2" in parts:
        kept = tiles.TILES["stored"]
        done("sphereface2", tune_scores(binary_of(softmax), "stored"))
        tiles.TILES["stored"] = kept
    if "scores" in parts:
        done("scores", tune_scores(softmax, "scores"))
    if "unit" in parts:
        done("unit", tune_unit(softmax))
    del softmax
    print({name: tuple(tile) for name, tile in tiles.TILES.items()}, launch.LIBRARY_WAVE)
    if "tuned" in parts:
        done("tuned", steps(rows, dim, SIZES[:2], False))


if __name__ == "__main__":
    main()
