"""`hypersphere data`: look at sets of images, pack and convert them, find identities that two sets share."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypersphere as hs
from hypersphere.cli.output import Results
from hypersphere.cli.parser import add_device, model_path
from hypersphere.core import Progress, check_range, choose_device, refuse_existing

if TYPE_CHECKING:
    from hypersphere.data import ImageSource

LAYOUTS = """\
  folder  root/identity/image.jpg
  list    a text file with 'path label' or 'path' on each line
  tar     an archive or a folder of them: key.jpg + key.cls, or identity/image.jpg
  rec     InsightFace's train.rec + train.idx
  bin     InsightFace's verification pack, lfw.bin
  mnist   train-images-idx3-ubyte + train-labels-idx1-ubyte, plain or .gz
  cifar   data_batch_*.bin or train.bin, or split/class/image
  market  bounding_box_train/0002_c1s1_000451_03.jpg, query, bounding_box_test"""
FORMATS = ("folder", "list", "tar", "rec", "bin", "mnist", "cifar", "market")
"""What `hypersphere.data` reads; a test compares."""
SPLITS = ("train", "test", "query", "gallery")
LISTED = 20


def add_command(commands: Any) -> None:
    """Add `data` to the command line."""
    parser = commands.add_parser(
        "data",
        help="inspect, pack and convert sets of images; find shared identities",
        description="Look at sets of images, pack and convert them, find identities that two sets share.",
        epilog=f"formats:\n{LAYOUTS}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    look = actions.add_parser(
        "inspect",
        help="what a set holds",
        description="Show what a set holds: images, identities, sizes, and what cannot be read.",
    )
    _add_source(look)
    look.add_argument(
        "--sample", type=int, default=1000, metavar="N", help="images to read, evenly spread; 0 for all (%(default)s)"
    )
    look.set_defaults(run="data:inspect")
    packer = actions.add_parser(
        "pack",
        help="a folder or list (or any set) into tar shards or a .rec",
        description="Write a set as InsightFace's .rec (OUT ends in .rec), as one archive (.tar), or as a folder of "
        "tar shards. Encoded images are copied byte for byte; their identities keep their names.",
    )
    _add_source(packer)
    _add_target(packer)
    packer.add_argument(
        "--shard-size", type=int, metavar="N", help="images per tar shard, of a folder of shards (10,000)"
    )
    packer.set_defaults(run="data:pack")
    converter = actions.add_parser(
        "convert",
        help="from one format to another",
        description="Write a set in another format. Encoded images are copied byte for byte where it holds such.",
    )
    _add_source(converter)
    _add_target(converter)
    converter.add_argument(
        "--to",
        choices=FORMATS,
        metavar="FORMAT",
        help="format of OUT; by its name's end by default: .rec, .tar, .bin, .txt, otherwise an image folder",
    )
    converter.add_argument("--to-split", choices=SPLITS, metavar="NAME", help=f"OUT's split: {', '.join(SPLITS)}")
    converter.set_defaults(run="data:convert")
    _add_overlap(actions)
    _add_doubtful(actions)


def _add_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="a file or folder; quote a pattern such as 'faces-*.tar'")
    parser.add_argument(
        "--format", choices=FORMATS, metavar="FORMAT", help=f"of SOURCE: {', '.join(FORMATS)}; guessed by default"
    )
    parser.add_argument("--split", metavar="NAME", help=f"{', '.join(SPLITS)}: where the format has several")
    parser.add_argument(
        "--root", type=Path, metavar="FOLDER", help="where a list's paths start from (the list's folder)"
    )
    parser.add_argument("--relabel", action="store_true", help="number the labels that occur from 0 on, gaps or not")


def _add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", metavar="OUT", type=Path, help="where to; must not exist yet")
    parser.add_argument(
        "--quality",
        type=int,
        metavar="N",
        help="JPEG quality, 1 to 100, where SOURCE has pixels only; else they become PNG",
    )
    parser.add_argument(
        "--skip-unreadable",
        action="store_true",
        help="read every image first and leave out those that cannot be read; refuses above 1 %% of them",
    )


def _add_overlap(actions: Any) -> None:
    parser = actions.add_parser(
        "overlap",
        help="identities that two sets share",
        description="Identities that two sets share: by name, or, with --model, by the cosine of their mean "
        "embeddings. Which cosine tells two people apart depends on the model: look where the printed ones drop.",
    )
    parser.add_argument("sources", metavar="SOURCE", nargs="*", help="the two sets")
    parser.add_argument(
        "--model", metavar="RUN", type=Path, help="embed every image with the network of this folder of `train`"
    )
    parser.add_argument(
        "--embeddings",
        metavar="NPY",
        nargs=2,
        type=Path,
        help="instead of sets, two arrays of mean embeddings, a row for each identity in the order of the labels",
    )
    parser.add_argument(
        "--threshold", type=float, default=0.4, metavar="COSINE", help="the least that counts as shared (%(default)s)"
    )
    parser.add_argument("--resize", action="store_true", help="resize images to the model's size")
    parser.add_argument(
        "--skip-unreadable", action="store_true", help="with --model: leave out images that cannot be read, up to 1 %%"
    )
    add_device(parser)
    parser.set_defaults(run="data:overlap")


def _add_doubtful(actions: Any) -> None:
    parser = actions.add_parser(
        "doubtful",
        help="images that may not show the person they are filed under",
        description="List the images whose embedding has a low cosine with the centre of the other images of their "
        "identity. Training leaves them out with data.exclude=OUT. Choose a model that has not learned these labels by "
        "heart: one of few epochs, or of other people.",
    )
    _add_source(parser)
    parser.add_argument("out", metavar="OUT", type=Path, help="the list; must not exist yet")
    parser.add_argument(
        "--model", type=model_path, required=True, metavar="M", help="a model or the folder of a run, or `starter`"
    )
    parser.add_argument("--contract", metavar="C", help="of an ONNX file")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "--threshold", type=float, default=0.0, metavar="COSINE", help="images below it are listed (%(default)s)"
    )
    chosen.add_argument(
        "--share", type=float, metavar="S", help="list the share S with the lowest cosines, such as 0.02"
    )
    parser.add_argument("--resize", action="store_true", help="resize images to the model's size")
    add_device(parser)
    parser.set_defaults(run="data:doubtful")


def inspect(options: argparse.Namespace) -> Results:
    """Print what a set holds."""
    if options.sample < 0:
        raise ValueError(f"--sample {options.sample} must be 0 (all) or more")
    source = _open(options)
    kind = options.format or (hs.data.guess_format(options.source) if Path(options.source).exists() else "tar")
    found = {"format": kind, **hs.data.summarize(source)}
    for name, value in found.items():
        text = f"{value:,}" if not isinstance(value, str | dict) else value
        if name == "per_identity":
            text = f"least {value['least']:,}, median {value['median']:,g}, most {value['most']:,}"
        elif name == "pairs":
            text = f"{value['all']:,}, {value['of_one_person']:,} of one person"
        print(f"{name.replace('_', ' '):<14}{text}")
    wanted = min(options.sample or len(source), len(source))
    try:
        with Progress("reading", "images") as progress:
            sizes, unreadable = hs.data.read_some(source, wanted, progress)
    except ModuleNotFoundError as error:
        print(f"Sizes and unreadable images are left out: {error}")
        return Results(found)
    common = ", ".join(f"{size} ({number:,})" for size, number in sizes.most_common(4))
    print(f"{'sizes':<14}{common or '-'}{f' and {len(sizes) - 4} more' if len(sizes) > 4 else ''}")
    print(f"{'unreadable':<14}{len(unreadable):,} of {wanted:,} read")
    _list(unreadable)
    return Results({**found, "read": wanted, "sizes": dict(sizes.most_common()), "unreadable": unreadable})


def pack(options: argparse.Namespace) -> Results:
    """Write tar shards or a .rec."""
    refuse_existing(options.out)
    suffix, shard_size = options.out.suffix, options.shard_size
    if suffix == ".rec":
        if shard_size is not None:
            raise ValueError("--shard-size is for tar shards; a .rec is one file")
        return _write(options, format="rec")
    if suffix.lower() in hs.data.NOT_WRITTEN:
        raise ValueError(f"{options.out}: OUT ends in .rec or .tar, or is the name of a folder of shards")
    if suffix == ".tar" and shard_size is not None:
        raise ValueError(f"{options.out}: with --shard-size OUT is a folder, not a .tar")
    return _write(
        options, format="tar", shard_size=None if suffix == ".tar" else 10_000 if shard_size is None else shard_size
    )


def convert(options: argparse.Namespace) -> Results:
    """Write another format."""
    return _write(options, format=options.to, **({"split": options.to_split} if options.to_split else {}))


def _write(options: argparse.Namespace, **settings: Any) -> Results:
    if options.quality is not None:
        settings["quality"] = options.quality
    source = _open(options)
    if options.skip_unreadable:
        source = _readable(source)
    try:
        with Progress("writing", "images") as progress:
            hs.data.write_source(source, options.out, progress=progress, **settings)
    except hs.data.UnreadableImage as error:
        raise ValueError(f"{error} (--skip-unreadable leaves such images out)") from error
    print(f"{options.out}: {len(source):,} images of {source.num_classes:,} identities")
    return Results({"out": options.out, "images": len(source), "identities": source.num_classes})


def overlap(options: argparse.Namespace) -> Results:
    """Print the identities that two sets share."""
    if len(options.sources) != (0 if options.embeddings else 2) or (options.embeddings and options.model):
        raise ValueError("give two sets, or --embeddings with two arrays")
    if not (options.embeddings or options.model):
        first, second = (hs.data.names_of(hs.data.open_source(path)) for path in options.sources)
        shared = hs.data.shared_names(first, second)
        print(f"{len(shared):,} identities shared by name (of {len(first):,} and {len(second):,})")
        for one, other in shared:
            print(one if one == other else f"{one}  =  {other}")
        return Results({"pairs": [{"first": one, "second": other} for one, other in shared]})
    if options.embeddings:
        from hypersphere.core.read_arrays import read_npy

        means = [read_npy(path) for path in options.embeddings]
        pairs = hs.data.similar_identities(means[0], means[1], options.threshold)
        names: list[Any] = [range(len(each)) for each in means]
    else:
        names, means = _mean_embeddings(options)
        pairs = hs.data.similar_identities(means[0], means[1], options.threshold)
    of = f" (of {len(names[0]):,} and {len(names[1]):,} identities)" if options.model else ""
    print(f"{len(pairs):,} pairs of identities with a cosine of at least {options.threshold:g}{of}")
    for i, j, cosine in pairs:
        named = f"{cosine:.3f}  {names[0][i]}  =  {names[1][j]}"
        print(named if options.model else f"{i:>8}{j:>8}{cosine:>8.3f}")
    found = [{"first": names[0][i], "second": names[1][j], "cosine": cosine} for i, j, cosine in pairs]
    return Results({"pairs": found})


def doubtful(options: argparse.Namespace) -> Results:
    """Write the list of images that are far from the others of their identity."""
    refuse_existing(options.out)
    check_range("--threshold", options.threshold, -1, 1)
    if options.share is not None:
        check_range("--share", options.share, 0, 1)
    source = _open(options)
    if not source.num_classes:
        raise ValueError(f"{options.source}: its images have no identities")
    device = choose_device(options.device)
    (model,) = hs.training.open_models(options.model, contract=options.contract, device=device)
    fitted = model.fitted(source, resize=options.resize, resize_option="--resize")
    with Progress("embedding", "images") as progress:
        embeddings = hs.evaluation.embed(model, fitted, progress=progress)
    cosines = hs.data.center_cosines(embeddings.numpy(), source.labels)
    threshold = options.threshold if options.share is None else hs.data.share_threshold(cosines, options.share)
    found = hs.data.write_doubtful(options.out, source, cosines, threshold)
    print(f"{found.compared:,} of {len(source):,} images have others of their identity to be compared with")
    for share, cosine in found.percentiles.items():
        print(f"{share:>4} % of them have a cosine below {cosine:.3f}")
    count, gone = len(found.indices), found.identities
    print(f"{options.out}: {count:,} images below {threshold:.4g}, all there are of {gone:,} identities")
    return Results({"out": options.out, "images": count, "identities": gone, "percentiles": found.percentiles})


def _mean_embeddings(options: argparse.Namespace) -> tuple[list[Any], list[Any]]:
    """The names of the identities of each set, and their mean embeddings by the model."""
    sources = [hs.data.open_source(path) for path in options.sources]
    recipe, network = hs.training.load_run(options.model)
    device = choose_device(options.device)
    names, means = [], []
    for path, opened in zip(options.sources, sources, strict=True):
        if not opened.num_classes:
            raise ValueError(f"{path}: its images have no identities")
        source = _readable(opened) if options.skip_unreadable else opened
        how: dict[str, Any] = {"resize": options.resize, "resize_option": "--resize", "device": device}
        with Progress(f"embedding {path}", "images") as progress:
            means.append(hs.training.mean_embeddings(recipe, network, source, progress=progress, **how))
        names.append(hs.data.names_of(source))
    return names, means


def _open(options: argparse.Namespace) -> ImageSource:
    given = {"split": options.split, "root": options.root, "relabel": options.relabel or None}
    given = {key: value for key, value in given.items() if value is not None}
    return hs.data.open_source(options.source, options.format, **given)


def _readable(source: ImageSource) -> ImageSource:
    """The images that can be read; the others are printed."""
    with Progress("reading", "images") as progress:
        readable, unreadable = hs.data.without_unreadable(source, progress)
    if unreadable:
        print(f"left out {len(unreadable):,} of {len(source):,} images that cannot be read:")
        _list(unreadable)
    return readable


def _list(messages: list[str]) -> None:
    for message in messages[:LISTED]:
        print(f"  {message}")
    if len(messages) > LISTED:
        print(f"  and {len(messages) - LISTED:,} more")
