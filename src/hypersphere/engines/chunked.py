"""Class chunks: exact on any device, and never more than N x chunk scores in memory, forward or backward."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hypersphere.engines.spec import NEVER, Reduced, ReductionInputs, constant_while_tracing, softplus


def reduce_chunked(inputs: ReductionInputs, chunk_size: int | None = None) -> Reduced:
    """Reduce the negatives of every row, `chunk_size` classes at a time.

    With `inputs.rounded` products have bfloat16 factors and results; all else, the target's score too, is float32.
    """
    target, value, index = _Chunked.apply(inputs, chunk_size, *inputs.differentiable)  # type: ignore[no-untyped-call]
    return Reduced(target, value, index if inputs.reduction.kind == "max" else None)


@constant_while_tracing
def multiplies_bfloat16(device: torch.device) -> bool:
    """Whether this is a CPU with instructions for products of bfloat16."""
    return device.type == "cpu" and any(
        getattr(torch.cpu, name, bool)() for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    )


def _multiply(x: Tensor, y: Tensor, rounded: bool, out: Tensor | None = None) -> Tensor:
    """Matrix product, of bfloat16 factors if `rounded`."""
    if not rounded:
        return torch.mm(x, y, out=out)
    product = torch.mm(x.to(torch.bfloat16), y.to(torch.bfloat16))
    return product.to(x.dtype) if out is None else out.copy_(product)


def _default_chunk_size(x: Tensor) -> int:
    scores = 2**20 if x.device.type == "cpu" else 2**26
    return max(256, scores // max(1, x.shape[0]))


class _Unit:
    """Some prototypes as the scores see them: in the dtype of the arithmetic and, if asked for, normalised."""

    def __init__(self, inputs: ReductionInputs, prototypes: Tensor) -> None:
        self.unit = prototypes.to(inputs.embeddings.dtype)
        self.inverse: Tensor | None = None
        self.unit_gradients = inputs.reduction.unit_gradients
        if inputs.reduction.normalize_prototypes:
            lengths = torch.linalg.vector_norm(self.unit, dim=1, keepdim=True)
            self.inverse = lengths.hypot(lengths.new_full((), math.sqrt(inputs.reduction.eps))).reciprocal()
            self.unit = self.unit * self.inverse

    def through_norm(self, grad: Tensor) -> Tensor:
        """The gradient of the prototypes from that of their unit vectors (NormFace eq. 4), in place."""
        if self.inverse is None or self.unit_gradients:
            return grad
        radial = torch.linalg.vecdot(self.unit, grad)[:, None]
        return grad.addcmul_(self.unit, radial, value=-1).mul_(self.inverse)


class _Chunk:
    """The scores of one run of classes, and what they make."""

    def __init__(self, inputs: ReductionInputs, buffer: Tensor, start: int, stop: int) -> None:
        x, several = inputs.embeddings, inputs.reduction.subcenters
        self.inputs = inputs
        self.classes, self.rows = slice(start, stop), slice(several * start, several * stop)
        self.prototypes = _Unit(inputs, inputs.prototypes[self.rows])
        width = several * (stop - start)
        self.scores = buffer[: x.shape[0] * width].view(x.shape[0], width)
        _multiply(x, self.prototypes.unit.T, inputs.rounded, self.scores)
        self.nearest: Tensor | None = None
        if several > 1:
            self.scores, self.nearest = self.scores.view(x.shape[0], stop - start, several).max(2)
        column = inputs.labels - start
        self.inside = ((column >= 0) & (column < stop - start))[:, None]
        self.column = column.clamp(0, stop - start - 1)[:, None]

    def target_scores(self) -> Tensor:
        """(N, 1): the score of the row's own class where that is in this chunk, else 0."""
        if self.inputs.rounded:
            row = self.column
            if self.nearest is not None:
                row = self.inputs.reduction.subcenters * row + self.nearest.gather(1, row)
            exact = torch.linalg.vecdot(self.inputs.embeddings, self.prototypes.unit[row[:, 0]])[:, None]
            return torch.where(self.inside, exact, 0.0)
        return torch.where(self.inside, self.scores.gather(1, self.column), 0.0)

    def put_at_labels(self, matrix: Tensor, number: Tensor | float) -> Tensor:
        """Write `number` where a row meets its own class."""
        kept = matrix.gather(1, self.column)
        return matrix.scatter_(1, self.column, torch.where(self.inside, number, kept))

    def to_rows(self, grad: Tensor) -> Tensor:
        """The gradients of the classes' scores as those of their prototypes': all of it goes to the nearest one."""
        if self.nearest is None:
            return grad
        spread = grad.new_zeros(*grad.shape, self.inputs.reduction.subcenters)
        return spread.scatter_(2, self.nearest[..., None], grad[..., None]).flatten(1)

    def terms(self) -> Tensor:
        """scale f(score) + offset + bias. Uses up the scores: they may be overwritten."""
        inputs = self.inputs
        terms = inputs.reduction.score_function.value(self.scores).mul_(inputs.scale)
        if inputs.offset is not None:
            terms.add_(inputs.offset)
        if inputs.bias is not None:
            terms.add_(inputs.bias[self.classes].to(terms.dtype))
        return terms


def _chunks(inputs: ReductionInputs, chunk_size: int | None) -> Iterator[_Chunk]:
    several = inputs.reduction.subcenters
    rows, classes = inputs.embeddings.shape[0], inputs.prototypes.shape[0] // several
    size = max(1, (chunk_size or _default_chunk_size(inputs.embeddings)) // several)
    buffer = inputs.embeddings.new_empty(rows * min(size, classes) * several)
    for start in range(0, classes, size):
        yield _Chunk(inputs, buffer, start, min(start + size, classes))


class _Reducer:
    """Running reduction over chunks."""

    def __init__(self, kind: str, x: Tensor) -> None:
        rows = x.shape[0]
        self.kind = kind
        empty = kind in ("logsumexp", "max")
        self.best = x.new_full((rows, 1), NEVER if empty else 0.0)
        self.total = x.new_zeros((rows, 1))
        self.index = torch.full((rows, 1), -1, dtype=torch.int64, device=x.device)

    def add(self, chunk: _Chunk) -> None:
        terms = chunk.terms()
        if self.kind == "logsumexp":
            chunk.put_at_labels(terms, NEVER)
            best = torch.maximum(self.best, terms.amax(1, keepdim=True))
            shift = _finite(best)
            here = terms.sub_(shift).exp_().sum(1, keepdim=True)
            self.total = self.total * (self.best - shift).exp() + here
            self.best = best
        elif self.kind == "max":
            best, column = chunk.put_at_labels(terms, NEVER).max(1, keepdim=True)
            better = best > self.best
            self.index = torch.where(better, column + chunk.classes.start, self.index)
            self.best = torch.where(better, best, self.best)
        else:
            if self.kind == "softplus_sum":
                terms = softplus(terms)
            elif self.kind == "hinge_sum":
                terms.clamp_(min=0)
            self.total = self.total + chunk.put_at_labels(terms, 0.0).sum(1, keepdim=True)

    def value(self) -> Tensor:
        if self.kind == "logsumexp":
            return _finite(self.best) + self.total.log()
        return self.best if self.kind == "max" else self.total


def _finite(x: Tensor) -> Tensor:
    return torch.where(x == NEVER, 0.0, x)


class _Chunked(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, inputs: ReductionInputs, chunk_size: int | None, *_: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        target, value, index = chunked_forward(inputs, chunk_size)
        ctx.mark_non_differentiable(index)
        ctx.save_for_backward(*inputs.differentiable, inputs.labels, value, index)
        ctx.reduction, ctx.chunk_size, ctx.rounded = inputs.reduction, chunk_size, inputs.rounded
        return target, value, index

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_target: Tensor, grad_value: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        x, prototypes, scale, offset, bias, labels, value, index = ctx.saved_tensors
        inputs = ReductionInputs(x, prototypes, scale, offset, bias, labels, ctx.reduction, rounded=ctx.rounded)
        needs = ctx.needs_input_grad[2:]
        return None, None, *chunked_backward(inputs, ctx.chunk_size, needs, value, index, (grad_target, grad_value))


def chunked_forward(inputs: ReductionInputs, chunk_size: int | None) -> tuple[Tensor, Tensor, Tensor]:
    """(N,) each: the target's score, the reduced value, and the class of a maximum, -1 for the other kinds."""
    x = inputs.embeddings
    reducer = _Reducer(inputs.reduction.kind, x)
    target = x.new_zeros((x.shape[0], 1))
    for chunk in _chunks(inputs, chunk_size):
        target += chunk.target_scores()
        reducer.add(chunk)
    return target[:, 0], reducer.value()[:, 0], reducer.index[:, 0]


def chunked_backward(
    inputs: ReductionInputs,
    chunk_size: int | None,
    needs: Sequence[bool],
    value: Tensor,
    index: Tensor,
    grads: tuple[Tensor, Tensor],
) -> tuple[Tensor | None, ...]:
    """The gradients of `inputs.differentiable`, those that are needed, from `grads`, those of target and value."""
    gradients, (grad_target, grad_value) = _Gradients(inputs, needs), grads
    with torch.autocast(inputs.embeddings.device.type, enabled=False):
        if inputs.reduction.kind == "max":
            gradients.add_max(grad_target[:, None], grad_value[:, None], index)
        else:
            for chunk in _chunks(inputs, chunk_size):
                gradients.add(chunk, grad_target[:, None], grad_value[:, None], value[:, None])
    return gradients.result()


class _Gradients:
    """Gradients to embeddings, prototypes, scale, offset and bias, accumulated over chunks."""

    def __init__(self, inputs: ReductionInputs, needed: Sequence[bool]) -> None:
        x, prototypes = inputs.embeddings, inputs.prototypes
        self.inputs = inputs
        self.x = torch.zeros_like(x) if needed[0] else None
        self.prototypes = torch.empty_like(prototypes) if needed[1] else None
        self.scale = x.new_zeros((x.shape[0], 1)) if needed[2] else None
        self.offset = x.new_zeros((x.shape[0], 1)) if needed[3] else None
        self.bias = torch.empty_like(inputs.bias) if needed[4] and inputs.bias is not None else None

    def add(self, chunk: _Chunk, grad_target: Tensor, grad_value: Tensor, value: Tensor) -> None:
        """Add what one chunk of classes gives."""
        inputs, function = self.inputs, self.inputs.reduction.score_function
        derivative = function.derivative(chunk.scores)
        values = function.value(chunk.scores).clone() if self.scale is not None else None
        grad = chunk.put_at_labels(self._terms(chunk, value), 0.0)
        if self.scale is not None and values is not None:
            self.scale += torch.linalg.vecdot(grad, values)[:, None] * grad_value
        if self.offset is not None:
            self.offset += grad.sum(1, keepdim=True) * grad_value
        if self.bias is not None:
            self.bias[chunk.classes] = (grad.T @ grad_value)[:, 0].to(self.bias.dtype)
        plain = derivative if isinstance(derivative, float) else 1.0
        grad.mul_(grad_value * inputs.scale * plain)
        if not isinstance(derivative, float):
            grad.mul_(derivative)
        grad = chunk.to_rows(chunk.put_at_labels(grad, grad_target))
        if self.x is not None:
            if inputs.rounded:
                self.x += _multiply(grad, chunk.prototypes.unit, True)
            else:
                self.x.addmm_(grad, chunk.prototypes.unit)
        if self.prototypes is not None:
            self._add_prototypes(chunk, grad, self.prototypes[chunk.rows])

    def add_max(self, grad_target: Tensor, grad_value: Tensor, index: Tensor) -> None:
        """Add the gradients of a maximum: each row meets its own class and one other, O(N d) in all."""
        inputs, function = self.inputs, self.inputs.reduction.score_function
        for fill in (self.prototypes, self.bias):
            if fill is not None:
                fill.zero_()
        if not len(inputs.prototypes):
            return
        found = (index >= 0)[:, None]
        score = self._add_rows(index, lambda score: grad_value * inputs.scale * function.derivative(score) * found)
        self._add_rows(inputs.labels, lambda _: grad_target * (inputs.labels >= 0)[:, None])
        grad_value = grad_value * found
        if self.scale is not None:
            self.scale += grad_value * function.value(score)
        if self.offset is not None:
            self.offset += grad_value
        if self.bias is not None:
            self.bias.index_add_(0, index.clamp(min=0), grad_value[:, 0].to(self.bias.dtype))

    def _add_rows(self, classes: Tensor, coefficient: Callable[[Tensor], Tensor]) -> Tensor:
        """Add the gradients of one score per row, coefficient(score) each; returns the (N, 1) scores."""
        x, rows = self.inputs.embeddings, self._nearest_rows(classes.clamp(min=0))
        chosen = _Unit(self.inputs, self.inputs.prototypes[rows])
        score = (x * chosen.unit).sum(1, keepdim=True)
        grad = coefficient(score)
        if self.x is not None:
            self.x += grad * chosen.unit
        if self.prototypes is not None:
            self.prototypes.index_add_(0, rows, chosen.through_norm(grad * x).to(self.prototypes.dtype))
        return score

    def _nearest_rows(self, classes: Tensor) -> Tensor:
        """(N,): of the prototypes of one class for each row, the row of that with the largest score."""
        several = self.inputs.reduction.subcenters
        if several == 1:
            return classes
        rows = several * classes[:, None] + torch.arange(several, device=classes.device)
        unit = _Unit(self.inputs, self.inputs.prototypes[rows.flatten()]).unit.view(*rows.shape, -1)
        best = torch.linalg.vecdot(unit, self.inputs.embeddings[:, None]).argmax(1, keepdim=True)
        return rows.gather(1, best)[:, 0]

    def _add_prototypes(self, chunk: _Chunk, grad: Tensor, out: Tensor) -> None:
        x, rounded = self.inputs.embeddings, self.inputs.rounded
        if out.dtype == x.dtype:
            chunk.prototypes.through_norm(_multiply(grad.T, x, rounded, out))
        else:
            out.copy_(chunk.prototypes.through_norm(_multiply(grad.T, x, rounded)))

    def _terms(self, chunk: _Chunk, value: Tensor) -> Tensor:
        """The derivative of the reduced value with respect to each term."""
        kind = self.inputs.reduction.kind
        if kind == "sum":
            return torch.ones_like(chunk.scores)
        terms = chunk.terms()
        if kind == "logsumexp":
            return terms.sub_(_finite(value)).exp_()
        if kind == "softplus_sum":
            return terms.sigmoid_()
        return terms.gt(0).to(terms.dtype)

    def result(self) -> tuple[Tensor | None, ...]:
        scale, offset = self.inputs.scale, self.inputs.offset
        return (
            self.x,
            self.prototypes,
            None if self.scale is None else self.scale.sum_to_size(scale.shape),
            None if self.offset is None or offset is None else self.offset.sum_to_size(offset.shape),
            self.bias,
        )
