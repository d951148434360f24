"""The training images of a recipe: opened, fitted, checked, cut down, made imbalanced or noisy as it says."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from torch import Tensor

from hypersphere.core import Reporter, write_atomically
from hypersphere.data import (
    Fitted,
    Image,
    ImageSource,
    Indices,
    Labels,
    ReadReport,
    Subset,
    check_readable,
    first_few,
    imbalance,
    long_tailed_counts,
    names_of,
    noisy_labels,
    open_source,
    read_doubtful,
    step_counts,
)
from hypersphere.pocket import PocketFaces
from hypersphere.training.recipe import DataSettings

_THREADS = 16


def training_source(settings: DataSettings, source: ImageSource | None = None) -> ImageSource:
    """Return the images that a recipe trains on.

    Args:
        settings: of the recipe.
        source: the images as they are before any are left out; opened as the settings say by default.
    """
    source = source if source is not None else _open(settings)
    left_out = _held_out(source, settings) if settings.validation.identities else np.zeros(len(source), dtype=np.bool_)
    if settings.exclude is not None:
        left_out[read_doubtful(settings.exclude, source)] = True
    if left_out.any():
        source = Subset(source, np.flatnonzero(~left_out))
    if settings.most_images is not None:
        source = Subset(source, _most_images(source.labels, settings.most_images))
    if settings.images_per_class is not None:
        counts = np.minimum(np.bincount(source.labels[source.labels >= 0]), settings.images_per_class)
        source = Subset(source, imbalance(source.labels, counts, settings.seed))
    if settings.imbalance is not None:
        source = Subset(source, imbalance(source.labels, _counts(source, settings), settings.seed))
    if settings.label_noise:
        noisy = noisy_labels(source.labels, settings.label_noise, source.num_classes, settings.seed)
        source = Relabelled(source, noisy)
    return source


def held_out_source(settings: DataSettings, source: ImageSource | None = None) -> ImageSource:
    """Return the images of the identities that `data.validation.identities` keeps out of training.

    Args:
        settings: of the recipe.
        source: the images before any are left out; opened as the settings say by default.
    """
    source = source if source is not None else _open(settings)
    return Subset(source, np.flatnonzero(_held_out(source, settings)))


def _held_out(source: ImageSource, settings: DataSettings) -> npt.NDArray[np.bool_]:
    """(N,) whether each image belongs to a held-out identity."""
    labels, wanted = np.asarray(source.labels), settings.validation.identities
    count = int(wanted) if wanted >= 1 else round(wanted * source.num_classes)
    several = np.flatnonzero(np.bincount(labels[labels >= 0], minlength=source.num_classes) >= 2)
    if not 2 <= count <= min(len(several), source.num_classes - 2):
        raise ValueError(
            f"data.validation.identities={wanted:g} is {count} of {source.num_classes} identities: at least 2 must be"
            f" held out, each with two images ({len(several)} have them), and 2 left to train on"
        )
    chosen = np.random.default_rng(settings.seed).choice(several, count, replace=False)
    return np.isin(labels, chosen)


def readable_source(
    source: ImageSource,
    settings: DataSettings,
    folder: Path,
    progress: Reporter | None = None,
    *,
    listed: bool = False,
) -> ImageSource:
    """Return the images of a source that can be read; the others are listed in `folder/unreadable.txt`.

    Every image is read once, by several threads. A folder with checkpoints is a run that goes on: it leaves out what
    its list says, whatever can be read by now, so that it stays the same run. Pocket faces are not checked, nor is
    anything with `data.check=false`.

    Args:
        source: what `training_source` gave.
        settings: of the same recipe.
        folder: of the run.
        progress: called as `progress(done, total)`.
        listed: believe the list that another process has just made.

    Raises:
        ValueError: more than `data.unreadable` of them cannot be read, or none can, or one has another size than
            `data.size`; or the list of a run that goes on was made of other images.
    """
    if settings.source == "pocket" or not settings.check:
        return source
    path = folder / "unreadable.txt"
    if path.is_file() and (listed or any((folder / "checkpoints").glob("step-*.json"))):
        return _without(source, _read_list(path, source))
    report = check_readable(source, progress, limit_share=1.0, workers=min(_THREADS, os.cpu_count() or 1))
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, _list(report).encode("utf-8", "surrogateescape"))
    count = len(report.unreadable)
    if report.share > settings.unreadable or count == report.checked:
        shown = first_few((message for _, message in report.unreadable), count, 3)
        raise ValueError(
            f"{count:,} of {report.checked:,} images cannot be read ({report.share:.2%}; data.unreadable="
            f"{settings.unreadable:g} allows {settings.unreadable:.2%}): {shown}. All are listed in {path}"
        )
    left = _without(source, [index for index, _ in report.unreadable])
    if count:
        gone = sorted(set(names_of(source)) - set(names_of(left)))
        lost = f", and with them {len(gone):,} identities ({first_few(gone, len(gone), 3)})" if gone else ""
        warnings.warn(
            f"{count:,} of {report.checked:,} images cannot be read and are left out{lost}; see {path}",
            RuntimeWarning,
            stacklevel=2,
        )
    return left


def readable_held_out(settings: DataSettings) -> ImageSource:
    """Return the images of `held_out_source` that can be read; `data.check=false` believes that all can."""
    source = held_out_source(settings)
    if settings.source == "pocket" or not settings.check:
        return source
    report = check_readable(source, limit_share=1.0, workers=min(_THREADS, os.cpu_count() or 1))
    if report.unreadable:
        shown = first_few((message for _, message in report.unreadable), len(report.unreadable), 3)
        warnings.warn(
            f"{len(report.unreadable):,} of {report.checked:,} images of held-out identities cannot be read and are"
            f" left out: {shown}",
            RuntimeWarning,
            stacklevel=2,
        )
    return _without(source, [index for index, _ in report.unreadable])


def _without(source: ImageSource, left_out: list[int]) -> ImageSource:
    return Subset(source, np.setdiff1d(np.arange(len(source)), left_out)) if left_out else source


def _list(report: ReadReport) -> str:
    lines = [f"# {len(report.unreadable)} of {report.checked} images cannot be read: index, image and cause"]
    lines += [f"{index}\t{_one_line(message)}" for index, message in report.unreadable]
    return "\n".join(lines) + "\n"


def _read_list(path: Path, source: ImageSource) -> list[int]:
    """Return the indices in a list, of which the images must still be the same."""
    title, *lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines() or [""]
    words, indices = title.split(), []
    if words[:1] != ["#"] or len(words) < 4 or words[1:4:2] != [str(len(lines)), str(len(source))]:
        raise ValueError(
            f"{path}: begins with {title!r} and has {len(lines)} lines more, but there are {len(source)} images: "
            "the data are not those that this run began with"
        )
    for line in lines:
        number, _, message = line.partition("\t")
        index = int(number) if number.isdecimal() else -1
        if not 0 <= index < len(source) or not message.startswith(_one_line(source.describe(index))):
            raise ValueError(f"{path}: {line!r} is no image of these: the data are not those that this run began with")
        indices.append(index)
    return indices


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())


@dataclass(frozen=True)
class Relabelled:
    """A source with other labels."""

    source: ImageSource
    labels: Labels

    @property
    def num_classes(self) -> int:
        return self.source.num_classes

    @property
    def names(self) -> list[str]:
        return names_of(self.source)

    def __len__(self) -> int:
        return len(self.source)

    def read(self, index: int) -> Image:
        return self.source.read(index)

    def describe(self, index: int) -> str:
        return self.source.describe(index)

    def batch(self, indices: Indices) -> Tensor:
        return self.source.batch(indices)


def _open(settings: DataSettings) -> ImageSource:
    if not settings.source:
        raise ValueError("data.source is empty: this recipe needs a data set of yours, data.source=PATH")
    if settings.source != "pocket":
        source = open_source(settings.source, settings.format)
        return Fitted(
            source, settings.size, grey=settings.grey, resize=settings.resize, resize_option="data.resize=true"
        )
    return PocketFaces(
        num_identities=settings.identities,
        images_per_identity=settings.images_per_identity,
        size=settings.size,
        seed=settings.seed,
        difficulty=settings.difficulty,
        grey=settings.grey,
    )


def _counts(source: ImageSource, settings: DataSettings) -> Labels:
    largest = int(np.bincount(source.labels[source.labels >= 0]).min())
    if settings.imbalance == "step":
        return step_counts(source.num_classes, largest, settings.imbalance_ratio, settings.minority)
    return long_tailed_counts(source.num_classes, largest, settings.imbalance_ratio)


def _most_images(labels: Labels, count: int) -> Labels:
    sizes = np.bincount(labels[labels >= 0])
    if not 2 <= count <= len(sizes):
        raise ValueError(f"most_images={count} must be between 2 and the {len(sizes)} identities there are")
    largest = np.argsort(-sizes, kind="stable")[:count]
    return np.flatnonzero(np.isin(labels, largest))
