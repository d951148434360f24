"""CIFAR-10 and CIFAR-100: the binary version, and trees of image folders."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hypersphere.core import Reporter, Staged, check_choice, refuse_existing
from hypersphere.data.file_access import stage_beside
from hypersphere.data.formats.folder import FolderSource
from hypersphere.data.formats.idx import stack_images
from hypersphere.data.source import ArraySource, ImageSource, name_lines, names_of, read_name_lines

SIDE = 32
PIXELS = 3 * SIDE * SIDE
BATCH = 10_000


class CifarSource(ArraySource):
    """The images of the binary version.

    Attributes:
        coarse: (N,) the superclasses of CIFAR-100; None for CIFAR-10.
    """

    coarse: npt.NDArray[np.int64] | None = None


def open_cifar(
    path: str | Path, split: str = "train", classes: str = "fine", relabel: bool = False
) -> CifarSource | FolderSource:
    """CIFAR-10 (`data_batch_*.bin`, `test_batch.bin`), CIFAR-100 (`train.bin`, `test.bin`), or `split/class/image`.

    Args:
        path: the folder.
        split: `train` or `test`.
        classes: of CIFAR-100, `fine` (100) or `coarse` (20).
        relabel: number the labels that occur from 0 on, instead of refusing a gap.
    """
    folder = Path(path)
    check_choice("split", split, ("train", "test"))
    check_choice("classes", classes, ("fine", "coarse"))
    batches = folder.glob("data_batch_*.bin" if split == "train" else "test_batch.bin")
    ten = sorted(batches, key=_batch_number)
    hundred = folder / f"{split}.bin"
    if ten:
        records = _records(ten, 1)
        return _source(records[:, 1:], records[:, 0], _names(folder / "batches.meta.txt"), str(folder), relabel)
    if hundred.is_file():
        records = _records([hundred], 2)
        column = ("coarse", "fine").index(classes)
        names = _names(folder / f"{classes}_label_names.txt")
        source = _source(records[:, 2:], records[:, column], names, str(hundred), relabel)
        source.coarse = records[:, 0].astype(np.int64) if classes == "fine" else None
        return source
    if (folder / split).is_dir():
        return FolderSource(folder, split)
    if any(folder.glob("data_batch_[0-9]")) or (folder / "batches.meta").is_file() or (folder / "meta").is_file():
        raise ValueError(f"{folder} is the pickled Python version; take the binary one (data_batch_1.bin)")
    raise ValueError(f"{folder} has neither data_batch_*.bin, nor {split}.bin, nor a folder {split}")


def _batch_number(path: Path) -> int:
    return int("0" + "".join(re.findall(r"\d+", path.stem)))


def _records(paths: list[Path], labels: int) -> npt.NDArray[np.uint8]:
    size = labels + PIXELS
    parts = []
    for path in paths:
        data = np.fromfile(path, dtype=np.uint8)
        if not len(data) or len(data) % size:
            raise ValueError(
                f"{path}: {len(data)} bytes are not a whole number of records of {size}; "
                f"truncated at byte {len(data) - len(data) % size}, or not CIFAR's binary version"
            )
        parts.append(data.reshape(-1, size))
    return np.concatenate(parts)


def _names(path: Path) -> list[str] | None:
    """The classes' names, one on each line; None where there is no such file."""
    return read_name_lines(path) if path.is_file() else None


def _source(
    pixels: npt.NDArray[np.uint8], labels: npt.NDArray[np.uint8], names: list[str] | None, where: str, relabel: bool
) -> CifarSource:
    if names is not None and len(names) <= labels.max():
        raise ValueError(f"{where}: {len(names)} names of classes, but there is a label {labels.max()}")
    images = np.ascontiguousarray(pixels.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1))
    return CifarSource(images, labels, names, where, relabel)


def write_cifar(
    source: ImageSource, path: str | Path, *, split: str = "train", progress: Reporter | None = None
) -> None:
    """Write 32x32 colour images as CIFAR's binary version: CIFAR-100's layout where the source has superclasses
    (`coarse`), CIFAR-10's otherwise. All or nothing.

    Args:
        source: at most 256 identities.
        path: the folder.
        split: `train` or `test`.
        progress: called as `progress(done, total)`.
    """
    folder = Path(path)
    check_choice("split", split, ("train", "test"))
    if source.num_classes > 256 or np.min(source.labels) < 0:
        raise ValueError(f"{path}: CIFAR's labels are 0..255, for every image; given {source.num_classes} classes")
    images = stack_images(source, progress)
    images = np.repeat(images, 3, axis=3) if images.shape[3] == 1 else images
    if images.shape[1:] != (SIDE, SIDE, 3):
        raise ValueError(f"{path}: CIFAR's images are 32x32 in colour; the source's are {images.shape[1:]}")
    pixels = images.transpose(0, 3, 1, 2).reshape(len(images), PIXELS)
    columns = [np.asarray(source.labels).astype(np.uint8)[:, None]]
    coarse = getattr(source, "coarse", None)
    if coarse is not None:
        columns.insert(0, coarse.astype(np.uint8)[:, None])
    records = np.concatenate([*columns, pixels], axis=1)
    names = folder / ("batches.meta.txt" if coarse is None else "fine_label_names.txt")
    first, rest = records, []
    if coarse is not None:
        main = folder / f"{split}.bin"
    elif split == "test":
        main = folder / "test_batch.bin"
    else:
        main = folder / "data_batch_1.bin"
        first, *rest = (records[start : start + BATCH] for start in range(0, len(records), BATCH))
    refuse_existing(main)
    with Staged() as stage:
        stage.open(names, replace=True).write(name_lines(names_of(source), names))
        for number, batch in enumerate(rest, start=2):
            stage_beside(stage, folder / f"data_batch_{number}.bin", batch.tobytes())
        stage.open(main).write(first.tobytes())
