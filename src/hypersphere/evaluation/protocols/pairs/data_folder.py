"""Where the lists of pairs and their images lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hypersphere.data import NamedImages
from hypersphere.evaluation.protocols.embedding_source import EmbeddingSource
from hypersphere.evaluation.protocols.pairs.pair_list import PairList, read_pairs


def find_data(data: Path, pairs: Sequence[Path], source: EmbeddingSource) -> tuple[list[Path], EmbeddingSource]:
    """The list that `data` stands for, and the source with its images.

    Args:
        data: a `.bin`, or a folder with a list and images.
        pairs: lists that were given besides, of which there must be none.
        source: of the embeddings.
    """
    given, images = source.option("pairs"), source.option("images")
    title = f"{source.option('data')} {data}"
    if pairs or source.images:
        raise ValueError(f"{source.option('data')} stands for both {given} and {images}; leave these out")
    if data.suffix == ".bin":
        return [data], source
    lists = sorted(data.glob("*pairs*.txt")) if data.is_dir() else []
    lists = [path for path in lists if path.name == "pairs.txt"] or lists
    if len(lists) != 1:
        found = ", ".join(path.name for path in lists) or "none"
        raise ValueError(f"{title}: expected a folder with one list *pairs*.txt (found {found}), or a .bin")
    if source.embeddings:
        return lists, source
    names = read_pairs(lists[0]).names
    places = [path for path in sorted(data.iterdir()) if path.is_dir() or path.suffix == ".tar"]
    if (data / names[0]).is_file():
        places = [data]
    missing = {path: len(NamedImages(path, names).missing) for path in places}
    some = [path for path, count in missing.items() if count < len(names)]
    whole = [path for path in some if not missing[path]] or some
    if len(whole) != 1:
        found = ", ".join(path.name for path in whole) or "none"
        raise ValueError(
            f"{title}: expected one folder or tar in it with the images of {lists[0].name} (found {found}); give "
            f"{given} and {images}"
        )
    return lists, replace(source, images=whole)


def images_of_lists(
    paths: Sequence[Path], lists: Sequence[PairList], source: EmbeddingSource
) -> list[NamedImages | None]:
    """The images of each list: a pack's own, or those of the source in order."""
    given, option = list(source.images), source.option("images")
    others = [path for path in paths if path.suffix != ".bin"]
    if len(given) == 1:
        given *= len(others)
    if given and len(given) != len(others):
        raise ValueError(f"{option}: {len(given)} for {len(others)} lists; give one for all, or one for each in order")
    if source.model and not given and others:
        raise ValueError(f"{source.option('model')} needs {option}: where the images of the list are")
    places = iter(given)
    images: list[NamedImages | None] = []
    for path, pairs in zip(paths, lists, strict=True):
        where = path if path.suffix == ".bin" else next(places, None)
        images.append(None if where is None else NamedImages(where, pairs.names))
    return images
