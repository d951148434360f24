"""Score functions, and kinds of reduction, as functions of a tile in registers."""

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
_LEAST_BASE = tl.constexpr(1e-6)


@triton.jit
def dot(x, y, total, PRECISION: tl.constexpr):
    """total + x y. `widen` is for the interpreter, which multiplies no bfloat16."""
    if PRECISION == "widen":
        return tl.dot(x.to(tl.float32), y.to(tl.float32), total, input_precision="ieee")
    else:
        return tl.dot(x, y, total, input_precision=PRECISION)


@triton.jit
def nearest(v, TF32: tl.constexpr):
    """v rounded to the 10 bits of fraction that tensor cores read of a float32, which they would cut off."""
    if TF32:
        bits = (v.to(tl.int32, bitcast=True) + 0x1000) & -0x2000
        return tl.where(tl.abs(v) < float("inf"), bits.to(tl.float32, bitcast=True), v)
    else:
        return v


@triton.jit
def halves(tile):
    """The left and the right half of a tile's columns."""
    return tl.split(tl.permute(tl.reshape(tile, (tile.shape[0], 2, tile.shape[1] // 2)), (0, 2, 1)))


@triton.jit
def pieces(tile, PIECES: tl.constexpr):
    """A tile as 1, 2 or 4 tiles side by side: working on one after the other takes fewer registers."""
    if PIECES == 1:
        return (tile,)
    elif PIECES == 2:
        return halves(tile)
    else:
        left, right = halves(tile)
        a, b = halves(left)
        c, d = halves(right)
        return (a, b, c, d)


@triton.jit
def power(base, EXPONENT: tl.constexpr):
    """base^EXPONENT of numbers that are not negative; small whole exponents by multiplication."""
    if EXPONENT == 0:
        return tl.full(base.shape, 1.0, tl.float32)
    elif EXPONENT == 1:
        return base
    elif EXPONENT == 2:
        return base * base
    elif EXPONENT == 3:
        return base * base * base
    elif EXPONENT == 4:
        return (base * base) * (base * base)
    else:
        return tl.exp2(EXPONENT * tl.log2(base))


@triton.jit
def similarity(z, POWER: tl.constexpr, RELU: tl.constexpr, DETACHED: tl.constexpr):
    """g(z) = 2 ((z + 1)/2)^t - 1 (SphereFace2 sec. 2.2), and its derivative; RELU is the wrong-class ReLU."""
    value = z
    derivative = tl.full(z.shape, 1.0, tl.float32)
    if POWER != 1:
        base = tl.maximum((z + 1) * 0.5, 0.0)
        value = 2 * power(base, POWER) - 1
        if not DETACHED:
            if POWER < 1:
                base = tl.maximum(base, _LEAST_BASE)
            derivative = POWER * power(base, POWER - 1)
    if RELU:
        derivative = tl.where(value > 0, derivative, 0.0)
        value = tl.maximum(value, 0.0)
    return value, derivative


@triton.jit
def score_function(
    z, threshold, t, CURVE: tl.constexpr, PARAMETER: tl.constexpr, RELU: tl.constexpr, DETACHED: tl.constexpr
):
    """f(z) and f'(z) of a function of `hypersphere.engines.score_functions`."""
    if CURVE == "circle":
        derivative = tl.maximum(z + PARAMETER, 0.0)
        return derivative * (z - PARAMETER), derivative
    elif CURVE == "modulated":
        harder = z > threshold
        return tl.where(harder, z * (t + z), z), tl.where(harder, t + 2 * z, 1.0)
    else:
        return similarity(z, PARAMETER, RELU, DETACHED)


@triton.jit
def summand(n, KIND: tl.constexpr):
    """What a term adds to a sum, and its derivative; nothing for n = -inf. A logsumexp's terms come times log2(e)."""
    if KIND == "logsumexp":
        e = tl.exp2(n)
        return e, e
    elif KIND == "softplus_sum":
        e = tl.exp2(tl.abs(n) * -LOG2E)
        sigmoid = 1 / (1 + e)
        return tl.maximum(n, 0.0) + log1p(e), tl.where(n < 0, e * sigmoid, sigmoid)
    elif KIND == "hinge_sum":
        return tl.maximum(n, 0.0), tl.where(n > 0, 1.0, 0.0)
    else:
        there = n > float("-inf")
        return tl.where(there, n, 0.0), tl.where(there, 1.0, 0.0)


@triton.jit
def log1p(e):
    """log(1 + e) for e in [0, 1], to 3e-7 of itself: its Chebyshev interpolant of degree 8."""
    series = -0.00837115255 * e + 0.0434938998
    series = series * e - 0.106850029
    series = series * e + 0.176874767
    series = series * e - 0.244747742
    series = series * e + 0.332719284
    series = series * e - 0.499971745
    return (series * e + 0.999999781) * e
