"""The fused engine against float64, on this GPU: losses x precisions x sizes x labels -1, gradients and all.

    python benchmarks/fused_check.py [--workers W]

The reference rounds the factors of its products as the engine does, so that what is left is the engine's own error.
Uninitialised memory is filled with NaN, and every case runs twice: the bits must agree. The last lines compare the
errors of ArcFace with those of plain torch under bf16 autocast.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear, normalize

import hypersphere as hs
from hypersphere import engines
from hypersphere.engines import PRECISIONS, Reduced
from hypersphere.engines.contract import Problem
from hypersphere.engines.dense import reduce_dense
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
SIZES = [(1, 2, 8), (33, 97, 16), (200, 1003, 100), (600, 20_011, 512)]
LIMITS = {"bf16": 8e-3, "fp16": 1e-3, "tf32": 4e-2, "fp32": 1e-4}
ROUNDED = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Case(NamedTuple):
    loss: str
    options: dict[str, Any]
    precision: str


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


def rounding_dense(dtype: torch.dtype) -> Callable[[Problem], Reduced]:
    """The dense engine with factors rounded for the negatives, and a gradient that does not see the rounding."""

    def rounded(x: Tensor) -> Tensor:
        return x + (x.float().to(dtype).to(x.dtype) - x).detach()

    def reduce(problem: Problem) -> Reduced:
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


def error(ours: Tensor, theirs: Tensor) -> float:
    size = float(theirs.norm())
    gap = float((ours.double() - theirs).norm())
    return gap / size if size > 1e-12 else gap


def run(case: Case) -> list[str]:
    torch.use_deterministic_algorithms(True)
    lines = []
    sizes = SIZES if case.precision == "bf16" else SIZES[1::2]
    worst: dict[str, float] = {}
    failures = []
    for rows, classes, dim in sizes:
        x, labels, w = data(rows, classes, dim)
        reference = hs.create_head(
            case.loss, dim=dim, num_classes=classes, engine="dense", device="cuda", dtype=torch.float64, **case.options
        ).double()
        with torch.no_grad():
            reference.weight.copy_(w)
        engines.reduce_dense = rounding_dense(ROUNDED[case.precision]) if case.precision in ROUNDED else reduce_dense
        expected = gradients(reference.eval(), x.double(), labels)
        for budget in (None, 2 * rows * 300):
            head = hs.create_head(
                case.loss, dim=dim, num_classes=classes, engine="triton", device="cuda",
                precision=case.precision, budget=budget, **case.options,
            ).eval()  # fmt: skip
            with torch.no_grad():
                head.weight.copy_(w)
            ours, again = gradients(head, x, labels), gradients(head, x, labels)
            where = f"N={rows} C={classes} d={dim} budget={budget}"
            if any(not torch.equal(again[key], value) for key, value in ours.items()):
                failures.append(f"not deterministic at {where}")
            if any(not bool(value.isfinite().all()) for value in ours.values()):
                failures.append(f"not finite at {where}: {[k for k, v in ours.items() if not v.isfinite().all()]}")
            hardest = case.options.get("negatives") == "hardest" or (case.loss == "sample_margin" and not case.options)
            for key, value in expected.items():
                gap = error(ours[key], value)
                worst[key] = max(worst.get(key, 0.0), gap)
                limit = 1.5 if hardest and case.precision != "fp32" else LIMITS[case.precision]
                if not gap <= limit:
                    failures.append(f"{key} off by {gap:.1e} at {where}")
    label = f"{case.loss} {case.options or ''} {case.precision}"
    numbers = " ".join(f"{key.split('.')[-1]} {gap:.1e}" for key, gap in worst.items())
    lines.append(f"{'FAIL' if failures else 'ok  '} {label:62} {numbers}")
    return lines + [f"     {failure}" for failure in failures[:4]]


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
                "arcface", dim=dim, num_classes=classes, engine="triton", precision="bf16", budget=budget, device="cuda"
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
    parser.add_argument("--workers", type=int, default=12)
    options = parser.parse_args()
    cases = [Case(loss, keywords, precision) for precision in PRECISIONS for loss, keywords in LOSSES]
    bad = 0
    with ProcessPoolExecutor(options.workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        for case, job in [(case, pool.submit(run, case)) for case in cases]:
            try:
                lines = job.result()
            except Exception as problem:
                lines = [f"FAIL {case}", f"     {type(problem).__name__}: {str(problem).strip()[-300:]}"]
            bad += lines[0].startswith("FAIL")
            print("\n".join(lines), flush=True)
    print("\n".join(against_autocast()))
    print(f"{len(cases) - bad} of {len(cases)} cases passed")
    raise SystemExit(bool(bad))


if __name__ == "__main__":
    main()
