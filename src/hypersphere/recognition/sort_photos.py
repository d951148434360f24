"""Photos copied into a folder for each group of faces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hypersphere.core import naming_file, staged_folder
from hypersphere.data import EncodedSource, ImageSource
from hypersphere.recognition.cluster import Ints, members_of
from hypersphere.recognition.find_faces import FoundFaces

ALONE, NO_FACE = "alone", "no-face"
"""The folders of photos whose faces are in no group, and of those without a face."""


def sort_photos(
    source: ImageSource, names: Sequence[str], faces: FoundFaces, groups: Ints, path: str | Path
) -> dict[str, list[str]]:
    """Copy every photo into the folder of each group that one of its faces is in; the originals stay as they are.

    Args:
        source: the photos.
        names: of the photos.
        faces: on the photos.
        groups: (faces,) of `cluster_faces`.
        path: the new folder, written whole or not at all: `group-1`, `group-2` ... as the page and the table count,
            `alone` and `no-face`.

    Returns:
        by folder the names of its photos.
    """
    if not isinstance(source, EncodedSource):
        raise ValueError("the photos have no files that could be copied; open them from a folder or an archive")
    folders = _folders(names, faces, groups)
    with staged_folder(Path(path)) as target:
        for folder, numbers in folders.items():
            for number in numbers:
                name = f"{folder}/{_inside(names[number])}"
                place = target / name
                with naming_file(Path(path) / name):
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_bytes(source.encoded(number))
    return {folder: [names[number] for number in numbers] for folder, numbers in folders.items()}


def _folders(names: Sequence[str], faces: FoundFaces, groups: Ints) -> dict[str, list[int]]:
    """Return by folder the numbers of its photos, each once."""
    folders: dict[str, dict[int, None]] = {}
    for number, members in enumerate(members_of(groups), start=1):
        folder = folders.setdefault(f"group-{number}" if len(members) > 1 else ALONE, {})
        folder |= dict.fromkeys(faces.photos[face] for face in members)
    without = dict.fromkeys(sorted(set(range(len(names))) - set(faces.photos)))
    return {folder: list(numbers) for folder, numbers in {**folders, NO_FACE: without}.items() if numbers}


def _inside(name: str) -> str:
    """Return the name of a copy, which cannot leave its folder: paths from several places keep their parts."""
    place = Path(name)
    return "/".join(part for part in place.parts if part not in (place.anchor, ".."))
