"""What a set of images holds: counts, sizes, and what cannot be read."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from hypersphere.core import Reporter
from hypersphere.data.images import UnreadableImage
from hypersphere.data.readable import check_readable
from hypersphere.data.source import ImageSource, Subset, shape_of

_THREADS = 4


def summarize(source: ImageSource) -> dict[str, Any]:
    """Return the counts of a set, without reading its images.

    Returns:
        `images` and `identities`; and where there are such, `per_identity` (least, median, most), `no_identity`,
        `pairs` (all, of_one_person) and `cameras`.
    """
    labels = np.asarray(source.labels)
    found: dict[str, Any] = {"images": len(source), "identities": source.num_classes}
    if source.num_classes:
        each = np.bincount(labels[labels >= 0])
        found["per_identity"] = {"least": each.min(), "median": np.median(each), "most": each.max()}
    if (labels < 0).any():
        found["no_identity"] = (labels < 0).sum()
    same, cameras = getattr(source, "same", None), getattr(source, "cameras", None)
    if same is not None:
        found["pairs"] = {"all": len(same), "of_one_person": same.sum()}
    if cameras is not None:
        found["cameras"] = len(np.unique(cameras))
    return found


def read_some(source: ImageSource, count: int, progress: Reporter) -> tuple[Counter[str], list[str]]:
    """Read images evenly spread over a set.

    Returns:
        how many have which size, and why the others cannot be read.
    """
    sizes: Counter[str] = Counter()
    unreadable = []
    for done, index in enumerate(np.linspace(0, len(source) - 1, count).round().astype(np.int64).tolist(), start=1):
        try:
            sizes[shape_of(source.read(index))] += 1
        except UnreadableImage as error:
            unreadable.append(str(error))
        progress(done, count)
    return sizes, unreadable


def without_unreadable(source: ImageSource, progress: Reporter) -> tuple[ImageSource, list[str]]:
    """Read every image; return a set of those that can be read, and why the others cannot."""
    report = check_readable(source, progress, workers=_THREADS)
    left_out = [index for index, _ in report.unreadable]
    readable = Subset(source, np.setdiff1d(np.arange(len(source)), left_out)) if left_out else source
    return readable, [message for _, message in report.unreadable]
