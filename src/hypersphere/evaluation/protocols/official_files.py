"""Reading the official files of protocols: every error names the file and the line."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import compress, islice
from pathlib import Path
from typing import Any

import numpy as np

from hypersphere.core import numbered_lines, parse_integer, read_json
from hypersphere.evaluation.arrays import Array, Bools, Ints
from hypersphere.evaluation.embeddings import Embeddings
from hypersphere.evaluation.results.measurement import LeftOut

_BLOCK = 1 << 23
_SPACE, _BREAK = 32, 10
INT32_MAX = (1 << 31) - 1
"""The largest number of a class, a template or a person."""
ALLOWED = "allow_missing, --allow-missing, leaves"


def read_integers(path: Path, columns: tuple[str, ...]) -> Array:
    """(lines, columns) int32 of a text file with as many whole numbers on every line, read in blocks.

    Args:
        path: the file.
        columns: what the numbers are, for messages.
    """
    parts: list[Array] = []
    done = 0
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                block += file.readline()
                if not block.endswith(b"\n"):
                    block += b"\n"
                table = _plain_block(block, len(columns))
                parts.append(_checked_block(block, columns, path, done) if table is None else table)
                done += block.count(b"\n")
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no such file") from None
    if sum(map(len, parts)) == 0:
        raise ValueError(f"{path}: no lines")
    return np.concatenate(parts)


def _plain_block(block: bytes, width: int) -> Array | None:
    """The numbers of a block whose lines all have single spaces between them; None for one that needs a closer look."""
    if block.translate(None, b"0123456789- \n").strip(b"\r") or b"\r" in block.replace(b"\r\n", b""):
        return None
    marks = np.frombuffer(block, dtype=np.uint8)
    breaks = np.flatnonzero(marks == _BREAK)
    spaces = np.cumsum(marks == _SPACE, dtype=np.int32)[breaks]
    if not np.array_equal(spaces, np.arange(1, len(breaks) + 1) * (width - 1)):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            numbers = np.fromstring(block.decode("ascii"), dtype=np.int64, sep=" ")
        except (ValueError, DeprecationWarning):
            return None
    if len(numbers) != width * len(breaks) or numbers.max() > INT32_MAX or numbers.min() < -INT32_MAX:
        return None
    return numbers.astype(np.int32).reshape(-1, width)


def _checked_block(block: bytes, columns: tuple[str, ...], path: Path, done: int) -> Array:
    rows = []
    for number, line in enumerate(block.split(b"\n"), start=done + 1):
        fields = line.decode("utf-8", "replace").split()
        if not fields:
            continue
        where = f"{path}, line {number}"
        if len(fields) != len(columns):
            raise ValueError(f"{where}: {len(fields)} fields; expected {', '.join(columns)}")
        rows.append(
            [
                parse_integer(field, f"{where}: the {name}", -INT32_MAX, INT32_MAX)
                for field, name in zip(fields, columns, strict=True)
            ]
        )
    return np.array(rows, dtype=np.int32).reshape(-1, len(columns))


def read_json_table(path: Path) -> dict[str, Any]:
    """The table of a JSON file."""
    table = read_json(path)
    if not isinstance(table, dict):
        raise ValueError(f"{path}: expected a table")
    return table


def kept_names(names: Sequence[str], kept: Bools) -> list[str]:
    """The names where `kept` is true."""
    return list(compress(names, kept.tolist()))


def line_of(path: Path, entry: int) -> str:
    """The file and the line of its entry, counted from 0; the path alone where it is no file."""
    if not path.is_file():
        return str(path)
    return f"{path}, line {next(islice(numbered_lines(path), entry, None))[0]}"


def find_images(
    embeddings: Embeddings, names: tuple[str, ...], where: Callable[[int], str], allow_missing: bool
) -> Ints:
    """The row of each image, -1 for those that are missing, which must be allowed.

    Args:
        embeddings: what there is.
        names: what is needed.
        where: the place of the k-th name in the files.
        allow_missing: whether some may be missing.
    """
    rows = embeddings.find(names)
    missing = np.flatnonzero(rows < 0)
    if len(missing) and not allow_missing:
        first = int(missing[0])
        raise ValueError(
            f"{where(first)}: {names[first]!r} has no embedding, and {len(missing):,} of {len(names):,} images have "
            f"none; {ALLOWED} them out and counts them"
        )
    if len(missing) == len(names):
        raise ValueError(f"{where(0)}: none of {len(names):,} images has an embedding, first {names[0]!r}")
    return rows


def found_units(embeddings: Embeddings, rows: Ints) -> Array:
    """(n, dim) the unit embeddings in these rows; a zero vector is an error that names its image."""
    return unit_rows(embeddings.values[rows], lambda k: f"the embedding of {embeddings.names[rows[k]]!r}")


def missing_images(names: Sequence[str], rows: Ints, embeddings: Sequence[Embeddings]) -> dict[str, list[str]]:
    """What has no embedding, for `Result.left_out`: all such images, and those of them that could not be read.

    Args:
        names: what is needed.
        rows: the row of each, -1 for those that are missing.
        embeddings: what there is.
    """
    lost = [names[place] for place in np.flatnonzero(rows < 0).tolist()]
    causes = {name: cause for made in embeddings for name, cause in made.unreadable.items()}
    return {"missing_images": lost, "unreadable_images": [causes[name] for name in lost if name in causes]}


def counted(left_out: Mapping[str, Sequence[str]]) -> dict[str, LeftOut]:
    """How many of each."""
    return {what: LeftOut(len(names)) for what, names in left_out.items()}


def unit_rows(rows: Array, name: Callable[[int], str]) -> Array:
    """(n, dim) float32 of length 1; ValueError for a zero vector, which has no direction.

    Args:
        rows: (n, dim).
        name: what the k-th row is called in the message.
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    if not lengths.all():
        raise ValueError(f"{name(int(np.argmin(lengths)))} is the zero vector, which has no direction")
    return np.asarray(rows / lengths.astype(np.float32)[:, None], dtype=np.float32)
