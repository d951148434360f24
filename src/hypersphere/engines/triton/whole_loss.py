"""The mean loss of a batch and its gradients in a dozen launches, recorded and replayed while nothing changes.

Below some 10^5 classes a step of a head lasts as long as its launches from Python. So the rows' losses are computed in
a kernel of their own (`row_losses.py`), and where the same shapes come again the launches become two CUDA graphs.
"""

from __future__ import annotations

import gc
import threading
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hypersphere.engines.options import EngineOptions
from hypersphere.engines.row_losses import RowLoss, SphereFace2Row
from hypersphere.engines.spec import Reduction, ReductionInputs
from hypersphere.engines.triton.autograd import Kept, fused_backward, stores_g
from hypersphere.engines.triton.available import interpreted
from hypersphere.engines.triton.support import middle_of_bounds, middle_shift, padded

REPEATS = 3
"""Calls of the same kind before one is recorded: Triton has compiled its kernels by then."""
LARGEST = 2**27
"""Scores of a call that is recorded: with more the device is busier than the host, and recordings hold memory."""


class WholeLoss(NamedTuple):
    """What is computed, apart from tensors."""

    reduction: Reduction
    options: EngineOptions
    row_loss: RowLoss


class Tensors(NamedTuple):
    """What it is computed from: embeddings, prototypes, labels, and the bias that all classes share, if any."""

    x: Tensor
    w: Tensor
    labels: Tensor
    bias: Tensor | None


class State(NamedTuple):
    """What a forward pass leaves: the loss, its derivatives in rows, (2, N), and bias, and what the engine keeps."""

    loss: Tensor
    derivatives: Tensor
    by_bias: Tensor | None
    value: Tensor
    scale: Tensor
    offset: Tensor | None
    kept: Kept


Needs = tuple[bool, bool, bool]
"""Which of embeddings, prototypes and bias need a gradient."""


def _inputs(whole: WholeLoss, tensors: Tensors) -> ReductionInputs:
    """The reduction of this loss: scale and offset as tensors, without gradients."""
    x, row_loss = tensors.x, whole.row_loss
    offset = None
    if isinstance(row_loss, SphereFace2Row):
        offset = x.new_full((1, 1), row_loss.scale * row_loss.negative_margin)
        offset = offset if tensors.bias is None else offset + tensors.bias.detach().to(offset.dtype)
    scale = x.new_full((1, 1), row_loss.scale)
    return ReductionInputs(
        x, tensors.w, scale, offset, None, tensors.labels, whole.reduction, fixed_scale=row_loss.scale
    )


def forward_pass(whole: WholeLoss, tensors: Tensors, needs: Needs) -> State:
    """Compute the loss, and what its gradients take."""
    from hypersphere.engines.triton.launch import Launcher

    assert whole.options.precision is not None
    inputs = _inputs(whole, tensors)
    launch = Launcher(inputs, whole.options.precision)
    shift = middle_shift(inputs)
    stored = stores_g(inputs, whole.options, (*needs[:2], False, False, False), shift)
    g = launch.new_g(launch.width) if stored else None
    loss, value, derivatives, by_bias = launch.loss(whole.row_loss, tensors.bias, g, shift, needs[2])
    kept = Kept(None, None, g, shift, None, None, *launch.buffers)
    return State(loss, derivatives, by_bias, value, inputs.scale, inputs.offset, kept)


def backward_pass(
    whole: WholeLoss, tensors: Tensors, needs: Needs, state: State, grad: Tensor
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of embeddings, prototypes and bias from the one of the loss."""
    inputs = ReductionInputs(tensors.x, tensors.w, state.scale, state.offset, None, tensors.labels, whole.reduction)
    by_target, by_value = state.derivatives * grad
    five = (*needs[:2], False, False, False)
    grad_x, grad_w, *_ = fused_backward(inputs, whole.options, five, state.value, state.kept, (by_target, by_value))
    return grad_x, grad_w, None if state.by_bias is None else state.by_bias * grad


class Recording:
    """Both passes of one call as CUDA graphs: its embeddings and labels are copied in, its results out.

    The prototypes are read where they lie, unless they are made anew at each call (a sample of the classes). A later
    forward overwrites what a backward needs: `backward` then says so, and the caller computes that step again.
    """

    def __init__(self, whole: WholeLoss, tensors: Tensors, needs: Needs) -> None:
        self.copies_w = not tensors.w.is_leaf
        w = tensors.w.detach()
        bias = None if tensors.bias is None else tensors.bias.detach()
        held = Tensors(tensors.x.detach().clone(), w.clone() if self.copies_w else w, tensors.labels.clone(), bias)
        self.held, self.grad = held, torch.ones((), device=w.device)
        self.generation, self.lock = 0, threading.Lock()
        current, own = torch.cuda.current_stream(w.device), torch.cuda.Stream(w.device)  # type: ignore[no-untyped-call]
        own.wait_stream(current)
        with torch.cuda.stream(own):  # once as usual on a stream of its own, as torch asks before a capture
            backward_pass(whole, held, needs, forward_pass(whole, held, needs), self.grad)
        current.wait_stream(own)
        gc.collect()  # a graph that is destroyed during a capture would end it
        self.forward_graph, self.backward_graph = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.forward_graph, capture_error_mode="thread_local"):
            self.state = forward_pass(whole, held, needs)
        with torch.cuda.graph(self.backward_graph, pool=self.forward_graph.pool(), capture_error_mode="thread_local"):
            self.gradients = backward_pass(whole, held, needs, self.state, self.grad)

    def forward(self, tensors: Tensors) -> tuple[Tensor, int]:
        """The loss of a call, and the number by which its backward is known."""
        with self.lock:  # two threads may share a head: copies and replay belong together
            self.held.x.copy_(tensors.x)
            self.held.labels.copy_(tensors.labels)
            if self.copies_w:
                self.held.w.copy_(tensors.w)
            self.forward_graph.replay()
            self.generation += 1
            return self.state.loss.clone(), self.generation

    def backward(self, generation: int, grad: Tensor) -> tuple[Tensor | None, ...] | None:
        """The gradients of that call; None if another forward came since."""
        with self.lock:
            if generation != self.generation:
                return None
            self.grad.copy_(grad)
            self.backward_graph.replay()
            # Copies: the next replay overwrites the graph's own, and a gradient may be accumulated, or kept.
            return tuple(None if gradient is None else gradient.clone() for gradient in self.gradients)


class Recorder:
    """The recording of a head's calls, at most one: that of the latest kind which came `REPEATS` times in a row.

    A copy of a head, or one that was saved, begins without.
    """

    def __init__(self) -> None:
        self.kind: Any = None
        self.seen = 0
        self.recording: Recording | None = None

    def __reduce__(self) -> tuple[type[Recorder], tuple[()]]:
        return Recorder, ()

    def find(self, whole: WholeLoss, tensors: Tensors, needs: Needs) -> Recording | None:
        """The recording to replay for this call, made now if the call has come often enough; None to compute it."""
        x, w, _, bias = tensors
        if not _recordable(whole, tensors, needs):
            return None
        where = w.data_ptr() if w.is_leaf else None
        # Everything that a replay would not see: shapes, addresses, numbers, and the stream that orders the copies.
        kind = (
            *(x.shape, w.shape, w.stride(), w.dtype, where, None if bias is None else bias.data_ptr()),
            *(whole, needs, torch.cuda.current_stream(x.device).cuda_stream),
        )
        if kind != self.kind:
            self.kind, self.seen = kind, 0
        self.seen += 1
        if self.seen <= REPEATS:
            return None
        if self.seen == REPEATS + 1:
            self.recording = None  # first, so that its memory is free
            try:
                self.recording = Recording(whole, tensors, needs)
            except RuntimeError:  # out of memory, say: the launches do without
                torch.cuda.synchronize(x.device)
        return self.recording


def _recordable(whole: WholeLoss, tensors: Tensors, needs: Needs) -> bool:
    """Whether a graph can hold the call, and its memory is worth it."""
    x, w, _, _ = tensors
    scores = x.shape[0] * padded(w.shape[0])
    if x.device.type != "cuda" or interpreted() or not (needs[0] and needs[1]) or scores > LARGEST:
        return False
    budget = whole.options.budget
    return (budget is None or 2 * scores <= budget) and not torch.cuda.is_current_stream_capturing()


def fused_loss(whole: WholeLoss, tensors: Tensors, recorder: Recorder | None) -> Tensor | None:
    """The mean loss of the rows; None where the terms of a logsumexp are unbounded."""
    reduction = whole.reduction
    if reduction.kind == "logsumexp" and middle_of_bounds(reduction, whole.row_loss.scale) is None:
        return None
    return _WholeLoss.apply((whole, recorder), *tensors)  # type: ignore[no-any-return,no-untyped-call]


class _WholeLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, how: tuple[WholeLoss, Recorder | None], x: Tensor, w: Tensor, labels: Tensor, bias: Tensor | None
    ) -> Tensor:
        (whole, recorder), tensors, needs = how, Tensors(x, w, labels, bias), _needs(ctx)
        ctx.whole, ctx.generation = whole, 0
        ctx.recording = None if recorder is None else recorder.find(whole, tensors, needs)
        if ctx.recording is not None:
            ctx.save_for_backward(*tensors)
            loss, ctx.generation = ctx.recording.forward(tensors)
            return loss  # type: ignore[no-any-return]
        state = forward_pass(whole, tensors, needs)
        ctx.save_for_backward(*tensors, *state[1:-1], *state.kept)
        return state.loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, w, labels, bias, *rest = ctx.saved_tensors
        whole, tensors, needs = ctx.whole, Tensors(x, w, labels, bias), _needs(ctx)
        if ctx.recording is None:
            derivatives, by_bias, value, scale, offset, *kept = rest
            state = State(grad, derivatives, by_bias, value, scale, offset, Kept(*kept))
        else:
            gradients = ctx.recording.backward(ctx.generation, grad)
            if gradients is not None:
                return _in_order(*gradients)
            state = forward_pass(whole, tensors, needs)
        return _in_order(*backward_pass(whole, tensors, needs, state, grad))


def _needs(ctx: Any) -> Needs:
    _, x, w, _, bias = ctx.needs_input_grad
    return x, w, bias


def _in_order(x: Tensor | None, w: Tensor | None, bias: Tensor | None) -> tuple[Tensor | None, ...]:
    """Gradients as `backward` returns them: one for every argument of `forward`."""
    return None, x, w, None, bias
