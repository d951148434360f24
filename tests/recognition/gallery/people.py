"""Templates for tests of galleries."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersphere.models import Contract
from hypersphere.recognition.gallery import Gallery, open_gallery

DIM = 16
CONTRACT = Contract(input_size=(112, 112), dim=DIM, digest="0123456789abcdef", alignment="insightface-112")


def units(count: int, seed: int = 0, dim: int = DIM) -> NDArray[np.float32]:
    rows = np.random.default_rng(seed).normal(size=(count, dim))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


class Made:
    """A gallery at an address, opened again at will."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._open: list[Gallery] = []
        self.gallery = self.open(create=True)

    def open(self, **options: Any) -> Gallery:
        """Open it once more, as another process would."""
        self._open.append(open_gallery(self.address, **{"contract": CONTRACT, **options}))
        return self._open[-1]

    def close(self) -> None:
        for gallery in self._open:
            gallery.close()
