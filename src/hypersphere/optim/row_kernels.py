"""One step of an optimizer on some rows of a matrix, every number read and written once."""

import triton
import triton.language as tl

from hypersphere.engines.triton.kernels.rows import _inverse_norm


@triton.jit
def _places(index, found_inf, count, DIM: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """The rows of this program, where they lie in the matrix, and which numbers there are; none after an overflow."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    depth = tl.arange(0, BLOCK)[None, :]
    if found_inf is not None:
        count = tl.where(tl.load(found_inf) == 0.0, count, 0)
    there = row < count
    place = row
    if index is not None:
        place = tl.load(index + row, there, 0)
    inside = there[:, None] & (depth < DIM)
    return row, place[:, None] * DIM + depth, row[:, None] * DIM + depth, inside


@triton.jit(do_not_specialize=["count"])
def sgd(
    weight, grad, buffer, index, found_inf, count, lr, momentum, decay, eps,
    DIM: tl.constexpr, UNIT: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """buffer = momentum buffer + (grad + decay weight), weight -= lr buffer; the gradient first through the norm."""
    _, place, given, inside = _places(index, found_inf, count, DIM, BLOCK, ROWS)
    w = tl.load(weight + place, inside, 0.0).to(tl.float32)
    g = tl.load(grad + given, inside, 0.0).to(tl.float32)
    if UNIT:
        inverse = _inverse_norm(w, eps)[:, None]
        unit = w * inverse
        g = (g - unit * tl.sum(unit * g, 1)[:, None]) * inverse
    g += decay * w
    if buffer is not None:
        g += momentum * tl.load(buffer + place, inside, 0.0).to(tl.float32)
        tl.store(buffer + place, g.to(buffer.dtype.element_ty), inside)
    tl.store(weight + place, (w - lr * g).to(weight.dtype.element_ty), inside)


@triton.jit(do_not_specialize=["count"])
def adamw(
    weight, grad, mean, square, index, found_inf, size, spread, count, keep, beta1, beta2, eps,
    DIM: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """weight = keep weight - size mean / (sqrt(square) spread + eps), `size` and `spread` being of each row."""
    row, place, given, inside = _places(index, found_inf, count, DIM, BLOCK, ROWS)
    w = tl.load(weight + place, inside, 0.0).to(tl.float32)
    g = tl.load(grad + given, inside, 0.0).to(tl.float32)
    m = tl.load(mean + place, inside, 0.0).to(tl.float32)
    v = tl.load(square + place, inside, 0.0).to(tl.float32)
    m += (1 - beta1) * (g - m)
    v = beta2 * v + (1 - beta2) * g * g
    tl.store(mean + place, m.to(mean.dtype.element_ty), inside)
    tl.store(square + place, v.to(square.dtype.element_ty), inside)
    step = tl.load(size + row, row < count, 0.0)[:, None]
    wide = tl.sqrt_rn(v) * tl.load(spread + row, row < count, 0.0)[:, None] + eps
    moved = w * keep - step * tl.div_rn(m, tl.where(inside, wide, 1.0))
    tl.store(weight + place, moved.to(weight.dtype.element_ty), inside)
