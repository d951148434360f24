"""Embeddings that are found by the name of their image."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from hypersphere.core import Staged, check_names, is_integer, numbered_lines
from hypersphere.core.read_arrays import read_npy
from hypersphere.data import NameIndex, first_few
from hypersphere.evaluation.arrays import Array, Ints, finite_rows
from hypersphere.evaluation.results.provenance import file_digests, joined_files


@dataclasses.dataclass(frozen=True, eq=False)
class Embeddings:
    """Embeddings by the name of their image.

    Args:
        names: (N,) different names, such as `Ada/Ada_0001.jpg`.
        values: (N, dim) finite numbers, kept as float32.
        options: how they were made, as plain values, for the result.
        files: the array and the list they were read from, by name, each with its digest.
        unreadable: name and cause of images that could not be read, and so have no embedding.

    Example:
        >>> load_embeddings("E.npy", "L.txt").of(["Ada/Ada_0001.jpg"]).shape
        (1, 512)
    """

    names: Sequence[str]
    values: Array
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unreadable: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.names))
        object.__setattr__(self, "values", finite_rows("embeddings", self.values))
        check_names(self.names, "names of images")
        if len(self.names) != len(self.values):
            raise ValueError(f"{len(self.names)} names for {len(self.values)} embeddings; each needs one")
        if len(set(self.names)) != len(self.names):
            double = next(name for name, times in Counter(self.names).items() if times > 1)
            raise ValueError(f"names hold {double!r} twice")
        object.__setattr__(self, "_index", NameIndex(self.names))

    @property
    def dim(self) -> int:
        """Width of the embeddings."""
        return int(self.values.shape[1])

    def find(self, names: Iterable[str]) -> Ints:
        """The row of each name, -1 where there is none."""
        index: NameIndex = self._index  # type: ignore[attr-defined]
        return index.find(names)

    def of(self, names: Sequence[str]) -> Array:
        """(n, dim) the embeddings of these images, in this order; ValueError with the first unknown names."""
        rows = self.find(names)
        unknown = [name for name, row in zip(names, rows.tolist(), strict=True) if row < 0]
        if unknown:
            few = first_few(map(repr, dict.fromkeys(unknown)), len(set(unknown)))
            raise ValueError(f"there is no embedding of {few}")
        found: Array = self.values[rows]
        return found


def load_embeddings(path: str | Path, names: str | Path) -> Embeddings:
    """Ready embeddings: an `.npy` array and a text file with the name of each row's image.

    Args:
        path: float (N, dim), read without pickle.
        names: the list, a name on each line; a label after it (`name 7`, or after a tab) is ignored.
    """
    path, names = Path(path), Path(names)
    array = read_npy(path, mapped=True)
    if array.dtype.kind != "f" or array.ndim == 0:
        raise ValueError(f"{path}: expected one array of floats in an .npy file")
    found = read_names(names)
    if len(found) != len(array):
        raise ValueError(f"{names} has {len(found):,} names, but {path} has {len(array):,} rows; they must agree")
    try:
        values = finite_rows(str(path), array)
    except ValueError as error:
        raise ValueError(f"{error} ({_line_of_row(str(error), names, found)})") from None
    return Embeddings(list(found), values, {"embeddings": path.name, "list": names.name}, file_digests([path, names]))


def read_names(path: Path) -> dict[str, int]:
    """The names of a list with their lines; an empty line is skipped, a name that comes twice is an error."""
    found: dict[str, int] = {}
    for number, text in numbered_lines(path):
        name = _without_label(text)
        if not name:
            raise ValueError(f"{path}, line {number}: a label without a name")
        if name in found:
            raise ValueError(f"{path}, line {number}: {name!r} was on line {found[name]} already")
        found[name] = number
    if not found:
        raise ValueError(f"{path}: no names")
    return found


def names_text(names: Sequence[str]) -> str:
    """The text of a list that `read_names` reads back: a name that ends as a label does gets one."""
    check_names(names, "names of images")
    lines = []
    for name in names:
        line = name if _without_label(name) == name else f"{name}\t-1"
        if line.strip() != line or _without_label(line) != name:
            raise ValueError(f"{name!r} cannot be written to a list: a tab within it, or blanks around it; rename it")
        lines.append(f"{line}\n")
    return "".join(lines)


def concatenated(parts: Sequence[Embeddings], *, unit: bool = False) -> Embeddings:
    """Embeddings of the same images by several models or crops, side by side (SphereFace's ensemble of patches).

    Args:
        parts: each with the same names, in any order; those that not all have are left out.
        unit: bring each part to length 1 first, so that all models count the same: the cosine of two such images is
            the mean of the models' cosines.
    """
    if not parts:
        raise ValueError("parts is empty; it must hold at least one set of embeddings")
    known = np.all([part.find(parts[0].names) >= 0 for part in parts], axis=0)
    names = [name for name, everywhere in zip(parts[0].names, known.tolist(), strict=True) if everywhere]
    if not names:
        raise ValueError("the embeddings to put side by side have no image in common")
    found = [part.of(names) for part in parts]
    values: npt.NDArray[Any] = np.concatenate([_unit(part, names) for part in found] if unit else found, axis=1)
    return Embeddings(
        names,
        values,
        {"concatenated, unit" if unit else "concatenated": [dict(part.options) for part in parts]},
        joined_files(part.files for part in parts),
        {name: cause for part in parts for name, cause in part.unreadable.items()},
    )


def _unit(values: npt.NDArray[Any], names: Sequence[str]) -> npt.NDArray[Any]:
    norms = np.linalg.norm(values.astype(np.float64), axis=1, keepdims=True)
    if not norms.all():
        raise ValueError(f"the embedding of {names[int(np.argmin(norms))]!r} is zero, which has no direction")
    scaled: npt.NDArray[Any] = (values / norms).astype(values.dtype)
    return scaled


def _without_label(line: str) -> str:
    if "\t" in line:
        return line.partition("\t")[0].rstrip()
    name, _, last = line.rpartition(" ")
    return name.rstrip() if name and is_integer(last) else line


def _line_of_row(message: str, names: Path, found: Mapping[str, int]) -> str:
    words = message.rsplit(" row ", 1)
    if len(words) < 2:
        return f"list {names}"
    row = int(words[1].split()[0])
    name, line = list(found.items())[row]
    return f"{name!r}, {names}, line {line}"


def write_npy_header(file: BinaryIO, count: int, dim: int) -> None:
    """Write the beginning of an `.npy` file of float32 vectors; their bytes follow."""
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (count, dim)})


def write_embeddings(folder: str | Path, tag: str, embeddings: Embeddings) -> None:
    """Write `embeddings.npy` and `names.txt`, with a tag in their names where there are several."""
    with Staged() as stage:
        file = stage.open(Path(folder) / f"embeddings{tag}.npy", replace=True)
        write_npy_header(file, *embeddings.values.shape)
        file.write(np.ascontiguousarray(embeddings.values, "<f4").data)  # np.save's errors would not name the file
        stage.open(Path(folder) / f"names{tag}.txt", replace=True).write(names_text(embeddings.names).encode())
