"""Files of vectors that are written part by part: `.npy`, `.safetensors`, and `.parquet` where pyarrow is there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from hypersphere.core import Staged, import_extra, refuse_existing
from hypersphere.evaluation.arrays import Array
from hypersphere.evaluation.embeddings import names_text, write_npy_header

Parts = Iterable[tuple[Sequence[str], Array]]
"""Names and float32 (n, dim) vectors, part by part."""


def vector_files(out: str | Path) -> list[Path]:
    """The files that `write_vectors` writes: the vectors, their names where the format has none, how they were made."""
    path = Path(out)
    if path.suffix not in WRITERS:
        raise ValueError(f"{path}: the vectors go to a file that ends in {', '.join(WRITERS)}")
    names = [] if path.suffix == ".parquet" else [path.with_suffix(".txt")]
    return [path, *names, path.with_suffix(".json")]


def check_vector_files(out: str | Path) -> None:
    """Raise unless the files can be written: a known ending, nothing there yet, the package of the format installed."""
    for path in vector_files(out):
        refuse_existing(path)
    if Path(out).suffix == ".parquet":
        import_extra("pyarrow.parquet", "writing .parquet")


def write_vectors(out: str | Path, names: Sequence[str], parts: Parts, dim: int, about: Mapping[str, Any]) -> None:
    """Write vectors with their names, all files or none.

    `X.npy` and `X.safetensors` (the tensor `embeddings`) have the names in `X.txt`, a line each, as `evaluate --names`
    reads them; `X.parquet` has columns `name` and `embedding`. `X.json` says how the vectors were made.

    Args:
        out: of the vectors.
        names: of all rows.
        parts: the rows.
        dim: width of the vectors.
        about: how they were made, as plain values.
    """
    path, *others = vector_files(out)
    with Staged() as stage:
        WRITERS[path.suffix](stage.open(path), parts, len(names), dim, about)
        if len(others) == 2:
            stage.open(others[0]).write(names_text(names).encode())
        stage.open(others[-1]).write(f"{json.dumps(about, indent=1)}\n".encode())


def _write_npy(file: BinaryIO, parts: Parts, count: int, dim: int, _: Mapping[str, Any]) -> None:
    write_npy_header(file, count, dim)
    for _names, rows in parts:
        file.write(rows.astype("<f4").tobytes())


def _write_safetensors(file: BinaryIO, parts: Parts, count: int, dim: int, about: Mapping[str, Any]) -> None:
    header = {
        "__metadata__": {"made": json.dumps(about, sort_keys=True)},
        "embeddings": {"dtype": "F32", "shape": [count, dim], "data_offsets": [0, 4 * count * dim]},
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for _names, rows in parts:
        file.write(rows.astype("<f4").tobytes())


def _write_parquet(file: BinaryIO, parts: Parts, count: int, dim: int, about: Mapping[str, Any]) -> None:
    arrow = import_extra("pyarrow", "writing .parquet")
    parquet = import_extra("pyarrow.parquet", "writing .parquet")
    fields = [("name", arrow.string()), ("embedding", arrow.list_(arrow.float32(), dim))]
    schema = arrow.schema(fields, metadata={"made": json.dumps(about, sort_keys=True)})
    with parquet.ParquetWriter(file, schema) as writer:
        for names, rows in parts:
            vectors = arrow.FixedSizeListArray.from_arrays(arrow.array(rows.reshape(-1)), dim)
            writer.write_table(arrow.table([arrow.array(list(names)), vectors], schema=schema))


WRITERS: dict[str, Callable[[BinaryIO, Parts, int, int, Mapping[str, Any]], None]] = {
    ".npy": _write_npy,
    ".safetensors": _write_safetensors,
    ".parquet": _write_parquet,
}
