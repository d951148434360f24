"""The page of an alignment: how many photos gave a crop, which did not and why, and what the crops look like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from hypersphere.core import counted
from hypersphere.data import Image, ImageSource, decode
from hypersphere.evaluation import guaranteed_proportion
from hypersphere.plots import ImagePair, Page, interval, percent
from hypersphere.recognition.align_report import ALIGN_FAILURES, AlignedPhoto, AlignReport

SHOWN, LISTED, MOSAIC = 48, 1000, 60
"""Failures shown, failures listed, and crops shown."""
_SIDE = 160
_RED = np.array([226, 60, 60], np.uint8)


def align_page(report: AlignReport, source: ImageSource, names: Sequence[str]) -> Page:
    """Return the page.

    Args:
        report: of `align_photos`.
        source, names: the photos, to show those that failed.
    """
    task, failed, total = report.task, report.failed, len(report.photos)
    page = Page(
        f"Faces of {Path(task.photos).name}",
        f"{total - len(failed):,} of {counted(total, 'photo')} gave {counted(report.crops, 'aligned crop')}.",
    )
    page.origin(
        {
            "photos": task.photos,
            "crops": task.out,
            "detector": Path(task.detector).name,
            "alignment target": task.target,
        }
        | {"several faces": {"one": "refused", "largest": "the largest", "all": "all of them"}[task.faces]}
    )
    page.heading("Failure to acquire")
    counts = Counter(each.failure for each in failed)
    rows = [["all", *_rate(len(failed), total)], *([kind, *_rate(counts[kind], total)] for kind in ALIGN_FAILURES)]
    page.table(["photos without a crop", "photos", "share", "95 % interval"], rows, _ABOUT)
    if failed:
        page.heading("Photos without a crop")
        where = {name: index for index, name in enumerate(names)}
        readable = [each for each in failed if each.failure in _CAN_BE_SHOWN][:SHOWN]
        pairs = [_pair(each, source.read(where[each.photo])) for each in readable]
        if pairs:
            page.pairs(pairs, "The photo, and what was found in it.")
        more = f" The first {LISTED:,} of {len(failed):,}." if len(failed) > LISTED else ""
        page.table(
            ["photo", "failure", "cause"],
            [[each.photo, each.failure, each.cause] for each in failed[:LISTED]],
            f"Photos without a crop.{more}",
            text=True,
        )
    crops = [crop for each in report.photos for crop in each.crops]
    if crops:
        page.heading("Crops")
        chosen = [crops[int(place)] for place in np.linspace(0, len(crops) - 1, min(MOSAIC, len(crops)))]
        images = [decode((Path(task.out) / crop).read_bytes(), crop) for crop in chosen]
        page.image(_mosaic(images), "aligned faces", f"{len(images)} of {counted(len(crops), 'crop')}, evenly taken.")
        mean = np.mean(images, axis=0).round().astype(np.uint8)
        page.image(mean, "the mean of the crops", "Their mean: eyes, nose and mouth are sharp where alignment works.")
    return page


_ABOUT = (
    "Photos without a crop count in every error rate: FRR = FTA + (1 - FTA) FNMR (ISO/IEC 19795-1). The interval is "
    "Clopper and Pearson's, of independent photos."
)
_CAN_BE_SHOWN = ("no face", "several faces", "landmarks")


def _rate(count: int, total: int) -> list[str]:
    rate = guaranteed_proportion(count, total)
    return [f"{count:,}", percent(rate.value), interval(rate.low, rate.high)]


def _pair(each: AlignedPhoto, image: Image) -> ImagePair:
    scale = min(1.0, _SIDE / max(image.shape[:2]))
    small = _smaller(image, scale)
    return ImagePair(small, _marked(small, each, scale), each.cause, each.photo)


def _smaller(image: Image, scale: float) -> Image:
    size = [max(1, round(side * scale)) for side in image.shape[:2]]
    planes = torch.tensor(image).permute(2, 0, 1)[None].float()
    scaled = functional.interpolate(planes, size, mode="bilinear", antialias=True)
    pixels: Image = scaled[0].round().clamp(0, 255).byte().permute(1, 2, 0).numpy()
    return pixels if pixels.shape[2] == 3 else pixels.repeat(3, axis=2)


def _marked(image: Image, each: AlignedPhoto, scale: float) -> Image:
    """The photo with boxes and landmarks drawn into it."""
    marked = image.copy()
    height, width = image.shape[:2]
    for box, landmarks in zip(each.boxes, each.landmarks, strict=True):
        x0, x1 = (int(np.clip(round(value * scale), 0, width - 1)) for value in box[::2])
        y0, y1 = (int(np.clip(round(value * scale), 0, height - 1)) for value in box[1::2])
        marked[y0 : y1 + 1, [x0, x1, max(x0 - 1, 0), max(x1 - 1, 0)]] = _RED
        marked[[y0, y1, max(y0 - 1, 0), max(y1 - 1, 0)], x0 : x1 + 1] = _RED
        for x, y in landmarks:
            column, row = round(x * scale), round(y * scale)
            marked[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2] = _RED
    return marked


def _mosaic(images: Sequence[Image], columns: int = 12) -> Image:
    height, width, _ = images[0].shape
    columns = min(columns, len(images))
    rows = -(-len(images) // columns)
    sheet = np.full((rows * height, columns * width, 3), 255, np.uint8)
    for place, image in enumerate(images):
        row, column = divmod(place, columns)
        sheet[row * height : (row + 1) * height, column * width : (column + 1) * width] = image
    return sheet
