"""Open a set of images of any known format, and write one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any

from hypersphere.core import Reporter, check_choice, nearest
from hypersphere.data.file_access import is_image_name
from hypersphere.data.formats import (
    FolderSource,
    ListSource,
    MarketSource,
    PackSource,
    RecordSource,
    TarSource,
    open_cifar,
    open_mnist,
    write_cifar,
    write_folder,
    write_list,
    write_market,
    write_mnist,
    write_pack,
    write_records,
    write_tar,
)
from hypersphere.data.formats.market import FOLDERS
from hypersphere.data.source import ImageSource


@dataclass(frozen=True)
class Format:
    """A format: how it is opened and written, and in a few words what it looks like."""

    open: Callable[..., ImageSource]
    write: Callable[..., Any]
    layout: str


FORMATS = {
    "folder": Format(FolderSource, write_folder, "root/identity/image.jpg"),
    "list": Format(ListSource, write_list, "a text file with 'path label' or 'path' on each line"),
    "tar": Format(TarSource, write_tar, "an archive or a folder of them: key.jpg + key.cls, or identity/image.jpg"),
    "rec": Format(RecordSource, write_records, "InsightFace's train.rec + train.idx"),
    "bin": Format(PackSource, write_pack, "InsightFace's verification pack, lfw.bin"),
    "mnist": Format(open_mnist, write_mnist, "train-images-idx3-ubyte + train-labels-idx1-ubyte, plain or .gz"),
    "cifar": Format(open_cifar, write_cifar, "data_batch_*.bin or train.bin, or split/class/image"),
    "market": Format(
        MarketSource, write_market, "bounding_box_train/0002_c1s1_000451_03.jpg, query, bounding_box_test"
    ),
}


NOT_WRITTEN = (".gz", ".tgz", ".xz", ".bz2", ".zst", ".zip", ".7z", ".lmdb", ".h5", ".hdf5", ".npz", ".npy", ".parquet")
UNKNOWN = f"is of no known format ({', '.join(FORMATS)}; `hypersphere data --help` shows what they look like)"


def open_source(path: str | Path, format: str | None = None, **options: Any) -> ImageSource:  # noqa: A002
    """Open a set of images.

    Args:
        path: a file or a folder; a pattern such as `faces-*.tar` opens several archives as one set.
        format: one of `FORMATS`; guessed from the names by default.
        options: the format's own: `split` (folder, tar, mnist, cifar, market), `root` (list), `relabel` (list, tar,
            rec, mnist, cifar), `classes` (cifar), `cache` (tar).

    Example:
        >>> open_source("faces_emore/train.rec").names
        ['ada', 'bo', 'cy', 'grace']
        >>> open_source("cifar10", split="test").names[3]
        'cat'
    """
    found: Any = Path(path)
    if not found.exists():
        found = _matching(path)
        format = check_choice("format", format or "tar", ("tar",))  # noqa: A001
    name = guess_format(found) if format is None else format
    opener = _format(name).open
    _check_options(name, opener, options, skip=1)
    return opener(found, **options)


def _matching(path: str | Path) -> list[Path]:
    found = [Path(one) for one in sorted(glob(str(path)))]
    if not found:
        raise ValueError(f"{path} is missing")
    if any(one.suffix != ".tar" for one in found):
        raise ValueError(f"{path} matches {len(found)} files; only .tar archives open as one set")
    return found


def write_source(
    source: ImageSource,
    path: str | Path,
    format: str | None = None,  # noqa: A002
    *,
    progress: Reporter | None = None,
    **options: Any,
) -> None:
    """Write a set of images; all or nothing. Encoded images are copied byte for byte where the format stores bytes.

    Args:
        source: the images.
        path: where to; it must not exist yet.
        format: one of `FORMATS`; by the name's end by default (`.rec`, `.tar`, `.bin`, `.txt`, otherwise a folder).
        progress: called as `progress(done, total)`.
        options: the format's own: `quality` (folder, tar, rec, bin, market), `shard_size` (tar), `split` (mnist, cifar,
            market), `root` (list), `pairs` and `same` (bin).

    Example:
        >>> write_source(open_source("people"), "people.rec")
    """
    path = Path(path)
    by_suffix = {".rec": "rec", ".tar": "tar", ".bin": "bin", ".txt": "list", ".lst": "list"}
    if format is None and path.suffix.lower() in NOT_WRITTEN:
        raise ValueError(f"{path}: {path.suffix} files are not written; say which of {', '.join(FORMATS)} it shall be")
    name = by_suffix.get(path.suffix, "folder") if format is None else format
    writer = _format(name).write
    _check_options(name, writer, options, skip=2)
    writer(source, path, progress=progress, **options)


def guess_format(path: str | Path) -> str:
    """The format of a file or folder by its name and its content's names."""
    path = Path(path)
    return _guess_folder(path) if path.is_dir() else _guess_file(path)


def _guess_folder(path: Path) -> str:
    signs = {
        "rec": ["*.rec"],
        "tar": ["*.tar"],
        "mnist": ["*images?idx3-ubyte", "*images?idx3-ubyte.gz"],
        "cifar": ["data_batch_*", "test_batch*", "train.bin", "test.bin"],
        "market": [FOLDERS["train"], FOLDERS["gallery"]],
    }
    found = [name for name, patterns in signs.items() if any(any(path.glob(pattern)) for pattern in patterns)]
    if len(found) > 1:
        raise ValueError(f"{path} looks like {' and '.join(found)}; say which with the option format, or name one file")
    if found:
        return found[0]
    if not any(entry.is_dir() for entry in path.iterdir()):
        if any(is_image_name(entry.name) for entry in path.iterdir()):
            raise ValueError(f"{path} holds images, but no folders; expected one folder of images per identity")
        raise ValueError(f"{path} {UNKNOWN}")
    return "folder"


def _guess_file(path: Path) -> str:
    name = path.name.lower()
    if name.endswith((".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".tar.zst")):
        raise ValueError(f"{path}: a compressed archive allows no random access; unpack it to a .tar or a folder first")
    ends = {".rec": "rec", ".idx": "rec", ".tar": "tar", ".bin": "bin", ".txt": "list", ".lst": "list", ".list": "list"}
    if "idx3-ubyte" in name or "idx1-ubyte" in name:
        raise ValueError(f"{path}: open the folder it lies in; images and labels are two files")
    if path.suffix == ".bin" and name.startswith(("data_batch", "test_batch", "train.bin", "test.bin")):
        raise ValueError(f"{path}: open the folder it lies in")
    if path.suffix.lower() not in ends:
        raise ValueError(f"{path} {UNKNOWN}")
    return ends[path.suffix.lower()]


def layouts() -> str:
    """One line per format: its name and what it looks like."""
    return "\n".join(f"  {name:<8}{entry.layout}" for name, entry in FORMATS.items())


def _format(name: str) -> Format:
    if name not in FORMATS:
        raise ValueError(f"unknown format {name!r}; {nearest(name, FORMATS)}")
    return FORMATS[name]


def _check_options(name: str, function: Callable[..., Any], options: dict[str, Any], skip: int) -> None:
    known = [key for key in list(inspect.signature(function).parameters)[skip:] if key != "progress"]
    for key in options:
        if key not in known:
            raise ValueError(
                f"format {name} has no option {key!r}; " + (nearest(key, known) if known else "it has none")
            )
