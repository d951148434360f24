"""Re-identification sets in the naming of Market-1501 and DukeMTMC-reID."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hypersphere.core import Reporter, check_choice, naming_file, parse_integer, staged_folder
from hypersphere.data.file_access import is_image_name
from hypersphere.data.formats.folder import FileSource, stored_images
from hypersphere.data.images import suffix_of
from hypersphere.data.source import ImageSource, Labels

FOLDERS = {"train": "bounding_box_train", "query": "query", "gallery": "bounding_box_test"}
JUNK, DISTRACTOR = -1, 0
_NAME = re.compile(r"(?P<identity>-1|\d+)_c(?P<camera>\d+)(s\d+)?_", re.ASCII)


class MarketSource(FileSource):
    """One split of Market-1501 or DukeMTMC-reID: `0002_c1s1_000451_03.jpg` is identity 2 seen by camera 1.

    Labels number the split's identities 0..K-1; junk (-1) and distractors (0000) get label -1. Query and gallery are
    matched by `identities`, the numbers in the names, which are the same in every split.

    Args:
        path: the folder that holds `bounding_box_train`, `query` and `bounding_box_test`.
        split: `train`, `query` or `gallery`.

    Attributes:
        identities: (len,) the numbers in the names: -1 junk, 0 distractors.
        cameras: (len,) the cameras.

    Example:
        >>> MarketSource("Market-1501-v15.09.15", "train").names
        ['0002', '0007']
    """

    def __init__(self, path: str | Path, split: str = "train") -> None:
        root = Path(path) / FOLDERS[check_choice("split", split, FOLDERS)]
        if not root.is_dir():
            raise ValueError(f"{root} is missing; expected the folders {', '.join(FOLDERS.values())}")
        files = sorted(entry.name for entry in root.iterdir() if is_image_name(entry.name))
        if not files:
            raise ValueError(f"{root}: no images")
        numbers = np.array([parse_name(name, root) for name in files], dtype=np.int64)
        self.identities: Labels = numbers[:, 0].copy()
        self.cameras: Labels = numbers[:, 1].copy()
        people = np.unique(self.identities[self.identities > DISTRACTOR])
        labels = np.where(self.identities > DISTRACTOR, np.searchsorted(people, self.identities), -1).astype(np.int64)
        super().__init__(root, files, labels, [f"{person:04d}" for person in people])


def parse_name(name: str, where: str | Path = "name") -> tuple[int, int]:
    """Identity and camera of an image's name; identity -1 is junk, 0 a distractor.

    Example:
        >>> parse_name("0002_c1s1_000451_03.jpg")
        (2, 1)
    """
    match = _NAME.match(name)
    if match is None:
        raise ValueError(f"{where}: {name!r} is not named like 0002_c1s1_000451_03.jpg or 0005_c2_f0046985.jpg")
    return (
        parse_integer(match["identity"], f"{where}: {name!r}: identity", JUNK),
        parse_integer(match["camera"], f"{where}: {name!r}: camera"),
    )


def write_market(
    source: ImageSource,
    path: str | Path,
    *,
    split: str = "train",
    quality: int | None = None,
    progress: Reporter | None = None,
) -> None:
    """Write one split in Market-1501's naming; all or nothing. Stored bytes are copied as they are.

    Args:
        source: the images. `identities` and `cameras` are used where the source has them; otherwise label k becomes
            identity k + 1, seen by camera 1, and images without identity become distractors.
        path: the folder that gets `bounding_box_train`, `query` or `bounding_box_test`.
        split: `train`, `query` or `gallery`.
        quality: of images that are not stored as bytes: None for PNG, 1 to 100 for JPEG.
        progress: called as `progress(done, total)`.
    """
    target = Path(path) / FOLDERS[check_choice("split", split, FOLDERS)]
    identities: npt.NDArray[np.int64] = np.asarray(getattr(source, "identities", np.asarray(source.labels) + 1))
    cameras: npt.NDArray[np.int64] = np.asarray(getattr(source, "cameras", np.ones(len(source), dtype=np.int64)))
    with staged_folder(target) as folder:
        for index, data in enumerate(stored_images(source, quality, progress)):
            person = "-1" if identities[index] == JUNK else f"{identities[index]:04d}"
            name = f"{person}_c{cameras[index]}s1_{index:06d}_00{suffix_of(data, source.describe(index))}"
            with naming_file(target / name):
                (folder / name).write_bytes(data)
