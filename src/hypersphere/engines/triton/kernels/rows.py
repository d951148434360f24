"""What is O(N d) or O(C d): unit vectors, the rows' own classes, and the last step of the gradients."""

import triton
import triton.language as tl

from hypersphere.engines.triton.kernels.score_functions import nearest


@triton.jit
def _inverse_norm(v, eps):
    """1 / sqrt(sum v^2 + eps) (NormFace eq. 3) of every line of a matrix, without overflow."""
    size = tl.maximum(tl.max(tl.abs(v), 1), 1.0)
    shrunk = v * (1 / size)[:, None]
    length = tl.sqrt_rn(tl.sum(shrunk * shrunk, 1) + eps / (size * size)) * size
    return tl.div_rn(tl.full(size.shape, 1.0, tl.float32), length)


@triton.jit
def _unit_row(source, row, stride, depth, DIM: tl.constexpr, eps, NORMALIZE: tl.constexpr):
    """(1, BLOCK): one row as the scores see it, and (1,) the inverse of its length."""
    v = tl.load(source + row * stride + depth[None, :], (depth < DIM)[None, :], 0.0).to(tl.float32)
    inverse = tl.full([1], 1.0, tl.float32)
    if NORMALIZE:
        inverse = _inverse_norm(v, eps)
    return v * inverse[:, None], inverse


@triton.jit(do_not_specialize=["count", "padded"])
def unit_rows(
    source, unit, inverse, count, padded, stride, unit_stride, eps,
    DIM: tl.constexpr, NORMALIZE: tl.constexpr, TF32: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """All rows of `source` as the products take them, zeros up to `padded` and `unit_stride`; their inverse lengths."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    depth = tl.arange(0, BLOCK)
    inside = (row < count)[:, None] & (depth < DIM)[None, :]
    v = tl.load(source + row[:, None] * stride + depth[None, :], inside, 0.0).to(tl.float32)
    if NORMALIZE:
        shrink = _inverse_norm(v, eps)
        tl.store(inverse + row, shrink, row < count)
        v *= shrink[:, None]
    inside = (row < padded)[:, None] & (depth < unit_stride)[None, :]
    tl.store(unit + row[:, None] * unit_stride + depth[None, :], nearest(v, TF32).to(unit.dtype.element_ty), inside)


@triton.jit
def unit_rows_and_targets(
    x, w, labels, unit, inverse, target, x_stride, w_stride, unit_stride, eps,
    DIM: tl.constexpr, NORMALIZE: tl.constexpr, NORMALIZE_X: tl.constexpr, TF32: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The embeddings as `unit_rows` makes them, and the score of each with its own class as `pair_scores` does."""
    row = tl.program_id(0).to(tl.int64)
    depth = tl.arange(0, BLOCK)
    v, shrink = _unit_row(x, row, x_stride, depth, DIM, eps, NORMALIZE_X)
    if NORMALIZE_X:
        tl.store(inverse + row + tl.arange(0, 1), shrink)
    rounded = nearest(v, TF32).to(unit.dtype.element_ty)
    tl.store(unit + row * unit_stride + depth[None, :], rounded, (depth < unit_stride)[None, :])
    label = tl.load(labels + row).to(tl.int64)
    own, _ = _unit_row(w, tl.maximum(label, 0), w_stride, depth, DIM, eps, NORMALIZE)
    tl.store(target + row + tl.arange(0, 1), tl.where(label >= 0, tl.sum(v * own, 1), 0.0))


@triton.jit
def pair_scores(
    x, w, chosen, out, x_stride, w_stride, eps,
    DIM: tl.constexpr, NORMALIZE: tl.constexpr, NORMALIZE_X: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The score of every row and one chosen class, in float32; 0 where the class is -1."""
    row = tl.program_id(0).to(tl.int64)
    depth = tl.arange(0, BLOCK)
    v, _ = _unit_row(x, row, x_stride, depth, DIM, eps, NORMALIZE_X)
    choice = tl.load(chosen + row).to(tl.int64)
    prototype, _ = _unit_row(w, tl.maximum(choice, 0), w_stride, depth, DIM, eps, NORMALIZE)
    score = tl.sum(v * prototype, 1)
    tl.store(out + row + tl.arange(0, 1), tl.where(choice >= 0, score, 0.0))


@triton.jit
def weigh_rows(
    x, inverse, grad, scale, shift, value, peak, factor, out, x_stride, scale_stride, out_stride,
    DIM: tl.constexpr, GAIN: tl.constexpr, TF32: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """factor = grad scale exp(shift - value) / GAIN, what g lacks, and the rows times it (over `peak`)."""
    row = tl.program_id(0).to(tl.int64)
    depth = tl.arange(0, BLOCK)
    multiple = tl.load(grad + row) * tl.load(scale + row * scale_stride) / GAIN
    if value is not None:
        reduced = tl.load(value + row)
        if shift is not None:
            multiple *= tl.exp(tl.load(shift + row) - reduced)
        multiple = tl.where(reduced == float("-inf"), 0.0, multiple)
    tl.store(factor + row, multiple)
    if peak is not None:
        highest = tl.load(peak)
        multiple = tl.where(highest > 0, multiple / highest, 0.0)
    if inverse is not None:
        multiple *= tl.load(inverse + row)
    v = tl.load(x + row * x_stride + depth, depth < DIM, 0.0) * multiple
    tl.store(out + row * out_stride + depth, nearest(v, TF32).to(out.dtype.element_ty), depth < out_stride)


@triton.jit
def finish_rows(
    x, w, product, factor, labels, grad_target, chosen, grad_chosen, out, x_stride, w_stride, product_stride, eps,
    DIM: tl.constexpr, NORMALIZE: tl.constexpr, NORMALIZE_X: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradient of every embedding: factor times its product, its own class, a chosen one, the normalisation."""
    row = tl.program_id(0).to(tl.int64)
    depth = tl.arange(0, BLOCK)
    inside = (depth < DIM)[None, :]
    v, shrink = _unit_row(x, row, x_stride, depth, DIM, eps, NORMALIZE_X)
    label = tl.load(labels + row).to(tl.int64)
    own, _ = _unit_row(w, tl.maximum(label, 0), w_stride, depth, DIM, eps, NORMALIZE)
    grad = own * tl.where(label >= 0, tl.load(grad_target + row), 0.0)
    if chosen is not None:
        choice = tl.load(chosen + row).to(tl.int64)
        other, _ = _unit_row(w, tl.maximum(choice, 0), w_stride, depth, DIM, eps, NORMALIZE)
        grad += other * tl.where(choice >= 0, tl.load(grad_chosen + row), 0.0)
    if product is not None:
        there = product + row * product_stride + depth[None, :]
        grad += tl.load(there, inside, 0.0) * tl.load(factor + row)
    if NORMALIZE_X:
        grad = (grad - v * tl.sum(v * grad, 1)[:, None]) * shrink[:, None]
    tl.store(out + row * DIM + depth[None, :], grad, inside)


@triton.jit(do_not_specialize=["rows"])
def scatter_rows(
    x, w, chosen, coefficient, out, rows, x_stride, w_stride, eps,
    DIM: tl.constexpr, NORMALIZE: tl.constexpr, NORMALIZE_X: tl.constexpr, BLOCK: tl.constexpr, SPAN: tl.constexpr,
):  # fmt: skip
    """Add to the gradient of every row's chosen class coefficient x, through the normalisation of the prototypes.

    The first of the rows that chose a class adds for all of them, in their order: no atomics.
    """
    row = tl.program_id(0)
    this = row.to(tl.int64)
    depth = tl.arange(0, BLOCK)
    choice = tl.load(chosen + row).to(tl.int64)
    before = 0
    for start in tl.range(0, row, SPAN):
        others = start + tl.arange(0, SPAN)
        before += tl.sum((tl.load(chosen + others, others < row, -2) == choice).to(tl.int32), 0)
    if (choice >= 0) & (before == 0):
        grad = tl.zeros([1, BLOCK], tl.float32)
        for start in tl.range(row // SPAN * SPAN, rows, SPAN):
            others = start + tl.arange(0, SPAN)
            if tl.sum((tl.load(chosen + others, others < rows, -2) == choice).to(tl.int32), 0) > 0:
                for later in tl.range(tl.maximum(start, row) - row, tl.minimum(start + SPAN, rows) - row):
                    if tl.load(chosen + this + later) == choice:
                        v, _ = _unit_row(x, this + later, x_stride, depth, DIM, eps, NORMALIZE_X)
                        grad += v * tl.load(coefficient + this + later)
        prototype, shrink = _unit_row(w, choice, w_stride, depth, DIM, eps, NORMALIZE)
        if NORMALIZE:
            grad = (grad - prototype * tl.sum(prototype * grad, 1)[:, None]) * shrink[:, None]
        there = out + choice * DIM + depth[None, :]
        inside = (depth < DIM)[None, :]
        tl.store(there, tl.load(there, inside, 0.0) + grad, inside)
