"""The pass over all scores: one tile of them at a time, in registers, from product to reduction."""

import triton
import triton.language as tl

from hypersphere.engines.triton.kernels.score_functions import LOG2E, dot, nearest, pieces, score_function, summand

NEVER = tl.constexpr(float("-inf"))


@triton.jit(do_not_specialize=["rows", "first", "last", "classes", "blocks"])
def scores(
    x,
    w,
    g,
    labels,
    scale,
    offset,
    bias,
    shift,
    threshold,
    t,
    weight,
    total,
    best,
    index,
    scale_grad_total,
    offset_grad_total,
    bias_partial,
    rows,
    first,
    last,
    classes,
    blocks,
    scale_stride,
    offset_stride,
    DIM: tl.constexpr,
    KIND: tl.constexpr,
    CURVE: tl.constexpr,
    PARAMETER: tl.constexpr,
    RELU: tl.constexpr,
    DETACHED: tl.constexpr,
    ONLINE: tl.constexpr,
    GAIN: tl.constexpr,
    PRECISION: tl.constexpr,
    TF32: tl.constexpr,
    BRANCH: tl.constexpr,
    FLATTEN: tl.constexpr,
    PIECES: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    """Reduce scale f(x w^T) + offset + bias - shift over classes first..last, and write its derivative.

    A program keeps BM rows and walks over every `splits`-th tile of BN classes; what it reduced goes to row `split` of
    the partial results, so that nothing is added atomically. Each output is left out where its pointer is None:
    total, best, index (splits, N); scale_grad_total and offset_grad_total, the sums of T f and of T, T being the
    derivative of the reduced value with respect to a term; g, T f' GAIN of every score; bias_partial, the sum of
    weight T over the rows of a block, (blocks, C). A logsumexp's terms come times log2(e).
    """
    block, split = tl.program_id(0) % blocks, tl.program_id(0) // blocks
    splits = tl.num_programs(0) // blocks
    row = block * BM + tl.arange(0, BM)
    here = row < rows
    label = tl.load(labels + row, here, -1).to(tl.int32)
    scale_log2 = tl.load(scale + row * scale_stride, here, 0.0)
    offset_log2 = tl.zeros([BM], tl.float32)
    if offset is not None:
        offset_log2 += tl.load(offset + row * offset_stride, here, 0.0)
    if shift is not None:
        offset_log2 -= tl.load(shift + row, here, 0.0)
    if KIND == "logsumexp":
        scale_log2, offset_log2 = scale_log2 * LOG2E, offset_log2 * LOG2E
    threshold_row, t_value = 0.0, 0.0
    if threshold is not None:
        threshold_row = tl.load(threshold + row, here, 0.0)[:, None]
        t_value = tl.load(t)
    if weight is not None:
        bias_weight = tl.load(weight + row, here, 0.0)

    running = tl.zeros([BM], tl.float32)
    scale_grad = tl.zeros([BM], tl.float32)
    offset_grad = tl.zeros([BM], tl.float32)
    highest = tl.full([BM], NEVER, tl.float32)
    where_highest = tl.full([BM], -1, tl.int32)
    for tile in tl.range(split, tl.cdiv(last - first, BN), splits, flatten=FLATTEN):
        begin = first + tile * BN
        product = tl.zeros([BM, BN], tl.float32)
        for k in tl.range(0, DIM, BK):
            product = dot(x.load([block * BM, k]), w.load([begin, k]).T, product, PRECISION)
        parts = pieces(product, PIECES)
        for part in tl.static_range(PIECES):
            z = parts[part]
            start = begin + part * (BN // PIECES)
            column = start + tl.arange(0, BN // PIECES)
            value, f_derivative = score_function(z, threshold_row, t_value, CURVE, PARAMETER, RELU, DETACHED)
            n = value * scale_log2[:, None] + offset_log2[:, None]
            if bias is not None:
                term_bias = tl.load(bias + column, column < last, 0.0).to(tl.float32)
                if KIND == "logsumexp":
                    term_bias *= LOG2E
                n += term_bias[None, :]
            if BRANCH:
                has_label = tl.max(((label >= start) & (label < start + BN // PIECES)).to(tl.int32), 0)
                if (has_label > 0) | (start + BN // PIECES > last):
                    n = tl.where((column < last)[None, :] & (column[None, :] != label[:, None]), n, NEVER)
            else:
                n = tl.where((column < last)[None, :] & (column[None, :] != label[:, None]), n, NEVER)

            if KIND == "max":
                piece_highest, place = tl.max(n, 1, return_indices=True, return_indices_tie_break_left=True)
                better = piece_highest > highest
                where_highest = tl.where(better, start + place, where_highest)
                highest = tl.where(better, piece_highest, highest)
            else:
                if ONLINE:
                    higher = tl.maximum(highest, tl.max(n, 1))
                    level = tl.where(higher == NEVER, 0.0, higher)
                    fade = tl.exp2(highest - level)
                    running, scale_grad = running * fade, scale_grad * fade
                    highest = higher
                    n -= level[:, None]
                added, derivative = summand(n, KIND)
                if total is not None:
                    running += tl.sum(added, 1)
                if scale_grad_total is not None:
                    scale_grad += tl.sum(derivative * value, 1)
                if offset_grad_total is not None:
                    offset_grad += tl.sum(derivative, 1)
                if bias_partial is not None:
                    there = bias_partial + block.to(tl.int64) * classes + column
                    tl.store(there, tl.sum(derivative * bias_weight[:, None], 0), column < last)
                if g is not None:
                    g.store([block * BM, start - first], nearest(derivative * f_derivative * GAIN, TF32).to(g.dtype))

    spot = split.to(tl.int64) * rows + row
    if total is not None:
        tl.store(total + spot, running, here)
    if best is not None:
        tl.store(best + spot, highest, here)
    if index is not None:
        tl.store(index + spot, where_highest, here)
    if scale_grad_total is not None:
        tl.store(scale_grad_total + spot, scale_grad, here)
    if offset_grad_total is not None:
        tl.store(offset_grad_total + spot, offset_grad, here)
