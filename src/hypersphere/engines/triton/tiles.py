"""How large the tiles are that a program of a kernel makes, and how it runs."""

from __future__ import annotations

from typing import NamedTuple


class Tile(NamedTuple):
    """The tile of a product, m x n with k at a time, and how the program runs that makes it."""

    m: int
    n: int
    k: int
    warps: int = 8
    stages: int = 3
    per_processor: int = 1
    flatten: bool = False
    branch: bool = True
    pieces: int = 1


TILES: dict[str, Tile] = {
    "scores": Tile(128, 128, 64, 4, 3, 2, flatten=True, pieces=4),
    "stored": Tile(128, 128, 64, 8, 3, 2, flatten=True, pieces=4),
    "prototypes": Tile(128, 256, 64, 8, 3, pieces=4),
    "embeddings": Tile(128, 128, 64, 8, 3),
}
"""For two-byte factors and many rows; `tile_of` makes the others of them."""

LIBRARY_WAVE = 2**26
"""Numbers of a product by cuBLAS that wait for the normalisation of the prototypes, a pass of its own."""


def tile_of(name: str, precision: str, itemsize: int, count: int) -> Tile:
    """Return the tile of a product of so many rows."""
    tile = TILES[name]
    if precision == "widen":
        return Tile(16, 32, 16, pieces=2)
    if precision == "ieee" and itemsize == 4:
        return Tile(64, 64, 16, pieces=tile.pieces)
    if itemsize == 4:
        tile = tile._replace(m=128, n=128, k=32, stages=3)
    if name in ("scores", "stored") and count <= 128:
        tile = tile._replace(m=64 if count <= 64 else 128)
    return tile
