"""`hypersphere data`: look at sets of images, pack and convert them, find identities that two sets share."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hypersphere.cli.output import Results
from hypersphere.core import Progress, choose_device
from hypersphere.core.files import refuse_existing
from hypersphere.core.read_arrays import read_npy
from hypersphere.data import (
    ImageSource,
    Subset,
    UnreadableImage,
    check_readable,
    guess_format,
    names_of,
    open_source,
    shared_names,
    similar_identities,
    write_source,
)
from hypersphere.data.convert import NOT_WRITTEN
from hypersphere.data.source import shape_of
from hypersphere.training import load_run, mean_embeddings

LISTED = 20
THREADS = 4


def inspect(options: argparse.Namespace) -> Results:
    """Print what a set holds."""
    if options.sample < 0:
        raise ValueError(f"--sample {options.sample} must be 0 (all) or more")
    source = _open(options)
    count = len(source)
    labels = np.asarray(source.labels)
    found: dict[str, Any] = {
        "format": options.format or _guess(options.source),
        "images": count,
        "identities": source.num_classes,
    }
    print(f"{'format':<14}{found['format']}")
    print(f"{'images':<14}{count:,}")
    print(f"{'identities':<14}{source.num_classes:,}")
    if source.num_classes:
        each = np.bincount(labels[labels >= 0])
        found["per_identity"] = {"least": each.min(), "median": np.median(each), "most": each.max()}
        print(f"{'per identity':<14}least {each.min():,}, median {np.median(each):,g}, most {each.max():,}")
    if (labels < 0).any():
        found["no_identity"] = (labels < 0).sum()
        print(f"{'no identity':<14}{found['no_identity']:,}")
    same = getattr(source, "same", None)
    if same is not None:
        found["pairs"] = {"all": len(same), "of_one_person": same.sum()}
        print(f"{'pairs':<14}{len(same):,}, {same.sum():,} of one person")
    cameras = getattr(source, "cameras", None)
    if cameras is not None:
        found["cameras"] = len(np.unique(cameras))
        print(f"{'cameras':<14}{found['cameras']}")
    return Results({**found, **_inspect_images(source, min(options.sample or count, count))})


def _inspect_images(source: ImageSource, wanted: int) -> dict[str, Any]:
    """Print what reading some images tells; nothing of it without Pillow, where the set is not one of pixels."""
    try:
        sizes, unreadable = _read(source, np.linspace(0, len(source) - 1, wanted).round().astype(np.int64))
    except ModuleNotFoundError as error:
        print(f"Sizes and unreadable images are left out: {error}")
        return {}
    common = ", ".join(f"{size} ({number:,})" for size, number in sizes.most_common(4))
    more = f" and {len(sizes) - 4} more" if len(sizes) > 4 else ""
    print(f"{'sizes':<14}{common or '-'}{more}")
    print(f"{'unreadable':<14}{len(unreadable):,} of {wanted:,} read")
    _list(unreadable)
    return {"read": wanted, "sizes": dict(sizes.most_common()), "unreadable": unreadable}


def _read(source: ImageSource, indices: npt.NDArray[np.int64]) -> tuple[Counter[str], list[str]]:
    sizes: Counter[str] = Counter()
    unreadable = []
    with Progress("reading", "images") as progress:
        for done, index in enumerate(indices.tolist(), start=1):
            try:
                sizes[shape_of(source.read(index))] += 1
            except UnreadableImage as error:
                unreadable.append(str(error))
            progress(done, len(indices))
    return sizes, unreadable


def pack(options: argparse.Namespace) -> Results:
    """Write tar shards or a .rec."""
    refuse_existing(options.out)
    settings: dict[str, Any] = {}
    if options.out.suffix == ".rec":
        if options.shard_size is not None:
            raise ValueError("--shard-size is for tar shards; a .rec is one file")
        settings["format"] = "rec"
    else:
        if options.out.suffix.lower() in NOT_WRITTEN:
            raise ValueError(f"{options.out}: OUT ends in .rec or .tar, or is the name of a folder of shards")
        settings["format"] = "tar"
        single = options.out.suffix == ".tar"
        if single and options.shard_size is not None:
            raise ValueError(f"{options.out}: with --shard-size OUT is a folder, not a .tar")
        settings["shard_size"] = None if single else options.shard_size or 10_000
    return _write(options, settings)


def convert(options: argparse.Namespace) -> Results:
    """Write another format."""
    settings: dict[str, Any] = {"format": options.to}
    if options.to_split:
        settings["split"] = options.to_split
    return _write(options, settings)


def _write(options: argparse.Namespace, settings: dict[str, Any]) -> Results:
    if options.quality is not None:
        settings["quality"] = options.quality
    source = _open(options)
    if options.skip_unreadable:
        source = _readable(source)
    try:
        with Progress("writing", "images") as progress:
            write_source(source, options.out, progress=progress, **settings)
    except UnreadableImage as error:
        raise ValueError(f"{error} (--skip-unreadable leaves such images out)") from error
    print(f"{options.out}: {len(source):,} images of {source.num_classes:,} identities")
    return Results({"out": options.out, "images": len(source), "identities": source.num_classes})


def _readable(source: ImageSource) -> ImageSource:
    """The images that can be read; the others are printed."""
    with Progress("reading", "images") as progress:
        report = check_readable(source, progress, workers=THREADS)
    left_out = [index for index, _ in report.unreadable]
    if not left_out:
        return source
    print(f"left out {len(left_out):,} of {len(source):,} images that cannot be read:")
    _list([message for _, message in report.unreadable])
    return Subset(source, np.setdiff1d(np.arange(len(source)), left_out))


def overlap(options: argparse.Namespace) -> Results:
    """Print the identities that two sets share."""
    if len(options.sources) != (0 if options.embeddings else 2) or (options.embeddings and options.model):
        raise ValueError("give two sets, or --embeddings with two arrays")
    if options.embeddings:
        first, second = (read_npy(path) for path in options.embeddings)
        pairs = similar_identities(first, second, options.threshold)
        print(f"{len(pairs):,} pairs of identities with a cosine of at least {options.threshold:g}")
        for i, j, cosine in pairs:
            print(f"{i:>8}{j:>8}{cosine:>8.3f}")
        return Results({"pairs": [{"first": i, "second": j, "cosine": cosine} for i, j, cosine in pairs]})
    sources = [open_source(path) for path in options.sources]
    if options.model:
        return _overlap_by_model(options, sources)
    first_names, second_names = map(names_of, sources)
    shared = shared_names(first_names, second_names)
    print(f"{len(shared):,} identities shared by name (of {len(first_names):,} and {len(second_names):,})")
    for one, other in shared:
        print(one if one == other else f"{one}  =  {other}")
    return Results({"pairs": [{"first": one, "second": other} for one, other in shared]})


def _overlap_by_model(options: argparse.Namespace, sources: list[ImageSource]) -> Results:
    recipe, network = load_run(options.model)
    device = choose_device(options.device)
    names, means = [], []
    for path, opened in zip(options.sources, sources, strict=True):
        if not opened.num_classes:
            raise ValueError(f"{path}: its images have no identities")
        source = _readable(opened) if options.skip_unreadable else opened
        with Progress(f"embedding {path}", "images") as progress:
            means.append(
                mean_embeddings(
                    recipe,
                    network,
                    source,
                    resize=options.resize,
                    resize_option="--resize",
                    device=device,
                    progress=progress,
                )
            )
        names.append(names_of(source))
    pairs = similar_identities(means[0], means[1], options.threshold)
    print(
        f"{len(pairs):,} pairs of identities with a cosine of at least {options.threshold:g} "
        f"(of {len(names[0]):,} and {len(names[1]):,} identities)"
    )
    for i, j, cosine in pairs:
        print(f"{cosine:.3f}  {names[0][i]}  =  {names[1][j]}")
    found = [{"first": names[0][i], "second": names[1][j], "cosine": cosine} for i, j, cosine in pairs]
    return Results({"pairs": found})


def _open(options: argparse.Namespace) -> ImageSource:
    given = {"split": options.split, "root": options.root, "relabel": options.relabel or None}
    return open_source(
        options.source, options.format, **{key: value for key, value in given.items() if value is not None}
    )


def _guess(source: str) -> str:
    return guess_format(source) if Path(source).exists() else "tar"


def _list(messages: list[str]) -> None:
    for message in messages[:LISTED]:
        print(f"  {message}")
    if len(messages) > LISTED:
        print(f"  and {len(messages) - LISTED:,} more")
