"""The launches of the fused engine's kernels: buffers, tiles and grids."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
import triton
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from hypersphere.engines.options import Precision
from hypersphere.engines.row_losses import MarginSoftmaxRow, RowLoss
from hypersphere.engines.spec import NEVER, ReductionInputs
from hypersphere.engines.triton.available import interpreted
from hypersphere.engines.triton.kernels import gradients, row_losses, rows, score_pass
from hypersphere.engines.triton.support import kernel_curve, padded, product_dtype
from hypersphere.engines.triton.tiles import LIBRARY_WAVE, tile_of

_OPTIONS = {"enable_fp_fusion": True}
_GAIN = 2.0**12
"""Lifts the small derivatives of many classes into float16's range."""
_LEAST_COLUMNS = 16
"""Of a tile that is loaded at once: a tensor map's box must be 16 bytes wide or a multiple of it."""


class Launcher:
    """The tensors of one reduction, and every kernel on them.

    The products see `unit`, the prototypes, and `x`, the embeddings, normalised if they are to be, in the products' own
    dtype, their rows padded to whole 16 bytes and the prototypes to a multiple of 8 by zeros.
    """

    def __init__(
        self, inputs: ReductionInputs, precision: Precision, buffers: Sequence[Tensor | None] | None = None
    ) -> None:
        x, w = inputs.embeddings, inputs.prototypes
        self.inputs = inputs
        self.source_x = x if x.stride(1) == 1 else x.contiguous()
        self.source_w = w if w.stride(1) == 1 else w.contiguous()
        self.bias = None if inputs.bias is None else inputs.bias.contiguous()
        curve = kernel_curve(inputs.reduction.score_function)
        assert curve is not None
        self.curve = curve
        self.count, self.dim = x.shape
        self.classes = w.shape[0]
        self.width, self.depth = padded(self.classes), padded(self.dim)
        self.dtype = product_dtype(precision)
        self.gain = _GAIN if precision == "float16" else 1.0
        self.precision = "widen" if interpreted() else "ieee" if precision == "float32" else "tf32"
        self.tf32 = precision == "tf32"
        self.block = triton.next_power_of_2(self.depth)
        self.norms = {
            "eps": inputs.reduction.eps,
            "DIM": self.dim,
            "NORMALIZE": inputs.reduction.normalize_prototypes,
            "NORMALIZE_X": inputs.reduction.normalize_embeddings,
            "BLOCK": self.block,
            **_OPTIONS,
        }
        self.inverse: Tensor | None
        self.inverse_x: Tensor | None
        if buffers is None:
            self.unit, self.inverse = self._unit(self.source_w, self.width, inputs.reduction.normalize_prototypes)
            self.x, self.inverse_x, self.target = self._rows()
        else:
            unit, self.inverse, rounded, self.inverse_x = buffers
            assert unit is not None
            assert rounded is not None
            self.unit, self.x = unit, rounded

    @property
    def buffers(self) -> tuple[Tensor | None, ...]:
        """What the backward pass needs again."""
        return self.unit, self.inverse, self.x, self.inverse_x

    @property
    def _tangent(self) -> bool:
        """Whether the gradient of the prototypes goes through their normalisation."""
        return self.inputs.reduction.normalize_prototypes and not self.inputs.reduction.unit_gradients

    def _processors(self) -> int:
        return 3 if interpreted() else _processors(self.inputs.embeddings.device)

    def _new(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=self.inputs.embeddings.device)

    def new_g(self, width: int) -> Tensor:
        """An (N, width) matrix for the derivatives."""
        return self._new(self.count, width, dtype=self.dtype)

    def _unit(self, source: Tensor, height: int, normalize: bool) -> tuple[Tensor, Tensor | None]:
        unit = self._new(height, self.depth, dtype=self.dtype)
        inverse = self._new(source.shape[0]) if normalize else None
        lines = max(1, 8192 // self.block)
        rows.unit_rows[(triton.cdiv(height, lines),)](
            source, unit, inverse, source.shape[0], height, source.stride(0), self.depth, self.inputs.reduction.eps,
            DIM=self.dim, NORMALIZE=normalize, TF32=self.tf32, BLOCK=self.block, ROWS=lines, **_OPTIONS,
        )  # fmt: skip
        return unit, inverse

    def _rows(self) -> tuple[Tensor, Tensor | None, Tensor]:
        """The embeddings as the products see them, the inverses of their lengths, and the scores of their own classes.

        The latter are of float32 factors, and 0 where the label is -1.
        """
        unit, target = self._new(self.count, self.depth, dtype=self.dtype), self._new(self.count)
        inverse = self._new(self.count) if self.inputs.reduction.normalize_embeddings else None
        rows.unit_rows_and_targets[(self.count,)](
            self.source_x, self.source_w, self.inputs.labels, unit, inverse, target, self.source_x.stride(0),
            self.source_w.stride(0), self.depth, TF32=self.tf32, **self.norms,
        )  # fmt: skip
        return unit, inverse, target

    def pair_scores(self, chosen: Tensor) -> Tensor:
        """(N,): the score of every row and its chosen class in float32, 0 for -1."""
        out = self._new(self.count)
        rows.pair_scores[(self.count,)](
            self.source_x, self.source_w, chosen, out, self.source_x.stride(0), self.source_w.stride(0), **self.norms
        )
        return out

    def _scores(
        self,
        name: str,
        first: int,
        last: int,
        *,
        g: Tensor | None = None,
        shift: Tensor | None = None,
        weight: Tensor | None = None,
        online: bool = False,
        outputs: dict[str, torch.dtype] | None = None,
        bias_partial: bool = False,
    ) -> dict[str, Tensor | None]:
        """Run the pass over classes first..last; partial results by name, (splits, N), or (blocks, C) for the bias."""
        inputs, curve = self.inputs, self.curve
        tile = tile_of(name, self.precision, self.dtype.itemsize, self.count)
        blocks, tiles = triton.cdiv(self.count, tile.m), triton.cdiv(last - first, tile.n)
        splits = max(1, min(tiles, self._processors() * tile.per_processor // blocks))
        names = ("total", "best", "index", "scale_grad_total", "offset_grad_total")
        out: dict[str, Tensor | None] = dict.fromkeys(names)
        for key, dtype in (outputs or {}).items():
            out[key] = self._new(splits, self.count, dtype=dtype)
        out["bias_partial"] = self._new(blocks, self.classes) if bias_partial else None
        offset = inputs.offset
        score_pass.scores[(blocks * splits,)](
            _described(self.x, tile.m, tile.k),
            _described(self.unit, tile.n, tile.k),
            None if g is None else _described(g, tile.m, tile.n // tile.pieces),
            inputs.labels, inputs.scale, offset, self.bias, shift, curve.threshold, curve.t, weight, **out,
            rows=self.count, first=first, last=last, classes=self.classes, blocks=blocks,
            scale_stride=int(inputs.scale.shape[0] > 1),
            offset_stride=0 if offset is None else int(offset.shape[0] > 1),
            DIM=self.dim, KIND=inputs.reduction.kind, CURVE=curve.name, PARAMETER=curve.parameter, RELU=curve.relu,
            DETACHED=curve.detached, ONLINE=online, GAIN=self.gain, PRECISION=self.precision, TF32=self.tf32,
            BRANCH=tile.branch, FLATTEN=tile.flatten, PIECES=tile.pieces, BM=tile.m, BN=tile.n, BK=tile.k,
            num_warps=tile.warps, num_stages=tile.stages, **_OPTIONS,
        )  # fmt: skip
        return out

    def argmax(self) -> Tensor:
        """(N,): the class of the largest term, the lowest on ties, -1 over no class."""
        found = self._scores("scores", 0, self.classes, outputs={"best": torch.float32, "index": torch.int32})
        best, index = found["best"], found["index"]
        assert best is not None
        assert index is not None
        lowest = torch.where(best == best.amax(0), index, self.classes).amin(0)
        return torch.where(lowest == self.classes, -1, lowest).to(torch.int64)

    def reduce(
        self, g: Tensor | None, shift: Tensor | None, want_scale: bool, want_offset: bool
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The value and, where wanted, its derivatives with respect to scale and offset; fills g if there is one."""
        lse = self.inputs.reduction.kind == "logsumexp"
        online = lse and shift is None
        outputs = {"total": torch.float32}
        if online:
            outputs["best"] = torch.float32
        if want_scale:
            outputs["scale_grad_total"] = torch.float32
        if want_offset and not lse:
            outputs["offset_grad_total"] = torch.float32
        name = "scores" if g is None else "stored"
        found = self._scores(name, 0, self.classes, g=g, shift=shift, online=online, outputs=outputs)
        total, best, by_scale, by_offset = (
            found[key] for key in ("total", "best", "scale_grad_total", "offset_grad_total")
        )
        assert total is not None
        highest = None
        if best is not None:
            highest = best.amax(0)
            highest = torch.where(highest == NEVER, 0.0, highest)
            fade = (best - highest).exp2()
            total, by_scale = total * fade, None if by_scale is None else by_scale * fade
        value = total.sum(0)
        by_scale = None if by_scale is None else by_scale.sum(0)
        if not lse:
            return value, by_scale, None if by_offset is None else by_offset.sum(0)
        if by_scale is not None:
            by_scale = torch.where(value > 0, by_scale / value, 0.0)
        by_offset = (value > 0).to(torch.float32) if want_offset else None
        value = value.log()
        if highest is not None:
            value = value + highest * 0.6931471805599453
        return value if shift is None else value + shift, by_scale, by_offset

    def loss(
        self, row_loss: RowLoss, bias: Tensor | None, g: Tensor | None, shift: Tensor | None, want_bias: bool
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """The mean loss, the rows' reduced values, its derivatives in targets and values, (2, N), and in the bias.

        Fills g if there is one.
        """
        outputs = {"total": torch.float32}
        if want_bias:
            outputs["offset_grad_total"] = torch.float32
        partial = self._scores("scores" if g is None else "stored", 0, self.classes, g=g, shift=shift, outputs=outputs)
        total, slopes = partial["total"], partial["offset_grad_total"]
        assert total is not None
        loss, value, derivatives = self._new(), self._new(self.count), self._new(2, self.count)
        by_bias = self._new() if want_bias else None
        block = min(1024, triton.next_power_of_2(self.count))
        options: dict[str, Any] = {"BLOCK": block, "num_warps": max(1, min(8, block // 128)), **_OPTIONS}
        labels = self.inputs.labels
        if isinstance(row_loss, MarginSoftmaxRow):
            assert self.inputs.fixed_scale is not None
            row_losses.margin_softmax[(1,)](
                total, self.target, labels, shift, value, loss, derivatives, self.count, total.shape[0], row_loss.scale,
                row_loss.m0, math.cos(row_loss.m2), math.sin(row_loss.m2), row_loss.m3,
                ANGULAR=row_loss.m2 != 0, DETACHED=row_loss.detached, **options,
            )  # fmt: skip
        else:
            row_losses.sphereface2[(1,)](
                total, slopes, self.target, labels, bias, value, loss, derivatives, by_bias, self.count,
                total.shape[0], row_loss.scale, row_loss.margin, row_loss.positive_weight, row_loss.negative_weight,
                POWER=row_loss.power, DETACHED=row_loss.detached, **options,
            )  # fmt: skip
        return loss, value, derivatives, by_bias

    def products(
        self,
        g: Tensor | None,
        shift: Tensor | None,
        value: Tensor,
        grad: Tensor,
        needs: Sequence[bool],
        wave: int,
    ) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
        """The factor r, g w, and the gradients of prototypes and bias from the negatives alone."""
        lse = self.inputs.reduction.kind == "logsumexp"
        peak = (grad * self.inputs.scale[:, 0]).abs().amax() / self.gain if self.gain != 1 else None
        factor, weighted = self._weighted(grad, shift if g is not None else None, value if lse else None, peak)
        grad_w = self._new(self.classes, self.dim) if needs[1] else None
        product, grad_bias = None, []
        level = torch.where(value == NEVER, 0.0, value) if lse and g is None else None
        whole, step = g, self.width if g is not None else wave
        buffer = None if g is not None else self.new_g(min(wave, self.width))
        for first in range(0, self.classes, step):
            last = min(first + step, self.classes)
            width = padded(last - first)
            if whole is None:
                assert buffer is not None
                # The last wave is narrower: a matrix of its own would be memory beyond the budget.
                g = buffer.view(-1)[: self.count * width].view(self.count, width)
                made = self._scores(
                    "stored", first, last, g=g, shift=level, weight=grad if needs[4] else None, bias_partial=needs[4]
                )
                if made["bias_partial"] is not None:
                    grad_bias.append(made["bias_partial"][:, first:last].sum(0))
            assert g is not None
            if needs[0]:
                part = self._times_prototypes(g, first)
                product = part if product is None else product.add_(part)
            if grad_w is not None:
                self._prototypes(g, weighted, peak, grad_w, first, last)
        by_bias = torch.cat(grad_bias).to(self.inputs.bias.dtype) if self.inputs.bias is not None and needs[4] else None
        return factor, product, grad_w, by_bias

    def _weighted(
        self, grad: Tensor, shift: Tensor | None, value: Tensor | None, peak: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        factor, weighted = self._new(self.count), self._new(self.count, self.depth, dtype=self.dtype)
        rows.weigh_rows[(self.count,)](
            self.source_x, self.inverse_x, grad, self.inputs.scale, shift, value, peak, factor, weighted,
            self.source_x.stride(0), int(self.inputs.scale.shape[0] > 1), self.depth,
            DIM=self.dim, GAIN=self.gain, TF32=self.tf32, BLOCK=self.block, **_OPTIONS,
        )  # fmt: skip
        return factor, weighted

    def _times_prototypes(self, g: Tensor, first: int) -> Tensor:
        """(N, depth): g w over the classes of g, from `first` on."""
        if g.is_cuda and self.dtype.itemsize == 2:
            return torch.mm(g, self.unit[first : first + g.shape[1]], out_dtype=torch.float32)
        tile = tile_of("embeddings", self.precision, self.dtype.itemsize, self.count)
        grid = triton.cdiv(self.count, tile.m), triton.cdiv(self.depth, tile.n)
        splits = max(1, min(triton.cdiv(g.shape[1], tile.k), 2 * self._processors() // (grid[0] * grid[1])))
        out = self._new(splits, self.count, self.depth)
        gradients.embeddings[(*grid, splits)](
            _described(g, tile.m, tile.k), _described(self.unit, tile.k, tile.n), out, self.count, first, g.shape[1],
            DIM=self.depth, PRECISION=self.precision, BM=tile.m, BD=tile.n, BK=tile.k,
            num_warps=tile.warps, num_stages=tile.stages, **_OPTIONS,
        )  # fmt: skip
        return out.sum(0)

    def _prototypes(self, g: Tensor, x: Tensor, peak: Tensor | None, out: Tensor, first: int, last: int) -> None:
        """Write the gradients of prototypes first..last, from g and the weighted rows x."""
        normalize = self._tangent
        if g.is_cuda and self.dtype.itemsize == 2 and self.depth == self.dim:
            return self._prototypes_by_library(g, x, peak, out, first, last)
        tile = tile_of("prototypes", self.precision, self.dtype.itemsize, self.count)
        n = min(tile.n, max(_LEAST_COLUMNS * tile.pieces, self.block))
        tiles = triton.cdiv(last - first, tile.m)
        gradients.prototypes[(min(tiles, self._processors() * tile.per_processor),)](
            _described(g, tile.k, tile.m), _described(x, tile.k, n), _described(self.unit, tile.m, n // tile.pieces),
            self.inverse, peak, out, self.count, first, last,
            DIM=self.dim, NORMALIZE=normalize, PRECISION=self.precision, PIECES=tile.pieces, BC=tile.m, BD=n, BK=tile.k,
            num_warps=tile.warps, num_stages=tile.stages, **_OPTIONS,
        )  # fmt: skip
        return None

    def _prototypes_by_library(
        self, g: Tensor, x: Tensor, peak: Tensor | None, out: Tensor, first: int, last: int
    ) -> None:
        """The same by cuBLAS's product and a pass after it.

        A product of bfloat16 factors waits for the pass in bfloat16: fewer bytes to move, and an error far below that
        of the rounded factors. float16 would overflow.
        """
        normalize = self._tangent
        step, lines = max(128, LIBRARY_WAVE // self.dim // 128 * 128), max(1, 8192 // self.block)
        rounded = normalize and self.dtype == torch.bfloat16
        waiting = self._new(min(step, g.shape[1]), self.dim, dtype=self.dtype) if rounded else None
        for start in range(first, last, step):
            stop = min(start + step, last)
            made = out[start:stop]
            if waiting is None:
                torch.mm(g[:, start - first : stop - first].T, x, out_dtype=torch.float32, out=made)
            else:
                padded = g[:, start - first : start - first + step]
                made = torch.mm(padded.T, x, out=waiting[: padded.shape[1]])
            if normalize:
                gradients.through_norm[(triton.cdiv(stop - start, lines),)](
                    made, out[start:stop], self.unit[start:stop], self.inverse, peak, start, stop,
                    DIM=self.dim, BLOCK=self.block, ROWS=lines, **_OPTIONS,
                )  # fmt: skip
            elif peak is not None:
                made.mul_(peak)

    def embeddings_gradient(
        self,
        grad_target: Tensor,
        factor: Tensor | None,
        product: Tensor | None,
        index: Tensor | None,
        chosen: Tensor | None,
    ) -> Tensor:
        """(N, d): from the negatives, the target and, for a maximum, the class that has it."""
        out = self._new(self.count, self.dim)
        rows.finish_rows[(self.count,)](
            self.source_x, self.source_w, product, factor, self.inputs.labels, grad_target, index, chosen, out,
            self.source_x.stride(0), self.source_w.stride(0), self.depth, **self.norms,
        )  # fmt: skip
        return out

    def scatter(self, out: Tensor, chosen: Tensor, coefficient: Tensor) -> None:
        """Add to the gradient `out` of the prototypes what one score per row gives."""
        rows.scatter_rows[(self.count,)](
            self.source_x, self.source_w, chosen, coefficient, out, self.count, self.source_x.stride(0),
            self.source_w.stride(0), **self.norms | {"NORMALIZE": self._tangent}, SPAN=128,
        )  # fmt: skip

    def scatter_bias(self, index: Tensor, grad: Tensor) -> Tensor:
        """(C,): the gradient of the bias of a maximum, added row by row in the order of the classes."""
        bias = self.inputs.bias
        assert bias is not None
        order = index.argsort(stable=True)
        ends = torch.searchsorted(index[order], torch.arange(self.classes + 1, device=index.device))
        sums = torch.nn.functional.pad(grad[order].double().cumsum(0), (1, 0))
        return (sums[ends[1:]] - sums[ends[:-1]]).to(bias.dtype)


def _described(matrix: Tensor | None, m: int, n: int) -> Any:
    assert matrix is not None
    return TensorDescriptor(matrix, list(matrix.shape), list(matrix.stride()), [m, n])


@cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count
