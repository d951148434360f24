"""Who is measured by `benchmarks/speed.py head`: a step of each, forward and backward, on the same inputs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear, normalize

from hypersphere.heads import create_head
from hypersphere.optim import RowSGD

FLOOR = "three matrix products (floor)"
_SCALE, _MARGIN = 64.0, 0.5
_LOW_BUDGET = 2**27

Step = Callable[[], Any]


@dataclass(frozen=True)
class Size:
    """How large the problem is, where it runs, and on how many threads."""

    rows: int
    dim: int
    classes: int
    device: str
    threads: int

    @property
    def gpu(self) -> bool:
        """Products are then of bfloat16 factors, float32 otherwise."""
        return self.device == "cuda"


class Inputs(NamedTuple):
    """Embeddings (N, d) within 45 degrees of their prototypes, labels (N,) and prototypes (C, d)."""

    embeddings: Tensor
    labels: Tensor
    prototypes: Tensor


def draw(size: Size) -> Inputs:
    """The same inputs for everybody."""
    generator = torch.Generator(size.device).manual_seed(0)
    prototypes = torch.randn(size.classes, size.dim, generator=generator, device=size.device)
    labels = torch.randint(size.classes, (size.rows,), generator=generator, device=size.device)
    noise = torch.randn(size.rows, size.dim, generator=generator, device=size.device)
    return Inputs(normalize(prototypes[labels]) + 0.7 * normalize(noise), labels, prototypes)


class PlainArcFace(nn.Module):
    """ArcFace as it is usually written in torch."""

    def __init__(self, prototypes: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(prototypes)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        cosines = linear(normalize(embeddings), normalize(self.weight))
        own = labels[:, None]
        angle = torch.arccos(cosines.gather(1, own).float().clamp(-1 + 1e-7, 1 - 1e-7))
        return cross_entropy(_SCALE * cosines.scatter(1, own, torch.cos(angle + _MARGIN).to(cosines.dtype)), labels)


class PlainSoftmax(nn.Module):
    """A fused cross entropy of others, loss(embeddings, prototypes, labels), with both normalisations and no margin."""

    def __init__(self, prototypes: Tensor, loss: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.weight = nn.Parameter(prototypes)
        self.loss = loss

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        unit, prototypes = _SCALE * normalize(embeddings), normalize(self.weight)
        return self.loss(unit.to(torch.bfloat16), prototypes.to(torch.bfloat16), labels)


def floor_step(inputs: Inputs, size: Size) -> Step:
    """Scores, and both gradients from as many derivatives: nothing else."""
    dtype = torch.bfloat16 if size.gpu else torch.float32
    x, w = normalize(inputs.embeddings).to(dtype), normalize(inputs.prototypes).to(dtype)

    def step() -> None:
        scores = x @ w.T
        if size.gpu:
            torch.mm(scores, w, out_dtype=torch.float32)
            torch.mm(scores.T, x, out_dtype=torch.float32)
        else:
            torch.mm(scores, w)
            torch.mm(scores.T, x)

    return step


def our_step(name: str = "arcface", **options: Any) -> Callable[[Inputs, Size], Step]:
    """Makes a step of one of our heads; `captured` by a CUDA graph, or with a step of SGD after it (`optimize`)."""
    captured, optimize = options.pop("captured", False), options.pop("optimize", False)

    def make(inputs: Inputs, size: Size) -> Step:
        where: dict[str, Any] = {"precision": "bfloat16" if size.gpu else None, "device": size.device}
        head = create_head(name, dim=size.dim, num_classes=size.classes, validate=False, **where, **options)
        head.weight = nn.Parameter(inputs.prototypes)
        call: Any = head
        if captured:
            sample = inputs.embeddings.clone().requires_grad_()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                call = torch.cuda.make_graphed_callables(head, (sample, inputs.labels))
        step = make_step(call, head.weight, inputs)
        if not optimize:
            return step
        optimizer = RowSGD([head.weight], 0.1, momentum=0.9, weight_decay=5e-4, unit_eps=head.eps)

        def both() -> None:
            step()
            optimizer.step()

        return both

    return make


def plain_step(compiled: bool) -> Callable[[Inputs, Size], Step]:
    """Makes a step of plain torch."""

    def make(inputs: Inputs, size: Size) -> Step:
        loss = PlainArcFace(inputs.prototypes)
        return make_step(torch.compile(loss) if compiled else loss, loss.weight, inputs, autocast=size.gpu)

    return make


def metric_learning_step(inputs: Inputs, size: Size) -> Step:
    """A step of pytorch-metric-learning; its margin is in degrees, its weight (d, C)."""
    from pytorch_metric_learning.losses import ArcFaceLoss

    loss = ArcFaceLoss(num_classes=2, embedding_size=size.dim, margin=math.degrees(_MARGIN), scale=_SCALE)
    loss.num_classes = size.classes
    loss.W = nn.Parameter(inputs.prototypes.T.contiguous())
    return make_step(loss, loss.W, inputs, autocast=size.gpu)


def liger_step(inputs: Inputs, size: Size) -> Step:
    """A step of Liger's fused linear cross entropy."""
    from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss

    fused = LigerFusedLinearCrossEntropyLoss()
    loss = PlainSoftmax(inputs.prototypes, lambda x, w, labels: fused(w, x, labels))
    return make_step(loss, loss.weight, inputs)


def cce_step(inputs: Inputs, size: Size) -> Step:
    """A step of Apple's cut cross entropy, which by default leaves small gradients out."""
    from cut_cross_entropy import linear_cross_entropy

    loss = PlainSoftmax(inputs.prototypes, linear_cross_entropy)
    return make_step(loss, loss.weight, inputs)


def make_step(loss: Any, weight: Tensor, inputs: Inputs, *, autocast: bool = False) -> Step:
    """Forward and backward to embeddings and prototypes, from gradients set to None."""
    embeddings, labels = inputs.embeddings.clone().requires_grad_(), inputs.labels

    def step() -> None:
        weight.grad = embeddings.grad = None
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=autocast):
            value = loss(embeddings, labels)
        value.backward()

    return step


def contestants(size: Size) -> dict[str, Callable[[Inputs, Size], Step]]:
    """Who runs on such a device, in the order of the table."""
    made: dict[str, Callable[[Inputs, Size], Step]] = {FLOOR: floor_step}
    if size.gpu:
        made |= {
            "hypersphere ArcFace": our_step(),
            "hypersphere ArcFace (captured)": our_step(captured=True),
            "hypersphere ArcFace (128 MiB budget)": our_step(budget=_LOW_BUDGET),
            "hypersphere SphereFace2": our_step("sphereface2"),
            "hypersphere SphereFace2 (captured)": our_step("sphereface2", captured=True),
            "hypersphere ArcFace (+ SGD step)": our_step(optimize=True, unit_gradients=True),
        }
    else:
        made |= {
            "hypersphere ArcFace (chunked)": our_step(engine="chunked"),
            "hypersphere ArcFace (dense)": our_step(engine="dense"),
            "hypersphere SphereFace2 (chunked)": our_step("sphereface2", engine="chunked"),
        }
    made |= {
        "plain torch ArcFace": plain_step(False),
        "plain torch ArcFace (compiled)": plain_step(True),
        "pytorch-metric-learning ArcFace": metric_learning_step,
    }
    if size.gpu:
        made |= {"Liger (no margin)": liger_step, "CCE (no margin)": cce_step}
    return made
