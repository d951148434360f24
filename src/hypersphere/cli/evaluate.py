"""`hypersphere evaluate`: measure embeddings by a protocol, and compare two results."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from hypersphere.cli.embedding import finish, make_embeddings, save_embeddings
from hypersphere.core import Progress
from hypersphere.data import NamedImages
from hypersphere.evaluation.compare import (
    compare_results,
    difference_cells,
    only_in_one,
    read_result,
    shown_rows,
    unmeasured,
    write_comparison,
)
from hypersphere.evaluation.comparison import Comparison
from hypersphere.evaluation.metric_tables import figure_cells, not_measurable
from hypersphere.evaluation.protocols import PairList, evaluate_pairs, read_pairs


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
    made = make_embeddings(options, lists, sources)
    with Progress("measuring", "sets") as progress:
        result = evaluate_pairs(
            list(zip(lists, made, strict=True)),
            how,
            allow_missing=options.allow_missing,
            fars=options.far,
            progress=progress,
        )
    titles = [pairs.title for pairs in lists]
    finish(result, options, dict(zip(titles, sources, strict=True)), ", ".join(titles))
    if options.save_embeddings:
        save_embeddings(made, titles, options.out)


def compare(options: argparse.Namespace) -> None:
    """Print two results side by side."""
    first, second = (read_result(path) for path in options.results)
    with Progress("comparing", "metrics") as progress:
        rows = compare_results(first, second, progress=progress)
    print(f"{'':<26}{'A':<30}{'B':<30}{'B - A, points':<26}p")
    for row in shown_rows(rows):
        one, two = (figure_cells(figure)[0] for figure in (row.first, row.second))
        difference, p, test = difference_cells(row)
        print(f"{row.name:<26}{one:<30}{two:<30}{difference:<26}{f'{p} ({test})' if p else test}")
    for sentence in (not_measurable(unmeasured(rows)), *only_in_one(first, second)):
        if sentence:
            print(sentence)
    if options.out is not None:
        print(write_comparison(rows, first, second, options.out, command=options.command))


def _find_data(options: argparse.Namespace) -> None:
    """Fill --pairs and --images from --data."""
    if options.pairs or options.images:
        raise ValueError("--data stands for both --pairs and --images; leave these out")
    if options.data.suffix == ".bin":
        options.pairs = [options.data]
        return
    lists = sorted(options.data.glob("*pairs*.txt")) if options.data.is_dir() else []
    lists = [path for path in lists if path.name == "pairs.txt"] or lists
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
    missing = {path: len(NamedImages(path, names).missing) for path in places}
    some = [path for path, count in missing.items() if count < len(names)]
    whole = [path for path in some if not missing[path]] or some
    if len(whole) != 1:
        found = ", ".join(path.name for path in whole) or "none"
        raise ValueError(
            f"--data {options.data}: expected one folder or tar in it with the images of {lists[0].name} "
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
