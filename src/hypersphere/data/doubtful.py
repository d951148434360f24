"""Images that may not show the person they are filed under: found by a model, listed, left out of training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hypersphere.core import check_range, write_atomically
from hypersphere.data.source import ImageSource, Labels

_TITLE = "# doubtful images:"
_PERCENTILES = (1, 2, 5, 10, 25, 50)


def center_cosines(embeddings: npt.NDArray[np.floating], labels: Labels) -> npt.NDArray[np.float64]:
    """The cosine of every image with the centre of the other images of its identity, (N,).

    With the unit embeddings u_j of an identity, image i has cos(u_i, sum_{j != i} u_j). Its own embedding is left out:
    among two or three images it would pull the centre to itself. NaN where there is no other image, or no identity.

    Args:
        embeddings: (N, dim).
        labels: (N,), -1 for none.
    """
    wide = np.asarray(embeddings, dtype=np.float64)
    if wide.ndim != 2 or np.shape(labels) != (len(wide),):
        raise ValueError(
            f"embeddings have shape {wide.shape} and labels {np.shape(labels)}; expected (N, dim) and (N,)"
        )
    if np.asarray(labels).dtype.kind not in "iu":
        raise ValueError(f"labels have dtype {np.asarray(labels).dtype}; they must be integers")
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    bad = np.flatnonzero(~np.isfinite(norms[:, 0]) | (norms[:, 0] == 0))
    if len(bad):
        raise ValueError(f"the embedding of image {bad[0]} is zero, NaN or infinite")
    unit, known = wide / norms, np.asarray(labels) >= 0
    sums = np.zeros((int(np.max(labels, initial=-1)) + 1, wide.shape[1]))
    np.add.at(sums, labels[known], unit[known])
    several = known.copy()
    several[known] = np.bincount(labels[known])[labels[known]] > 1
    found = np.full(len(wide), np.nan)
    others = sums[labels[several]] - unit[several]
    lengths = np.linalg.norm(others, axis=1)
    found[several] = (unit[several] * others).sum(1) / np.where(lengths > 0, lengths, 1.0)
    return found


def share_threshold(cosines: npt.NDArray[np.float64], share: float) -> float:
    """The threshold below which a share of the cosines lie; NaN do not count."""
    check_range("share", share, 0.0, 1.0)
    known = cosines[~np.isnan(cosines)]
    if not len(known):
        raise ValueError("no image has others of its identity to be compared with: there is no share to take")
    return float(np.quantile(known, share, method="higher"))


@dataclass(frozen=True)
class DoubtfulImages:
    """What `write_doubtful` wrote.

    Args:
        indices: of the images, the lowest cosine first.
        compared: how many images have others of their identity to be compared with.
        identities: how many have no image that is not doubtful.
        percentiles: of the cosines of those compared.
    """

    indices: list[int]
    compared: int
    identities: int
    percentiles: dict[int, float]


def write_doubtful(
    path: str | Path, source: ImageSource, cosines: npt.NDArray[np.float64], threshold: float
) -> DoubtfulImages:
    """Write the list of images whose cosine is below a threshold, the lowest first.

    A line has the image's index, its cosine and what the source calls it.

    Args:
        path: the new text file, for `data.exclude` of a recipe.
        source: the images.
        cosines: what `center_cosines` gave for them; NaN is in no list.
        threshold: the cosine below which an image is doubtful.
    """
    check_range("threshold", threshold, -1.0, 1.0)
    if np.shape(cosines) != (len(source),):
        raise ValueError(f"there are {len(source)} images, but cosines of shape {np.shape(cosines)}")
    below = np.flatnonzero(cosines < threshold)
    chosen: list[int] = below[np.argsort(cosines[below], kind="stable")].tolist()
    lines = [f"{_TITLE} {len(chosen)} of {len(source)}, cosine with the others of the identity below {threshold:g}"]
    lines += [f"{index}\t{cosines[index]:.4f}\t{_name(source, index)}" for index in chosen]
    write_atomically(Path(path), ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape"))
    known, left = cosines[~np.isnan(cosines)], np.delete(np.asarray(source.labels), chosen)
    percentiles = {each: float(np.percentile(known, each)) for each in _PERCENTILES} if len(known) else {}
    return DoubtfulImages(chosen, len(known), source.num_classes - len(np.unique(left[left >= 0])), percentiles)


def read_doubtful(path: str | Path, source: ImageSource) -> list[int]:
    """The indices in a list of `write_doubtful`, which must have been made of these images.

    Raises:
        ValueError: the file is no such list, or was made of other images: another number of them, or other names.
    """
    text = Path(path).read_bytes().decode("utf-8", "surrogateescape")
    title, *lines = text.removesuffix("\n").split("\n")
    if title.partition(":")[0] + ":" != _TITLE or len(title.split()) < 6:
        raise ValueError(f"{path}: no list of doubtful images; `hypersphere data doubtful` writes them")
    if f"{_TITLE} {len(lines)} of {len(source)}," not in title:
        raise ValueError(
            f"{path}: begins with {title!r} and has {len(lines)} lines more, but the source has {len(source)} images:"
            " the list was cut short, or made of other images"
        )
    indices = []
    for line in lines:
        number, _, rest = line.partition("\t")
        name = rest.partition("\t")[2]
        index = int(number) if number.isdecimal() else -1
        if not 0 <= index < len(source) or not name or not source.describe(index).endswith(name):
            raise ValueError(f"{path}: {line!r} is no image of the source: the list was made of other images")
        indices.append(index)
    return indices


def _name(source: ImageSource, index: int) -> str:
    """What an image is called wherever its set lies: the last two parts of its path or, of a pack, its place there."""
    words = " ".join(source.describe(index).splitlines())
    _, colon, name = words.rpartition(": ")
    return name if colon else "/".join(name.split("/")[-2:])
