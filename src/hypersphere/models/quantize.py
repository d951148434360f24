"""ONNX files in 8-bit integers, by onnxruntime's static quantisation."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hypersphere.core import import_extra

_BATCH = 16


def quantize_onnx(data: bytes, images: npt.NDArray[np.float32]) -> bytes:
    """A float32 network with weights and activations of convolutions and linear layers in 8-bit integers.

    Weights have a scale for each channel; the range of an activation is what it takes on the images.

    Args:
        data: the bytes of an ONNX file with one input and a free batch.
        images: (N, channels, height, width) as the network reads them, of the kind that it will be used on.
    """
    import_extra("onnx", "quantising an ONNX file")
    quantization = import_extra("onnxruntime.quantization", "quantising an ONNX file")
    with tempfile.TemporaryDirectory() as folder:
        plain, fused, small = (Path(folder) / f"{name}.onnx" for name in ("plain", "fused", "small"))
        plain.write_bytes(data)
        quantization.quant_pre_process(plain, fused, skip_symbolic_shape=True)
        quantization.quantize_static(
            fused,
            small,
            _reader(quantization, images),
            per_channel=True,
            op_types_to_quantize=["Conv", "Gemm"],
        )
        return small.read_bytes()


def _reader(quantization: Any, images: npt.NDArray[np.float32]) -> Any:
    """The images in batches, in the form that onnxruntime asks for."""

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.batches: Iterator[Any] = iter(range(0, len(images), _BATCH))

        def get_next(self) -> dict[str, npt.NDArray[np.float32]] | None:
            start = next(self.batches, None)
            return None if start is None else {"images": images[start : start + _BATCH]}

    return Reader()
