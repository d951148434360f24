"""The contract of an engine: reduce a function of the scores of the negatives, row by row.

For a row i with label y the term of class j is

    n_ij = scale_i f(score_ij) + offset_i + bias_j,

score_ij being the inner product of embedding i and prototype j, and f a score function; with K prototypes of every
class (sub-centres) it is the largest of the K inner products. An engine reduces the terms of
all j != y (of all j where the label is -1), and returns score_iy as well. Everything that depends on the label is left
to ordinary autograd on that one number per row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import torch
from torch import Tensor

from hypersphere.engines.score_functions import ScoreFunction, Similarity
from hypersphere.geometry import EPS

Kind = Literal["logsumexp", "max", "sum", "softplus_sum", "hinge_sum"]
KINDS: tuple[Kind, ...] = get_args(Kind)
NEVER = float("-inf")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Reduction:
    """What is reduced, and how.

    Args:
        kind: log-sum-exp, maximum, or sum of the terms; sum of softplus(term), or of max(0, term).
        score_function: the function f of the score.
        normalize_prototypes: divide every prototype by its norm (NormFace eq. 3) before the inner product.
        eps: the epsilon of the norms.
        normalize_embeddings: divide every embedding by its norm as well: every score is a cosine.
        unit_gradients: give the gradient of the normalised prototypes, and leave the normalisation's part of it
            (NormFace eq. 4) to the optimizer.
        subcenters: prototypes of every class, side by side: the score of a class is the largest of theirs.
    """

    kind: Kind
    score_function: ScoreFunction = field(default_factory=Similarity)
    _: KW_ONLY
    normalize_prototypes: bool = True
    eps: float = EPS
    normalize_embeddings: bool = False
    unit_gradients: bool = False
    subcenters: int = 1


class ReductionInputs(NamedTuple):
    """The tensors of one reduction: scale and offset are (N, 1) or (1, 1), bias is (C,), prototypes are (C K, d).

    `fixed_scale` is the scale where it is a number, and so known without waiting for a device; `rounded` lets the
    chunked engine multiply in bfloat16.
    """

    embeddings: Tensor
    prototypes: Tensor
    scale: Tensor
    offset: Tensor | None
    bias: Tensor | None
    labels: Tensor
    reduction: Reduction
    fixed_scale: float | None = None
    rounded: bool = False

    @property
    def differentiable(self) -> tuple[Tensor | None, ...]:
        """The tensors that may have a gradient: `torch.autograd.Function.apply` must see each of them."""
        return self[:5]


class Reduced(NamedTuple):
    """What an engine returns, (N,) each.

    Args:
        target: the score of the row's own class, before any score function; 0 where the label is -1.
        value: the reduced negatives; -inf for a logsumexp or max over no class.
        argmax: the class of the maximum, the lowest one on ties, -1 over no class; None for the other kinds.
    """

    target: Tensor
    value: Tensor
    argmax: Tensor | None


def constant_while_tracing(function: F) -> F:
    """Let `torch.compile` call the function when it traces, and put what it returned into the graph.

    `torch.compiler.assume_constant_result` does the same, but imports the whole compiler, which takes seconds.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)), exact at both ends (`torch.nn.functional.softplus` turns linear at 20, an error of 2e-9)."""
    return -torch.nn.functional.logsigmoid(-x)


def compute_dtype(*tensors: Tensor) -> torch.dtype:
    """Loss arithmetic: float32, or float64 as soon as one of the tensors is float64."""
    wide = any(tensor.dtype == torch.float64 for tensor in tensors)
    return torch.float64 if wide else torch.float32


def product(x: Tensor, y: Tensor) -> Tensor:
    """x y^T in the tensors' own dtype, forward and backward: autocast may be on where a user calls `backward`."""
    if torch.compiler.is_compiling():
        return x @ y.T
    return _Product.apply(x, y)  # type: ignore[no-any-return,no-untyped-call]


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return x @ y.T

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, y = ctx.saved_tensors
        with torch.autocast(grad.device.type, enabled=False):
            return (grad @ y if ctx.needs_input_grad[0] else None, grad.T @ x if ctx.needs_input_grad[1] else None)
