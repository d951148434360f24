"""The dense engine with the factors of its products rounded as the fused engine rounds them."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from hypersphere.engines import Reduced
from hypersphere.engines.dense import reduce_dense
from hypersphere.engines.spec import ReductionInputs
from hypersphere.geometry import normalize


def round_to(x: Tensor, precision: str, interpreted: bool) -> Tensor:
    """x as the products see it, with the gradient of x. Triton's interpreter cuts bfloat16 off, a GPU rounds it."""
    if precision == "tf32":
        rounded = (x.float().view(torch.int32) + 0x1000 & -0x2000).view(torch.float32)
    elif precision == "bfloat16" and interpreted:
        rounded = (x.float().view(torch.int32) & -65536).view(torch.float32)
    else:
        rounded = x.float().to({"bfloat16": torch.bfloat16, "float16": torch.float16}.get(precision, torch.float32))
    return x + (rounded.to(x.dtype) - x).detach()


def rounding_dense(precision: str, interpreted: bool) -> Callable[[ReductionInputs], Reduced]:
    """A dense engine whose negatives see rounded factors. The target, and a maximum, do not."""

    def reduce(problem: ReductionInputs) -> Reduced:
        plain, reduction = reduce_dense(problem), problem.reduction
        if reduction.kind == "max":
            return plain
        w = problem.prototypes
        rounded = problem._replace(
            embeddings=round_to(problem.embeddings, precision, interpreted),
            prototypes=round_to(
                normalize(w, reduction.eps) if reduction.normalize_prototypes else w, precision, interpreted
            ),
            reduction=replace(reduction, normalize_prototypes=False),
        )
        return Reduced(plain.target, reduce_dense(rounded).value, None)

    return reduce
