"""`hypersphere evaluate`: measure embeddings by a protocol, and compare two results."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hypersphere.cli.models import open_models
from hypersphere.core import Progress
from hypersphere.data import NamedImages
from hypersphere.data.files import Staged
from hypersphere.data.images import Image
from hypersphere.evaluation import Embeddings, Result, concatenated, embed_images, load_embeddings, write_result
from hypersphere.evaluation.compare import compare_results, difference_cells, read_result, write_comparison
from hypersphere.evaluation.comparison import SIMILARITIES, Comparison
from hypersphere.evaluation.protocols import PairList, evaluate_pairs, read_pairs
from hypersphere.evaluation.report import figure_cells, words, write_report
from hypersphere.evaluation.verification import FARS
from hypersphere.models import FLIPS, PRESETS

MERGES = ("concat", "scores")


def add_command(commands: Any) -> None:
    """Add `evaluate` to the command line."""
    parser = commands.add_parser(
        "evaluate",
        help="measure embeddings by a protocol; compare two results",
        description="Measure embeddings by a protocol, with intervals and all choices on record; compare two results.",
    )
    parser.add_argument(
        "--compare", nargs=2, type=Path, metavar=("A", "B"), help="two folders of results, side by side"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="with --compare: write compare.html there")
    parser.set_defaults(run=compare)
    protocols = parser.add_subparsers(title="protocols", metavar="PROTOCOL")
    _add_pairs(protocols)


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """The options of all protocols: where embeddings come from, and where results go."""
    made = parser.add_argument_group("embeddings", "ready ones, or a model and images")
    made.add_argument("--embeddings", type=Path, nargs="+", metavar="NPY", help="(images, dim) arrays")
    made.add_argument("--list", type=Path, nargs="+", metavar="TXT", help="the name of each row's image, line by line")
    made.add_argument(
        "--model", type=Path, nargs="+", metavar="M", help="a folder of `train`, a .safetensors or an .onnx file"
    )
    made.add_argument(
        "--contract",
        metavar="C",
        help=f"of ONNX files: {', '.join(PRESETS)}, or a .toml or .json file (X.contract.toml)",
    )
    made.add_argument(
        "--images", type=Path, nargs="+", metavar="PATH", help="folder, tar or folder of tars, one per list"
    )
    made.add_argument("--resize", action="store_true", help="resize images to the model's size; else they are refused")
    made.add_argument("--flip", choices=FLIPS, help="merge with the mirror image's embedding (the contract's choice)")
    made.add_argument(
        "--snapshots",
        type=int,
        default=1,
        metavar="N",
        help="of a run: the newest N checkpoints, their scores averaged",
    )
    made.add_argument(
        "--merge", choices=MERGES, help="of several models or arrays: embeddings side by side, or the mean of scores"
    )
    made.add_argument("--batch-size", type=int, default=128, metavar="N", help="images at a time (%(default)s)")
    made.add_argument("--device", help="cpu or cuda; what there is by default")
    made.add_argument("--save-embeddings", action="store_true", help="write embeddings.npy and names.txt to DIR too")
    parser.add_argument("--allow-missing", action="store_true", help="leave out what is missing, and count it")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="result.json and report.html go there")


def _add_pairs(protocols: Any) -> None:
    parser = protocols.add_parser(
        "pairs",
        help="LFW, CALFW, CPLFW, AgeDB-30, CFP, .bin packs and any pair list",
        description="Verify pairs: 10 folds, each at the best threshold of the others; ROC, EER, TAR at FAR. Several "
        "lists are measured one by one and pooled.",
    )
    parser.add_argument(
        "--pairs", type=Path, nargs="+", metavar="LIST", help="pair lists, CFP's Split/FP, or .bin packs"
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="PATH",
        help="for --pairs and --images: a .bin, or a folder with a list and images",
    )
    add_inputs(parser)
    compared = parser.add_argument_group("comparison")
    compared.add_argument("--similarity", choices=SIMILARITIES, default="cosine", help="(%(default)s)")
    compared.add_argument("--no-normalize", action="store_true", help="compare embeddings as they are")
    compared.add_argument("--center", action="store_true", help="subtract the mean of the training folds")
    compared.add_argument("--pca", type=int, metavar="N", help="N principal components of the training folds")
    compared.add_argument(
        "--far", type=float, nargs="+", default=FARS, metavar="RATE", help="where TAR is wanted (1e-1 to 1e-6)"
    )
    parser.set_defaults(run=evaluate_pair_lists)


def evaluate_pair_lists(options: argparse.Namespace) -> None:
    """Run the pairs protocol and write its folder."""
    how = Comparison(
        similarity=options.similarity, normalize=not options.no_normalize, center=options.center, pca=options.pca
    )
    if options.data is not None:
        _find_data(options)
    if not options.pairs:
        raise ValueError("give --pairs LIST, or --data PATH")
    lists = [read_pairs(path) for path in options.pairs]
    sources = _sources(options, lists)
    for pairs, source in zip(lists, sources, strict=True):
        if source is not None and not options.allow_missing:
            pairs.check_images(source.missing, source.files)
    made = _make(options, lists, sources)
    with Progress("measuring", "sets") as progress:
        result = evaluate_pairs(
            list(zip(lists, made, strict=True)),
            how,
            allow_missing=options.allow_missing,
            fars=options.far,
            progress=progress,
        )
    titles = [pairs.title for pairs in lists]
    finish(result, options.out, dict(zip(titles, sources, strict=True)), ", ".join(titles))
    if options.save_embeddings:
        _save_embeddings(made, titles, options.out)


def finish(result: Result, out: Path, sources: Mapping[str, NamedImages | None], title: str) -> None:
    """Write result.json and report.html, and print the figures."""

    def picture(name: str) -> Image | None:
        for owner, source in sources.items():
            inside = name.removeprefix(f"{owner}: ") if len(sources) > 1 else name
            if source is not None and (inside != name or len(sources) == 1):
                place = int(source.find([inside])[0])
                return source.read(place) if place >= 0 else None
        return None

    write_result(result, out)
    report = write_report(result, out, title=f"{result.protocol}: {title}", pictures=picture)
    print(f"{result.protocol}: {title}")
    for name, count in result.counts.items():
        print(f"  {words(name):<26}{count:,}")
    for name, figure in result.metrics.items():
        value, interval, n, _ = figure_cells(name, figure)
        owner, _, bare = name.rpartition("/")
        detail = result.details.get(owner or "all")
        if bare == "accuracy" and isinstance(detail, Mapping) and "deviation" in detail:
            value = f"{value} +- {100 * detail['deviation']:.2f}"
        print(f"  {name:<26}{value:<20}{f'[{interval}]':<24}n={n}" if interval else f"  {name:<26}{value}")
    print(f"{out / 'result.json'}\n{report}")


def compare(options: argparse.Namespace) -> None:
    """Print two results side by side."""
    if options.compare is None:
        raise ValueError("name a protocol (`hypersphere evaluate pairs ...`), or two results with --compare A B")
    first, second = (read_result(path) for path in options.compare)
    with Progress("comparing", "metrics") as progress:
        rows = compare_results(first, second, progress=progress)
    print(f"{'':<26}{'A':<30}{'B':<30}{'B - A, points':<26}p")
    for row in rows:
        one, two = (figure_cells(row.name, figure)[0] for figure in (row.first, row.second))
        difference, p, test = difference_cells(row)
        print(f"{row.name:<26}{one:<30}{two:<30}{difference:<26}{f'{p} ({test})' if p else ''}")
    if options.out is not None:
        print(write_comparison(rows, first, second, options.out))


def _find_data(options: argparse.Namespace) -> None:
    """Fill --pairs and --images from --data."""
    if options.pairs or options.images:
        raise ValueError("--data stands for both --pairs and --images; leave these out")
    if options.data.suffix == ".bin":
        options.pairs = [options.data]
        return
    lists = sorted(options.data.glob("*pairs*.txt")) if options.data.is_dir() else []
    if len(lists) != 1:
        found = ", ".join(path.name for path in lists) or "none"
        raise ValueError(
            f"--data {options.data}: expected a folder with one list *pairs*.txt (found {found}), or a .bin"
        )
    options.pairs = lists
    if options.embeddings:
        return
    names = read_pairs(lists[0]).names
    places = [path for path in sorted(options.data.iterdir()) if path.is_dir() or path.suffix == ".tar"]
    if (options.data / names[0]).is_file():
        places = [options.data]
    whole = [path for path in places if not NamedImages(path, names).missing]
    if len(whole) != 1:
        found = ", ".join(path.name for path in whole) or "none"
        raise ValueError(
            f"--data {options.data}: expected one folder or tar in it with all images of {lists[0].name} "
            f"(found {found}); give --pairs and --images"
        )
    options.images = whole


def _sources(options: argparse.Namespace, lists: Sequence[PairList]) -> list[NamedImages | None]:
    """The images of each list: a pack's own, or those of --images in order."""
    given = list(options.images or [])
    others = [path for path in options.pairs if path.suffix != ".bin"]
    if len(given) == 1:
        given *= len(others)
    if given and len(given) != len(others):
        raise ValueError(f"--images: {len(given)} for {len(others)} lists; give one for all, or one for each in order")
    if options.model and not given and others:
        raise ValueError("--model needs --images: where the images of the list are")
    places = iter(given)
    sources: list[NamedImages | None] = []
    for path, pairs in zip(options.pairs, lists, strict=True):
        where = path if path.suffix == ".bin" else next(places, None)
        sources.append(None if where is None else NamedImages(where, pairs.names))
    return sources


def _make(
    options: argparse.Namespace, lists: Sequence[PairList], sources: Sequence[NamedImages | None]
) -> list[list[Embeddings]]:
    """The embeddings of each list, one of each model or array, merged if they are to stand side by side."""
    if bool(options.model) == bool(options.embeddings):
        raise ValueError("give either --model and --images, or --embeddings and --list")
    for name in ("contract", "flip"):
        if options.embeddings and getattr(options, name) is not None:
            raise ValueError(f"--{name} is for models; ready embeddings are taken as they are")
    if options.model:
        made = _embed(options, lists, sources)
    else:
        ready = _ready(options)
        made = [ready for _ in lists]
    several = len(made[0])
    if several > 1 and options.snapshots == 1 and options.merge is None:
        raise ValueError(f"{several} models or arrays: say with --merge concat or --merge scores what to do with them")
    return [[concatenated(each)] for each in made] if several > 1 and options.merge == "concat" else made


def _ready(options: argparse.Namespace) -> list[Embeddings]:
    lists = list(options.list or [])
    if len(lists) not in (1, len(options.embeddings)):
        raise ValueError("--embeddings needs --list: one list of names for all arrays, or one for each in order")
    lists = lists * len(options.embeddings) if len(lists) == 1 else lists
    return [load_embeddings(array, names) for array, names in zip(options.embeddings, lists, strict=True)]


def _embed(
    options: argparse.Namespace, lists: Sequence[PairList], sources: Sequence[NamedImages | None]
) -> list[list[Embeddings]]:
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    made: list[list[Embeddings]] = [[] for _ in lists]
    for path in options.model:
        onnx_on_cpu = path.suffix == ".onnx" and options.device is None
        for model in open_models(
            path,
            contract=options.contract,
            device="cpu" if onnx_on_cpu else device,
            snapshots=options.snapshots,
        ):
            chosen = model if options.flip is None else model.with_flip(options.flip)
            for pairs, source, mine in zip(lists, sources, made, strict=True):
                if source is None:
                    raise ValueError(f"--images: none for {pairs.title}")
                with Progress(f"embedding {pairs.title} by {model.name}", "images") as progress:
                    mine.append(
                        embed_images(
                            chosen, source, resize=options.resize, batch_size=options.batch_size, progress=progress
                        )
                    )
    return made


def _save_embeddings(made: Sequence[Sequence[Embeddings]], titles: Sequence[str], out: Path) -> None:
    for title, several in zip(titles, made, strict=True):
        for number, embeddings in enumerate(several, start=1):
            tag = (f"-{title}" if len(made) > 1 else "") + (f"-{number}" if len(several) > 1 else "")
            with Staged() as stage:
                np.save(stage.open(out / f"embeddings{tag}.npy", replace=True), embeddings.values)
                names = "".join(f"{name}\n" for name in embeddings.names)
                stage.open(out / f"names{tag}.txt", replace=True).write(names.encode())
