"""The mean loss of a batch, with its derivatives, from target cosines and partial reductions: one program."""

import triton
import triton.language as tl

from hypersphere.engines.triton.kernels.score_functions import LOG2E, log1p, similarity


@triton.jit
def _softplus(u):
    """log(1 + e^u), and its derivative."""
    e = tl.exp2(tl.abs(u) * -LOG2E)
    sigmoid = 1 / (1 + e)
    return tl.maximum(u, 0.0) + log1p(e), tl.where(u < 0, e * sigmoid, sigmoid)


@triton.jit
def _total(partial, row, here, rows, splits):
    """The sum of a row's partial results, which are (splits, rows)."""
    total = tl.zeros(row.shape, tl.float32)
    for split in tl.range(splits):
        total += tl.load(partial + split * rows + row, here, 0.0)
    return total


@triton.jit(do_not_specialize=["rows", "splits", "scale", "m0", "cos_m2", "sin_m2", "m3"])
def margin_softmax(
    partial, target, labels, shift, value, loss, derivatives, rows, splits, scale, m0, cos_m2, sin_m2, m3,
    ANGULAR: tl.constexpr, DETACHED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The mean over labelled rows of softplus(value - scale t), t = m0 cos(theta_y + m2) - m3.

    value = log(sum of partial results) + shift is written, too, and the derivatives of the mean with respect to the
    targets and the values, (2, rows). The angle itself is never made: cos(theta + m2) = cos m2 cos_y - sin m2 sin_y.
    """
    counted = tl.zeros([BLOCK], tl.int32)
    for start in tl.range(0, rows, BLOCK):
        row = start + tl.arange(0, BLOCK)
        counted += (tl.load(labels + row, row < rows, -1) >= 0).to(tl.int32)
    share = 1.0 / tl.maximum(tl.sum(counted, 0), 1).to(tl.float32)
    losses = tl.zeros([BLOCK], tl.float32)
    for start in tl.range(0, rows, BLOCK):
        row = start + tl.arange(0, BLOCK)
        here = row < rows
        labelled = here & (tl.load(labels + row, here, -1) >= 0)
        total = _total(partial, row, here, rows, splits)
        reduced = tl.log(tl.where(total > 0, total, 1.0)) + tl.load(shift + row, here, 0.0)
        reduced = tl.where(total > 0, reduced, float("-inf"))
        tl.store(value + row, reduced, here)
        cosine = tl.load(target + row, here, 0.0)
        turned, derivative = cosine, tl.full([BLOCK], 1.0, tl.float32)
        if ANGULAR:
            inside = tl.minimum(tl.maximum(cosine, -1.0), 1.0)
            sine = tl.sqrt_rn((1 - inside) * (1 + inside))
            turned = inside * cos_m2 - sine * sin_m2
            # At the poles the subgradient is 0, as everywhere in this library.
            derivative = tl.where(sine > 0, cos_m2 + inside * sin_m2 / tl.where(sine > 0, sine, 1.0), 0.0)
        derivative *= m0
        if DETACHED:
            derivative = tl.full([BLOCK], 1.0, tl.float32)
        row_loss, sigmoid = _softplus(reduced - scale * (m0 * turned - m3))
        losses += tl.where(labelled, row_loss, 0.0)
        by_value = tl.where(labelled, sigmoid * share, 0.0)
        tl.store(derivatives + row, -scale * derivative * by_value, here)
        tl.store(derivatives + rows + row, by_value, here)
    tl.store(loss, tl.sum(losses, 0) * share)


@triton.jit(do_not_specialize=["rows", "splits", "scale", "margin", "positive_weight", "negative_weight"])
def sphereface2(
    partial, partial_slope, target, labels, bias, value, loss, derivatives, by_bias, rows, splits,
    scale, margin, positive_weight, negative_weight,
    POWER: tl.constexpr, DETACHED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The mean over all rows of SphereFace2's loss (eq. 5), its derivatives as above, and the one of the bias.

    `partial_slope` has the derivatives of the values with respect to the bias.
    """
    share = 1.0 / tl.maximum(rows, 1).to(tl.float32)
    shared_bias = 0.0
    if bias is not None:
        shared_bias = tl.load(bias).to(tl.float32)
    losses = tl.zeros([BLOCK], tl.float32)
    slopes = tl.zeros([BLOCK], tl.float32)
    for start in tl.range(0, rows, BLOCK):
        row = start + tl.arange(0, BLOCK)
        here = row < rows
        labelled = here & (tl.load(labels + row, here, -1) >= 0)
        reduced = _total(partial, row, here, rows, splits)
        tl.store(value + row, reduced, here)
        adjusted, derivative = similarity(tl.load(target + row, here, 0.0), POWER, False, DETACHED)
        positive, sigmoid = _softplus(-(scale * (adjusted - margin) + shared_bias))
        positive, sigmoid = tl.where(labelled, positive, 0.0), tl.where(labelled, sigmoid, 0.0)
        losses += tl.where(here, (positive_weight * positive + negative_weight * reduced) / scale, 0.0)
        tl.store(derivatives + row, -positive_weight * sigmoid * derivative * share, here)
        tl.store(derivatives + rows + row, tl.full([BLOCK], 1.0, tl.float32) * (negative_weight / scale * share), here)
        if by_bias is not None:
            slope = negative_weight * _total(partial_slope, row, here, rows, splits) - positive_weight * sigmoid
            slopes += tl.where(here, slope / scale, 0.0)
    tl.store(loss, tl.sum(losses, 0) * share)
    if by_bias is not None:
        tl.store(by_bias, tl.sum(slopes, 0) * share)
