"""Arrays as a line of JSON holds them: compressed, in base 64."""

from __future__ import annotations

import base64
import math
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_DTYPES = ("bool", "int16", "int64", "float16", "float32", "float64")
_LARGEST = 2**28


@dataclass(frozen=True)
class StoredArray:
    """An array as JSON holds it.

    Args:
        dtype: one of a few; truths are eight a byte.
        shape: of the array.
        data: its bytes, compressed by zlib, in base 64.
    """

    dtype: str
    shape: tuple[int, ...]
    data: str

    @classmethod
    def of(cls, array: npt.NDArray[Any]) -> StoredArray:
        """Pack an array."""
        name = str(array.dtype)
        if name not in _DTYPES:
            raise ValueError(f"an array of {name} is not stored; expected one of {', '.join(_DTYPES)}")
        content = np.packbits(array) if name == "bool" else np.ascontiguousarray(array)
        packed = base64.b64encode(zlib.compress(content.tobytes(), 9)).decode("ascii")
        return cls(name, tuple(array.shape), packed)

    def array(self) -> npt.NDArray[Any]:
        """Unpack it; ValueError where it is no such array."""
        if self.dtype not in _DTYPES or any(side < 0 for side in self.shape):
            raise ValueError(f"an array of {self.dtype} {self.shape}")
        count = math.prod(self.shape)
        size = -(-count // 8) if self.dtype == "bool" else count * np.dtype(self.dtype).itemsize
        if size > _LARGEST:
            raise ValueError(f"an array of {size:,} bytes, more than {_LARGEST:,}")
        try:
            content = zlib.decompressobj().decompress(base64.b64decode(self.data, validate=True), size + 1)
        except (ValueError, zlib.error) as error:
            raise ValueError(f"an array that cannot be unpacked ({error})") from None
        if len(content) != size:
            raise ValueError(f"an array of {len(content)} bytes where {self.dtype} {self.shape} takes {size}")
        if self.dtype == "bool":
            flat = np.unpackbits(np.frombuffer(content, dtype=np.uint8), count=count).astype(bool)
        else:
            flat = np.frombuffer(content, dtype=self.dtype).copy()
        return flat.reshape(self.shape)
