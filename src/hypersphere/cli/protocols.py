"""The protocols of `hypersphere evaluate` beside pairs: blufr, ytf, ijb, megaface, reid, classify."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable

from hypersphere.cli.embedding import finish, gather, image_names
from hypersphere.cli.output import Results
from hypersphere.core import Progress
from hypersphere.core.read_arrays import read_npy
from hypersphere.data import NamedImages
from hypersphere.evaluation import Embeddings, Result, load_embeddings
from hypersphere.evaluation.arrays import Array
from hypersphere.evaluation.protocols import (
    PRESETS,
    IjbOptions,
    read_blufr,
    read_classify,
    read_ijb,
    read_megaface,
    read_reid,
    read_ytf,
    reid_among,
)
from hypersphere.evaluation.results.provenance import file_digests, joined_files
from hypersphere.training.finished_run import newest_head


def evaluate_blufr(options: argparse.Namespace) -> Results:
    """LFW BLUFR."""
    protocol = read_blufr(options.config)
    embeddings, source = gather(options, protocol.names, "blufr", where=protocol.place)
    with Progress("measuring", "trials") as progress:
        result = protocol.evaluate(embeddings, pca=options.pca, allow_missing=options.allow_missing, progress=progress)
    return finish(result, options, {"": source}, options.config.name)


def evaluate_ytf(options: argparse.Namespace) -> Results:
    """YouTube Faces; the frames are what lies in the folders of its videos."""
    protocol = read_ytf(options.splits)
    names = protocol.names_among(image_names(options))
    if not options.allow_missing:
        protocol.check_videos(names)
    embeddings, source = gather(options, names, "ytf")
    with Progress("measuring", "pairs") as progress:
        result = protocol.evaluate(
            embeddings,
            classifiers=options.classifiers,
            bins=options.bins,
            cost=options.cost,
            fars=options.far,
            allow_missing=options.allow_missing,
            progress=progress,
        )
    return finish(result, options, {"": source}, options.splits.name)


def evaluate_ijb(options: argparse.Namespace) -> Results:
    """IJB-B or IJB-C."""
    choices = _ijb_options(options)
    protocol = read_ijb(options.meta, options.subset, allow_missing=options.allow_missing)
    wanted = choices.pooling.flip
    if options.model and options.flip is None and wanted != "given":
        options.flip = "none" if wanted == "first" else wanted
    if options.embeddings and wanted != "given" and options.merge_flip is None:
        raise ValueError(
            f"preset {options.preset} merges image and mirror image: say whether {options.embeddings[0]} holds them"
            f" side by side (--merge-flip {wanted}) or merged already (--merge-flip given)"
        )
    embeddings, source = gather(options, protocol.names, options.subset, where=protocol.place)
    with Progress("measuring", "pairs and probes") as progress:
        result = protocol.evaluate(
            embeddings,
            options=choices,
            tasks=options.task,
            fars=options.far,
            fpirs=options.fpir,
            allow_missing=options.allow_missing,
            progress=progress,
        )
    named = {"subset": options.subset, "preset": options.preset, **result.options}
    return finish(
        dataclasses.replace(result, options=named), options, {"": source}, f"{options.subset}, {options.preset}"
    )


def _ijb_options(options: argparse.Namespace) -> IjbOptions:
    """The preset with what was chosen instead."""
    preset = PRESETS[options.preset]
    chosen = {
        "flip": options.merge_flip,
        "keep_norm": options.keep_norm,
        "detector_score": options.detector_score,
        "media": options.media,
    }
    pooling = dataclasses.replace(preset.pooling, **{k: v for k, v in chosen.items() if v is not None})
    return IjbOptions(
        pooling=pooling, tar_rule=options.tar_rule or preset.tar_rule, search=options.search or preset.search
    )


def evaluate_megaface(options: argparse.Namespace) -> Results:
    """MegaFace challenge 1."""
    protocol = read_megaface(
        options.probes,
        options.distractors,
        probe_noise=options.probe_noise,
        distractor_noise=options.distractor_noise,
        allow_missing=options.allow_missing,
    )
    cleaning = options.cleaning or ("remove" if options.probe_noise and options.distractor_noise else "none")
    listed = protocol.listed(options.limit)
    others: Embeddings | None = None
    if options.distractor_embeddings is not None or options.distractor_images is not None:
        embeddings, source = gather(options, protocol.probes, "probes", where=protocol.place)
        others, far = _distractors(options, listed, protocol.distractor_place)
    else:
        embeddings, source = gather(options, protocol.probes + listed, "probes and distractors", where=protocol.place)
        far = None
    with Progress("searching", "distractors") as progress:
        result = protocol.evaluate(
            embeddings,
            others,
            cleaning=cleaning,
            limit=options.limit,
            allow_missing=options.allow_missing,
            progress=progress,
        )
    if others is not None:
        result = dataclasses.replace(result, options={**result.options, "distractors": dict(others.options)})
    return finish(result, options, {"": source, "distractors": far}, options.distractors.name)


def _distractors(
    options: argparse.Namespace, names: tuple[str, ...], where: Callable[[int], str]
) -> tuple[Embeddings, NamedImages | None]:
    if options.distractor_embeddings is None:
        return gather(
            argparse.Namespace(**{**vars(options), "images": [options.distractor_images]}),
            names,
            "distractors",
            "-distractors",
            where=where,
        )
    if options.distractor_names is None:
        raise ValueError("--distractor-embeddings needs --distractor-names")
    images = None if options.distractor_images is None else NamedImages(options.distractor_images, names)
    return load_embeddings(options.distractor_embeddings, options.distractor_names), images


def evaluate_reid(options: argparse.Namespace) -> Results:
    """Market-1501 or DukeMTMC-reID."""
    if options.market is not None:
        protocol = read_reid(options.market)
        if options.model and not options.images:
            options.images = [options.market]
    else:
        protocol = reid_among(image_names(options), "names")
    embeddings, source = gather(options, protocol.names, "reid", where=protocol.place)
    with Progress("ranking", "queries") as progress:
        result = protocol.evaluate(
            embeddings, area=options.area, allow_missing=options.allow_missing, progress=progress
        )
    return finish(result, options, {"": source}, "" if options.market is None else options.market.name)


def evaluate_classify(options: argparse.Namespace) -> Results:
    """Classification by prototypes."""
    protocol = read_classify(options.test, options.train)
    prototypes = _prototypes(options)
    embeddings, source = gather(options, protocol.names, "classify", where=protocol.place)
    result = protocol.evaluate(
        embeddings, prototypes, similarity=options.similarity, allow_missing=options.allow_missing
    )
    return finish(_with_prototypes(result, options), options, {"": source}, options.test.name)


def _with_prototypes(result: Result, options: argparse.Namespace) -> Result:
    """The result with where its prototypes come from."""
    if options.prototypes is None:
        return dataclasses.replace(result, options={"prototypes": f"head of {options.model[0].name}", **result.options})
    return dataclasses.replace(
        result,
        options={"prototypes": options.prototypes.name, **result.options},
        files=joined_files([result.files, file_digests([options.prototypes])]),
    )


def _prototypes(options: argparse.Namespace) -> Array:
    if options.prototypes is not None:
        return read_npy(options.prototypes)
    run = options.model[0] if options.model else None
    if run is None or not run.is_dir():
        raise ValueError("give --prototypes NPY, or with --model a folder of `train`, whose head has them")
    weight: Array = newest_head(run)["weight"].float().numpy()
    return weight
