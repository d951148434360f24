"""The fused engine against float64, on this GPU: losses x precisions x sizes x labels -1, gradients and all.

    python benchmarks/fused_check.py [--workers W]

The reference rounds the factors of its products as the engine does, so that what is left is the engine's own error.
Uninitialised memory is filled with NaN, and every case runs twice: the bits must agree. In bf16 at N=600 the errors
of the gradients against float64 that rounds nothing must not exceed those of plain torch under autocast: `of plain`
is their ratio. The last lines show both for ArcFace at larger sizes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear, normalize

import hypersphere as hs
from hypersphere.engines import PRECISIONS, Reduced, dense
from hypersphere.engines import reduce as engine
from hypersphere.engines.dense import reduce_dense
from hypersphere.engines.spec import ReductionInputs
from hypersphere.geometry import normalize as unit

LOSSES: list[tuple[str, dict[str, Any]]] = [
    ("arcface", {}),
    ("cosface", {"power": 2.5}),
    ("ampface", {}),
    ("unified", {"m2": 0.2, "power": 0.7, "wrong_class_relu": True}),
    ("curricularface", {}),
    ("circle", {}),
    ("circle", {"scale": 100.0, "margin": -0.2}),
    ("normface", {}),
    ("normface", {"normalize": "embeddings"}),
    ("softmax", {}),
    ("modified_softmax", {}),
    ("lm_softmax", {"scale": 20.0}),
    ("sphereface2", {}),
    ("sphereface2", {"bias": "class", "power": 1.0}),
    ("sample_margin", {}),
    ("sample_margin", {"form": "mean"}),
    ("c_contrastive", {}),
    ("c_triplet", {}),
    ("c_triplet", {"negatives": "hardest"}),
]
Size = tuple[int, int, int]
LARGE: Size = (600, 20_011, 512)
SIZES: list[Size] = [(1, 2, 12), (33, 97, 16), (200, 1003, 100), LARGE]
EVERY_SIZE = ("arcface", "sphereface2")
LIMITS = {"bfloat16": 8e-3, "float16": 1e-3, "tf32": 2e-3, "float32": 1e-4}


class Case(NamedTuple):
    loss: str
    options: dict[str, Any]
    precision: str
    size: Size

    def __str__(self) -> str:
        rows, classes, dim = self.size
        return f"{self.loss} {self.options or ''} {self.precision} N={rows} C={classes} d={dim}"


def data(rows: int, classes: int, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator("cuda").manual_seed(rows + classes)
    w = torch.randn(classes, dim, device="cuda", generator=generator)
    labels = torch.randint(-1, classes, (rows,), device="cuda", generator=generator)
    if rows > 3:
        labels[1] = labels[0]
        labels[2] = -1
    noise = torch.randn(rows, dim, device="cuda", generator=generator)
    return normalize(w[labels.clamp(min=0)]) + 1.2 * normalize(noise), labels, w


def gradients(head: nn.Module, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
    x = x.detach().requires_grad_()
    loss = head(x, labels)
    leaves = {"x": x, **dict(head.named_parameters())}
    grads = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    return {"loss": loss.detach(), **{k: v for k, v in zip(leaves, grads, strict=True) if v is not None}}


def cases() -> list[Case]:
    """Every loss in every precision; large ones come first, as they take longest."""
    found = []
    for precision in PRECISIONS:
        few = {"bfloat16": [SIZES[1], LARGE], "tf32": [SIZES[1]]}.get(precision, [SIZES[2]])
        for loss, options in LOSSES:
            sizes = SIZES if loss in EVERY_SIZE and not options else few
            found += [Case(loss, options, precision, size) for size in sizes]
    return sorted(found, key=lambda case: -case.size[0])


def rounding_dense(precision: str) -> Callable[[ReductionInputs], Reduced]:
    """The dense engine with factors rounded for the negatives, and a gradient that does not see the rounding."""

    def rounded(x: Tensor) -> Tensor:
        narrow = x.float()
        if precision == "tf32":
            narrow = (narrow.view(torch.int32) + 0x1000 & -0x2000).view(torch.float32)
        elif precision != "float32":
            narrow = narrow.to(torch.bfloat16 if precision == "bfloat16" else torch.float16)
        return x + (narrow.to(x.dtype) - x).detach()

    def reduce(problem: ReductionInputs) -> Reduced:
        plain = reduce_dense(problem)
        if problem.reduction.kind == "max":
            return plain
        w = problem.prototypes
        w = unit(w, problem.reduction.eps) if problem.reduction.normalize_prototypes else w
        reduction = replace(problem.reduction, normalize_prototypes=False)
        x = problem.embeddings
        again = reduce_dense(problem._replace(embeddings=rounded(x), prototypes=rounded(w), reduction=reduction))
        return Reduced(plain.target, again.value, None)

    return reduce


def bf16_product(x: Tensor, y: Tensor) -> Tensor:
    """The product as autocast makes it, forward and backward."""
    return (x.bfloat16() @ y.bfloat16().T).to(x.dtype)


def make_head(case: Case, w: Tensor, **options: Any) -> nn.Module:
    _, classes, dim = case.size
    head = hs.create_head(
        case.loss, dim=dim, num_classes=classes, device="cuda", dtype=w.dtype, **options, **case.options
    ).eval()
    head = head.double() if w.dtype == torch.float64 else head
    with torch.no_grad():
        head.weight.copy_(w)
    return head


def error(ours: Tensor, theirs: Tensor) -> float:
    size = float(theirs.norm())
    gap = float((ours.double() - theirs).norm())
    return gap / size if size > 1e-12 else gap


def run(case: Case) -> list[str]:
    torch.use_deterministic_algorithms(True)
    started = time.perf_counter()
    x, labels, w = data(*case.size)
    engine.reduce_dense = rounding_dense(case.precision)
    expected = gradients(make_head(case, w.double(), engine="dense"), x.double(), labels)
    engine.reduce_dense = reduce_dense
    plain, exact = of_plain(case, x, labels, w) if case.size == LARGE and case.precision == "bfloat16" else ({}, {})
    chosen = case.options.get("negatives") == "hardest" or (case.loss == "sample_margin" and not case.options)
    limit = 1.5 if chosen and case.precision != "float32" else LIMITS[case.precision]
    worst: dict[str, float] = {}
    ratios: dict[str, float] = {}
    failures = []
    for budget in (None, 2 * case.size[0] * 300):
        head = make_head(case, w, engine="triton", precision=case.precision, budget=budget)
        ours, again = gradients(head, x, labels), gradients(head, x, labels)
        where = f"budget={budget}"
        if any(not torch.equal(again[key], value) for key, value in ours.items()):
            failures.append(f"not deterministic at {where}")
        if any(not bool(value.isfinite().all()) for value in ours.values()):
            failures.append(f"not finite at {where}: {[k for k, v in ours.items() if not v.isfinite().all()]}")
        for key, value in expected.items():
            gap = error(ours[key], value)
            worst[key] = max(worst.get(key, 0.0), gap)
            if not gap <= limit:
                failures.append(f"{key} off by {gap:.1e} at {where}")
        for key, gap in plain.items():
            ratios[key] = max(ratios.get(key, 0.0), error(ours[key], exact[key]) / max(gap, 1e-6))
    failures += [f"{key} has {ratio:.2f} times the error of plain bf16" for key, ratio in ratios.items() if ratio > 1]
    numbers = " ".join(f"{key.split('.')[-1]} {gap:.1e}" for key, gap in worst.items())
    numbers += "; of plain " * bool(ratios) + " ".join(f"{key} {ratio:.2f}" for key, ratio in ratios.items())
    line = f"{'FAIL' if failures else 'ok  '} {case!s:82} {numbers} ({time.perf_counter() - started:.0f} s)"
    return [line, *(f"     {failure}" for failure in failures[:4])]


def of_plain(case: Case, x: Tensor, labels: Tensor, w: Tensor) -> tuple[dict[str, float], dict[str, Tensor]]:
    """Errors of the gradients of plain torch under bf16 autocast, and what they should be."""
    exact = gradients(make_head(case, w.double(), engine="dense"), x.double(), labels)
    real, dense.product = dense.product, bf16_product
    try:
        plain = gradients(make_head(case, w, engine="dense"), x, labels)
    finally:
        dense.product = real
    return {key: error(plain[key], exact[key]) for key in ("x", "weight")}, exact


class PlainArcFace(nn.Module):
    def __init__(self, w: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(w.clone())

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=self.weight.dtype == torch.float32):
            cosines = linear(normalize(x), normalize(self.weight))
        own = labels[:, None]
        cosines = cosines.to(self.weight.dtype)
        angle = torch.arccos(cosines.gather(1, own).clamp(-1 + 1e-7, 1 - 1e-7))
        return cross_entropy(64 * cosines.scatter(1, own, torch.cos(angle + 0.5)), labels)


def against_autocast() -> list[str]:
    lines = []
    for rows, classes, dim in ((512, 20_000, 512), (256, 100_000, 512)):
        x, labels, w = data(rows, classes, dim)
        labels = labels.clamp(min=0)
        expected = gradients(PlainArcFace(w.double()), x.double(), labels)
        for budget in (None, 2**20):
            head = hs.create_head(
                "arcface",
                dim=dim,
                num_classes=classes,
                engine="triton",
                precision="bfloat16",
                budget=budget,
                device="cuda",
            )
            with torch.no_grad():
                head.weight.copy_(w)
            for name, model in (("plain bf16", PlainArcFace(w)), (f"fused {budget}", head)):
                ours = gradients(model, x, labels)
                gaps = " ".join(f"{key} {error(ours[key], value):.2e}" for key, value in expected.items())
                lines.append(f"arcface N={rows} C={classes} {name:14} {gaps}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--workers", type=int, default=16)
    options = parser.parse_args()
    started = time.perf_counter()
    bad = 0
    with ProcessPoolExecutor(options.workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        larger = pool.submit(against_autocast)
        jobs = [(case, pool.submit(run, case)) for case in cases()]
        for case, job in jobs:
            try:
                lines = job.result()
            except Exception as problem:
                lines = [f"FAIL {case}", f"     {type(problem).__name__}: {str(problem).strip()[-300:]}"]
            bad += lines[0].startswith("FAIL")
            print("\n".join(lines), flush=True)
        print("\n".join(larger.result()))
    print(f"{len(jobs) - bad} of {len(jobs)} cases passed in {time.perf_counter() - started:.0f} s")
    raise SystemExit(bool(bad))


if __name__ == "__main__":
    main()
