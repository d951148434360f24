"""How a reduction is computed: which engine, with what memory and in what precision."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from hypersphere.core import check_choice, check_integer
from hypersphere.engines.spec import constant_while_tracing

ENGINES = ("auto", "dense", "chunked", "triton")
Precision = Literal["bfloat16", "float16", "tf32", "float32"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """The options of the engines; none of them changes what is computed but for rounding.

    Args:
        engine: `dense` holds all N x C scores, `chunked` N x chunk_size of them, `triton` none (on a CUDA device, for
            the reductions listed in docs/engines.md; the rest goes to `chunked`). `auto` is `triton` on a CUDA device
            where products need not be float32, and `chunked` otherwise.
        chunk_size: classes per chunk of `chunked`; by default as many as fit the processor's cache.
        precision: what `triton` rounds the factors of its products to: `bfloat16`, `float16`, `tf32` or `float32`. By
            default what autocast, the embeddings' dtype or `torch.set_float32_matmul_precision` says. On a CPU that
            multiplies bfloat16, `bfloat16` makes `chunked` do so; by default it rounds nothing.
        budget: bytes that `triton` may take for its N x C matrix of derivatives; with less than 2 N C it makes that
            matrix twice, in waves. By default a quarter of the device's memory.
    """

    engine: str = "auto"
    chunk_size: int | None = None
    precision: Precision | None = None
    budget: int | None = None

    def __post_init__(self) -> None:
        check_choice("engine", self.engine, ENGINES)
        if self.chunk_size is not None:
            check_integer("chunk_size", self.chunk_size, 1)
        if self.precision is not None:
            check_choice("precision", self.precision, PRECISIONS)
        if self.budget is not None:
            check_integer("budget", self.budget, 0)

    def for_call(self, embeddings: Tensor) -> EngineOptions:
        """Decide on the precision of one call, if it is left open, by what is around it.

        Call it before the embeddings are widened and autocast is switched off.
        """
        if self.precision is not None:
            return self
        fused = embeddings.device.type == "cuda"
        return replace(self, precision=ambient_precision(embeddings) if fused else "float32")


def ambient_precision(embeddings: Tensor) -> Precision:
    """What a call's products may be rounded to: autocast's dtype, else that of the embeddings, else torch's setting.

    `torch.set_float32_matmul_precision("high")` asks for tf32; float32 without it stays float32.
    """
    dtype, device = embeddings.dtype, embeddings.device.type
    if torch.is_autocast_enabled(device) and dtype != torch.float64:
        dtype = torch.get_autocast_dtype(device)
    if dtype == torch.bfloat16:
        return "bfloat16"
    if dtype == torch.float16:
        return "float16"
    return "tf32" if _allows_tf32() else "float32"


@constant_while_tracing
def _allows_tf32() -> bool:
    return torch.get_float32_matmul_precision() != "highest"
