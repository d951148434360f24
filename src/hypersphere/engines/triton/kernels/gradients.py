"""The two products of the backward pass: g^T x with the normalisation of the prototypes, and g w."""

import triton
import triton.language as tl

from hypersphere.engines.triton.kernels.score_functions import dot, pieces


@triton.jit(do_not_specialize=["rows", "first", "last"])
def prototypes(
    g,
    x,
    w,
    inverse,
    peak,
    out,
    rows,
    first,
    last,
    DIM: tl.constexpr,
    NORMALIZE: tl.constexpr,
    PRECISION: tl.constexpr,
    PIECES: tl.constexpr,
    BC: tl.constexpr,
    BD: tl.constexpr,
    BK: tl.constexpr,
):
    """The gradient of the prototypes first..last, r (v - w <w, v>) with v = g^T x (NormFace eq. 4).

    w are the unit vectors and r their inverse lengths. A program makes BC whole rows, BD columns at a time; what it has
    made waits in `out` (and in the cache) until <w, v> is known.
    """
    steps: tl.constexpr = (DIM + BD - 1) // BD
    part_size: tl.constexpr = BD // PIECES
    even: tl.constexpr = DIM % BD == 0
    multiple = 1.0
    if peak is not None:
        multiple = tl.load(peak)
    programs = tl.num_programs(0)
    mine = (tl.cdiv(last - first, BC) - tl.program_id(0) + programs - 1) // programs * steps
    radial = tl.zeros([BC], tl.float32)
    for item in tl.range(0, mine):
        tile = tl.program_id(0) + item // steps * programs
        depth = item % steps * BD
        total = tl.zeros([BC, BD], tl.float32)
        for k in tl.range(0, rows, BK):
            total = dot(g.load([k, tile * BC]).T, x.load([k, depth]), total, PRECISION)
        start = first + tile * BC
        inside = (tl.arange(0, BC) < last - start)[:, None]
        corner = out + start.to(tl.int64) * DIM
        line = tl.arange(0, BC)[:, None] * DIM
        radial = tl.where(depth == 0, 0.0, radial)
        parts = pieces(total, PIECES)
        for part in tl.static_range(PIECES):
            made = parts[part]
            if NORMALIZE:
                radial += tl.sum(made * w.load([start, depth + part * part_size]).to(tl.float32), 1)
            else:
                made *= multiple
            column = depth + part * part_size + tl.arange(0, part_size)[None, :]
            tl.store(corner + (line + column), made, inside if even else inside & (column < DIM))
        if NORMALIZE:
            if depth + BD >= DIM:
                tl.debug_barrier()
                shrink = tl.load(inverse + start + tl.arange(0, BC)[:, None], inside, 0.0) * multiple
                for back in tl.range(0, steps * PIECES, num_stages=1):
                    column = back * part_size + tl.arange(0, part_size)[None, :]
                    kept = inside if even else inside & (column < DIM)
                    unit = w.load([start, back * part_size]).to(tl.float32)
                    waiting = tl.load(corner + (line + column), kept, 0.0)
                    tl.store(corner + (line + column), (waiting - unit * radial[:, None]) * shrink, kept)


@triton.jit(do_not_specialize=["first", "last"])
def through_norm(v, out, w, inverse, peak, first, last, DIM: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """The last step of `prototypes` alone, where another program made v = g^T x; out may be v. Rows first..last."""
    multiple = 1.0
    if peak is not None:
        multiple = tl.load(peak)
    place = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    depth = tl.arange(0, BLOCK)
    inside = (place < last - first)[:, None] & (depth < DIM)[None, :]
    line = place.to(tl.int64)[:, None] * DIM + depth[None, :]
    part = tl.load(v + line, inside, 0.0).to(tl.float32)
    unit = tl.load(w + line, inside, 0.0).to(tl.float32)
    radial = tl.sum(part * unit, 1)[:, None]
    shrink = tl.load(inverse + first + place, place < last - first, 0.0)[:, None] * multiple
    tl.store(out + line, (part - unit * radial) * shrink, inside)


@triton.jit(do_not_specialize=["rows", "first", "width"])
def embeddings(
    g,
    w,
    out,
    rows,
    first,
    width,
    DIM: tl.constexpr,
    PRECISION: tl.constexpr,
    BM: tl.constexpr,
    BD: tl.constexpr,
    BK: tl.constexpr,
):
    """Partial sums of g w over every `splits`-th block of BK classes: out is (splits, N, DIM)."""
    row0, depth0, split = tl.program_id(0) * BM, tl.program_id(1) * BD, tl.program_id(2)
    total = tl.zeros([BM, BD], tl.float32)
    for k in tl.range(split * BK, width, tl.num_programs(2) * BK):
        total = dot(g.load([row0, k]), w.load([first + k, depth0]), total, PRECISION)
    row, depth = row0 + tl.arange(0, BM), depth0 + tl.arange(0, BD)
    there = out + (split.to(tl.int64) * rows + row)[:, None] * DIM + depth[None, :]
    tl.store(there, total, (row < rows)[:, None] & (depth < DIM)[None, :])
