"""MNIST's idx files, plain or gzipped."""

from __future__ import annotations

import gzip
import io
import math
import struct
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from hypersphere.core import INT64_MAX, Reporter, Staged, check_choice, refuse_existing
from hypersphere.data.file_access import stage_beside
from hypersphere.data.source import ArraySource, ImageSource, shape_of

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_MOST_DIMENSIONS = 32
_UNPACKED_TIMES = 100
_UNPACKED_FREELY = 2**28
_PREFIX = {"train": "train", "test": "t10k"}


def open_mnist(path: str | Path, split: str = "train", relabel: bool = False) -> ArraySource:
    """MNIST, or a set in its layout: `train-images-idx3-ubyte` and `train-labels-idx1-ubyte`, `t10k-...` for the test
    images, each with `.gz` or without.

    Args:
        path: the folder.
        split: `train` or `test`.
        relabel: number the labels that occur from 0 on, instead of refusing a gap.

    Returns:
        grey images, (H, W, 1).
    """
    prefix = _PREFIX[check_choice("split", split, _PREFIX)]
    image_path, label_path = (find_idx(Path(path), f"{prefix}-{what}") for what in ("images-idx3", "labels-idx1"))
    images, labels = read_idx(image_path), read_idx(label_path)
    if images.dtype != np.uint8 or images.ndim != 3:
        raise ValueError(f"{image_path}: {images.dtype} of {images.ndim} dimensions; expected bytes of 3")
    if labels.ndim != 1 or len(labels) != len(images) or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"{label_path}: {labels.dtype} {labels.shape} for {len(images)} images in {image_path.name}")
    return ArraySource(images[:, :, :, None], labels, where=str(image_path), relabel=relabel)


def find_idx(folder: Path, name: str) -> Path:
    """`name-ubyte` in a folder, with `.gz` or without, and with a dot for the second dash."""
    dotted = name.replace("-idx", ".idx")
    for candidate in (f"{name}-ubyte", f"{name}-ubyte.gz", f"{dotted}-ubyte", f"{dotted}-ubyte.gz"):
        if (folder / candidate).is_file():
            return folder / candidate
    raise ValueError(f"{folder} has no {name}-ubyte, plain or .gz")


def read_idx(path: str | Path) -> npt.NDArray[Any]:
    """The array in an idx file."""
    path = Path(path)
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        try:
            return _read(gzip.GzipFile(fileobj=file) if packed else file, path)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path}: damaged or truncated gzip file ({error})") from error


def _read(file: BinaryIO | gzip.GzipFile, path: Path) -> npt.NDArray[Any]:
    magic = file.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _TYPES or not 1 <= magic[3] <= _MOST_DIMENSIONS:
        raise ValueError(f"{path}: begins with {magic!r}, not with the magic number of an idx file")
    sizes = file.read(4 * magic[3])
    if len(sizes) < 4 * magic[3]:
        raise ValueError(f"{path}: truncated within its header")
    shape = struct.unpack(f">{magic[3]}I", sizes)
    kind = np.dtype(_TYPES[magic[2]])
    wanted = math.prod(shape) * kind.itemsize
    data = _read_up_to(file, wanted + 1, path)
    if len(data) != wanted:
        found = f"only {len(data)}" if len(data) < wanted else "more"
        raise ValueError(f"{path}: truncated or damaged: {shape} needs {wanted} bytes, the file has {found}")
    if math.prod(filter(None, shape)) > INT64_MAX // kind.itemsize:
        raise ValueError(f"{path}: damaged: an array of shape {shape}")
    return np.frombuffer(data, dtype=kind).reshape(shape).astype(kind.newbyteorder("="))


def _read_up_to(file: BinaryIO | gzip.GzipFile, size: int, path: Path) -> bytes:
    """At most `size` bytes, taking memory only for what is there."""
    most = max(_UNPACKED_FREELY, _UNPACKED_TIMES * path.stat().st_size)
    parts = io.BytesIO()
    while parts.tell() < size and (part := file.read(min(size - parts.tell(), 1 << 20))):
        parts.write(part)
        if parts.tell() > most:
            raise ValueError(
                f"{path}: unpacks to more than {_UNPACKED_TIMES} times its size and {_UNPACKED_FREELY:,} bytes, as no "
                "images do; if it is to be trusted, unpack it with gzip -d"
            )
    return parts.getvalue()


def write_idx(array: npt.NDArray[Any], path: str | Path) -> None:
    """Write an array as an idx file, gzipped where the name ends in `.gz`."""
    with Staged() as stage:
        stage.open(Path(path)).write(_idx_bytes(array, Path(path)))


def _idx_bytes(array: npt.NDArray[Any], path: Path) -> bytes:
    codes = {np.dtype(kind).newbyteorder("="): code for code, kind in _TYPES.items()}
    code = codes.get(array.dtype.newbyteorder("="))
    if code is None or not 1 <= array.ndim <= 255:
        raise ValueError(f"{path}: an idx file cannot hold {array.dtype} of {array.ndim} dimensions")
    header = struct.pack(f">HBB{array.ndim}I", 0, code, array.ndim, *array.shape)
    content = header + np.ascontiguousarray(array, dtype=_TYPES[code]).tobytes()
    return gzip.compress(content, mtime=0) if path.suffix == ".gz" else content


def write_mnist(
    source: ImageSource,
    path: str | Path,
    *,
    split: str = "train",
    progress: Reporter | None = None,
) -> None:
    """Write grey images of one size in MNIST's layout (gzipped); colour is refused. All or nothing.

    Args:
        source: at most 256 identities.
        path: the folder.
        split: `train` or `test`.
        progress: called as `progress(done, total)`.
    """
    prefix = _PREFIX[check_choice("split", split, _PREFIX)]
    if source.num_classes > 256 or np.min(source.labels) < 0:
        raise ValueError(f"{path}: MNIST's labels are 0..255, for every image; given {source.num_classes} identities")
    images = stack_images(source, progress)
    if images.shape[3] == 3:
        if (images != images[:, :, :, :1]).any():
            raise ValueError(f"{path}: idx files hold grey images; the source has colour")
        images = images[:, :, :, :1]
    image_path, label_path = (Path(path) / f"{prefix}-{what}-ubyte.gz" for what in ("images-idx3", "labels-idx1"))
    refuse_existing(image_path)
    with Staged() as stage:
        stage_beside(stage, label_path, _idx_bytes(np.asarray(source.labels).astype(np.uint8), label_path))
        stage.open(image_path).write(_idx_bytes(images[:, :, :, 0], image_path))


def stack_images(source: ImageSource, progress: Reporter | None = None) -> npt.NDArray[np.uint8]:
    """All images of a source in memory, (N, H, W, C); they must have one size."""
    first = source.read(0)
    images = np.empty((len(source), *first.shape), dtype=np.uint8)
    for index in range(len(source)):
        image = source.read(index)
        if image.shape != first.shape:
            raise ValueError(
                f"{source.describe(index)} is {shape_of(image)}, {source.describe(0)} is {shape_of(first)}"
            )
        images[index] = image
        if progress is not None:
            progress(index + 1, len(source))
    return images
